#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/tests/architecture/source_text.h"

namespace ferrite::test {

// What is wrong with `list`, the text of cmake/public_headers.txt: a header that does not exist or
// is listed twice, one that a public header includes and the list lacks, and one that is listed as
// included by public headers and is not.
std::vector<std::string> check_public_headers(std::string_view list,
                                              std::span<const SourceFile> files);

}  // namespace ferrite::test
