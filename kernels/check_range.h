// Range checks of tensor values, which run on the device's stream.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// Reports a ValueError on the stream if an element of `in` (a floating dtype, any strides) lies
/// outside [low, high]; the message names one such value. NaN passes. `op` must be a string
/// literal.
FERRITE_KERNEL(check_range, const char* op, const View& in, double low, double high);

}  // namespace ferrite::kernels
