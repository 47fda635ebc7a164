#include "ferrite/data/inspect/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "ferrite/core/utf8.h"

namespace ferrite::inspect {

namespace {

bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

std::string escape(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\x{:02x}", code);
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character c = first_utf8_character(text);
    const std::size_t length = std::max<std::size_t>(c.length, 1);
    if (c.length == 0)
      out += escape(static_cast<std::uint8_t>(text[0]));
    else if (is_control(c.code))
      out += escape(c.code);
    else
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

std::string printable_json(const std::string& json) {
  std::string out;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto c = static_cast<std::uint8_t>(json[i]);
    const auto next = static_cast<std::uint8_t>(i + 1 < json.size() ? json[i + 1] : 0);
    if (c == 0x7f) {
      out += "\\u007f";
    } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // UTF-8 of U+0080 to U+009F
      out += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      out += json[i];
    }
  }
  return out;
}

}  // namespace ferrite::inspect
