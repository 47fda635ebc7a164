// Text in columns and in CSV files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferrite::metrics {

/// Terminal columns of UTF-8 text, assuming that every character is one column wide.
std::size_t text_columns(std::string_view text);
/// Its first `columns` characters, without trailing spaces.
std::string text_cut(std::string_view text, std::size_t columns);

enum class Align : std::uint8_t { left, right };
/// Padded with spaces.
std::string text_padded(std::string_view text, std::size_t columns, Align align = Align::left);

/// A field of a CSV file (RFC 4180), quoted if necessary.
std::string csv_field(std::string_view text);

}  // namespace ferrite::metrics
