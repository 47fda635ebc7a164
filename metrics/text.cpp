#include "ferrite/metrics/text.h"

#include <algorithm>

namespace ferrite::metrics {

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

std::size_t text_columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string text_cut(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if (begins_character(text[end]) && columns-- == 0) break;
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end));
}

std::string text_padded(std::string_view text, std::size_t columns, Align align) {
  const std::size_t taken = text_columns(text);
  const std::string spaces(columns > taken ? columns - taken : 0, ' ');
  return align == Align::left ? std::string(text) + spaces : spaces + std::string(text);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos && !text.starts_with(' ') && !text.ends_with(' '))
    return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace ferrite::metrics
