#include "ferrite/data/inspect/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace ferrite::inspect {

namespace {

/// The code point of the UTF-8 character at the beginning of the text and its length; a length of 0
/// if there is none.
struct Character {
  std::uint32_t code = 0;
  std::size_t length = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  std::uint32_t code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  // The least code of each length; surrogates and what is above Unicode are no characters.
  constexpr std::uint32_t kLeast[] = {0x80, 0x800, 0x10000};
  const bool valid =
      code >= kLeast[length - 2] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? Character{code, length} : Character{};
}

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
    const Character c = first_character(text);
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
