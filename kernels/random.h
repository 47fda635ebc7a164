// Random numbers: element i (in row-major order) of a call is a pure function of the Philox seed,
// the offset and i. `out` is contiguous; random_blocks() gives the number of Philox blocks that a
// call uses.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ferrite/core/generator.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// The number of blocks, of four 32-bit words each, for `numel` elements: one per four elements, or
/// one per two of float64 and integer dtypes.
inline std::uint64_t random_blocks(std::int64_t numel, DType dtype) {
  const auto n = static_cast<std::uint64_t>(numel);
  return itemsize(dtype) <= 4 && is_floating(dtype) ? (n + 3) / 4 : (n + 1) / 2;
}

/// Floating types: uniform in [low, high).
FERRITE_KERNEL(uniform, const View& out, PhiloxState state, double low, double high);
/// Floating types: normal, by Box-Muller ("A Note on the Generation of Random Normal Deviates",
/// 1958).
FERRITE_KERNEL(normal, const View& out, PhiloxState state, double mean, double std);
/// Any type: integers uniform in [low, high), each from 64 random bits.
FERRITE_KERNEL_OF("randint", random_integers, const View& out, PhiloxState state, std::int64_t low,
                  std::int64_t high);
/// Any type: 1 with probability `p`, else 0. Uses random_blocks(numel, kFloat32).
FERRITE_KERNEL_FUNCTION(bernoulli, const View& out, PhiloxState state, double p);
/// 1 with probability p[i]. `p` is contiguous, and has the dtype of `out` if that is floating, else
/// float32.
FERRITE_KERNEL_FUNCTION(bernoulli, const View& out, PhiloxState state, const View& p);
/// int64: 0..n-1 in random order (sorted by random keys). Uses random_blocks(n, kInt64).
FERRITE_KERNEL_OF("randperm", permutation, const View& out, PhiloxState state);

/// Maps u in [0, 1) to min(low + u * span, top), a value of T in [low, high).
template <class T>
struct UniformRange {
  using C = Compute<T>;

  UniformRange(double low, double high)
      : low(static_cast<C>(low)),
        span(static_cast<C>(high - low)),
        // Rounding must not reach the upper bound, which is excluded.
        top(std::max(static_cast<C>(low), below(static_cast<C>(high)))) {}

  C low, span, top;

 private:
  /// The largest value of T below `high`.
  static C below(C high) {
    if constexpr (is_half_type<T>) {
      T t(high);
      if (static_cast<float>(t) < high) return static_cast<float>(t);
      t.bits = static_cast<std::uint16_t>(high > 0 ? t.bits - 1 : high < 0 ? t.bits + 1 : 0x8001);
      return static_cast<float>(t);
    } else {
      return std::nextafter(high, -std::numeric_limits<C>::infinity());
    }
  }
};

}  // namespace ferrite::kernels
