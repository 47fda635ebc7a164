// A pair of sizes, height first, as taken by convolutions and poolings.
#pragma once

#include <cstdint>

namespace ferrite {

/// Converts from one number, which then applies to both: `{.stride = 2, .dilation = {1, 3}}`.
struct Pair {
  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t height, std::int64_t width) : h(height), w(width) {}

  std::int64_t h, w;

  friend bool operator==(const Pair&, const Pair&) = default;
};

}  // namespace ferrite
