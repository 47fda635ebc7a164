// Sizes of two and three dimensions, the outermost first, as taken by convolutions and poolings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace ferrite {

/// Converts from one number, which then applies to both: `{.stride = 2, .dilation = {1, 3}}`.
struct Pair {
  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t height, std::int64_t width) : h(height), w(width) {}

  std::int64_t h;
  std::int64_t w;

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

/// Depth, height and width: `{.stride = 2, .dilation = {1, 1, 3}}`.
struct Triple {
  constexpr Triple(std::int64_t all) : d(all), h(all), w(all) {}
  constexpr Triple(std::int64_t depth, std::int64_t height, std::int64_t width)
      : d(depth), h(height), w(width) {}

  std::int64_t d;  ///< depth
  std::int64_t h;
  std::int64_t w;

  /// Height and width.
  constexpr Pair plane() const { return {h, w}; }

  friend bool operator==(const Triple&, const Triple&) = default;
};

/// A Triple that may be left out of options.
struct OptionalTriple : std::optional<Triple> {
  constexpr OptionalTriple() = default;
  constexpr OptionalTriple(Triple triple) : std::optional<Triple>(triple) {}
  constexpr OptionalTriple(std::int64_t all) : OptionalTriple(Triple(all)) {}
  constexpr OptionalTriple(std::int64_t depth, std::int64_t height, std::int64_t width)
      : OptionalTriple(Triple(depth, height, width)) {}
};

/// One size for each of N dimensions: a number, a Pair or a Triple.
template <int N>
using SizeOf = std::conditional_t<N == 1, std::int64_t, std::conditional_t<N == 2, Pair, Triple>>;
/// A SizeOf that may be left out of options.
template <int N>
using OptionalSizeOf = std::conditional_t<N == 1, std::optional<std::int64_t>,
                                          std::conditional_t<N == 2, OptionalPair, OptionalTriple>>;

namespace ops {
/// The sizes in order.
constexpr std::array<std::int64_t, 1> sizes_of(std::int64_t size) { return {size}; }
constexpr std::array<std::int64_t, 2> sizes_of(Pair p) { return {p.h, p.w}; }
constexpr std::array<std::int64_t, 3> sizes_of(Triple t) { return {t.d, t.h, t.w}; }

/// First member of an options struct: prevents `{3, 1}` from initializing its fields in order, so
/// that it can mean a Pair in overloads that take either. `{.stride = 3}` is the struct.
struct NamedFieldsOnly {
  constexpr NamedFieldsOnly() {}
};
}  // namespace ops

}  // namespace ferrite
