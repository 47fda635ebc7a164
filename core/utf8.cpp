#include "ferrite/core/utf8.h"

namespace ferrite {

Utf8Character first_utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])) : 0u;
  };
  const std::uint32_t b = byte(0);
  if (b < 0x80) return {1, b};
  const std::size_t length = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
  std::uint32_t code = b & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (b < 0xc2 || b > 0xf4 || code < kLeast[length] || code > 0x10ffff || surrogate) return {};
  return {length, code};
}

}  // namespace ferrite
