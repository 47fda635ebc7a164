// Reading UTF-8 that may be invalid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ferrite {

/// A valid UTF-8 sequence (Unicode 15, table 3-7).
struct Utf8Character {
  std::size_t length = 0;  ///< in bytes; 0 if there is none
  std::uint32_t code = 0;
};

/// The character at the front of a text that is not empty.
Utf8Character first_utf8_character(std::string_view text);

}  // namespace ferrite
