// Numbers brought into the range of a type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ferrite/core/scalar.h"

namespace ferrite::kernels {

/// A bound in the integer type T, or the end of T's range beyond which it lies.
template <class T>
T saturated(Scalar bound) {
  using Limits = std::numeric_limits<T>;
  if (bound.is_floating()) {
    const double v = bound.to<double>();
    if (v >= static_cast<double>(Limits::max())) return Limits::max();
    return v > static_cast<double>(Limits::lowest()) ? static_cast<T>(v) : Limits::lowest();
  }
  return static_cast<T>(
      std::clamp<std::int64_t>(bound.to<std::int64_t>(), Limits::lowest(), Limits::max()));
}

}  // namespace ferrite::kernels
