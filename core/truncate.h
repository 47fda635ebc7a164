// Conversion of floating-point numbers to integers that is defined for all numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>

#include "ferrite/core/host_device.h"

namespace ferrite {

/// The integer next to x towards 0. NaN and what does not fit give the smallest integer, as the
/// instruction of x86 does; a C++ cast leaves them undefined.
template <std::floating_point F>
FERRITE_HOST_DEVICE constexpr std::int64_t truncate_to_int64(F x) {
  return x >= F(-0x1p63) && x < F(0x1p63) ? static_cast<std::int64_t>(x)
                                          : std::numeric_limits<std::int64_t>::min();
}

}  // namespace ferrite
