// Text in CSV files.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::metrics {

/// A field of a CSV file (RFC 4180), quoted if necessary.
std::string csv_field(std::string_view text);

}  // namespace ferrite::metrics
