// The range of uniform random numbers, in the arithmetic that draws them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ferrite/core/dtype.h"

namespace ferrite::kernels {

/// Numbers u in [0, 1) become min(low + u * span, top), elements of T in [low, high).
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
  /// A value of T just below `high`.
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
