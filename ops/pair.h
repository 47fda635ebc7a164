// A pair of sizes, heights first, as convolutions and poolings take them.
#pragma once

#include <cstdint>

namespace ferrite {

/// Converts from one number, which then counts for both: `{.stride = 2, .dilation = {1, 3}}`.
struct Pair {
  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t height, std::int64_t width) : h(height), w(width) {}

  std::int64_t h, w;

  friend bool operator==(const Pair&, const Pair&) = default;
};

}  // namespace ferrite
