// Text in columns, and in files of tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferrite::metrics {

/// Columns of a terminal that UTF-8 text takes, where every character is one wide.
std::size_t text_columns(std::string_view text);
/// Its first `columns` characters, without spaces at their end.
std::string text_cut(std::string_view text, std::size_t columns);

enum class Align : std::uint8_t { left, right };
/// Filled up with spaces.
std::string text_padded(std::string_view text, std::size_t columns, Align align = Align::left);

/// A field of a CSV file (RFC 4180): quoted where it has to be.
std::string csv_field(std::string_view text);

}  // namespace ferrite::metrics
