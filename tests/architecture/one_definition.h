#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/tests/architecture/source_text.h"

namespace ferrite::test {

// The classes and enumerations that a source defines at namespace scope, with their namespaces:
// "ferrite::nn::Module". Excludes template specialisations and the contents of anonymous
// namespaces, which may occur more than once.
std::vector<std::string> defined_types(std::string_view text);

// The types that two sources of one program define: "X: defined in a.h and in b.h". Each folder of
// tests/, examples/ and benchmarks/ is one program, together with the library and the folders that
// all of them share: tests/support, tests/kit and examples/common.
std::vector<std::string> doubled_definitions(std::span<const SourceFile> files);

}  // namespace ferrite::test
