// A pair of sizes, height first, as taken by convolutions and poolings.
#pragma once

#include <cstdint>
#include <optional>

namespace ferrite {

/// Converts from one number, which then applies to both: `{.stride = 2, .dilation = {1, 3}}`.
struct Pair {
  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t height, std::int64_t width) : h(height), w(width) {}

  std::int64_t h, w;

  friend bool operator==(const Pair&, const Pair&) = default;
};

/// One that may be left out of options: `{.stride = {1, 3}}`.
struct OptionalPair : std::optional<Pair> {
  constexpr OptionalPair() = default;
  constexpr OptionalPair(Pair pair) : std::optional<Pair>(pair) {}
  constexpr OptionalPair(std::int64_t both) : OptionalPair(Pair(both)) {}
  constexpr OptionalPair(std::int64_t height, std::int64_t width)
      : OptionalPair(Pair(height, width)) {}
};

namespace ops {
/// First member of an options struct: prevents `{3, 1}` from initializing its fields in order, so
/// that it can mean a Pair in overloads that take either. `{.stride = 3}` is the struct.
struct NamedFieldsOnly {
  constexpr NamedFieldsOnly() {}
};
}  // namespace ops

}  // namespace ferrite
