// Checks of values where they are: on the device's stream.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// Throws ValueError, on the stream, naming a value of the floating `in` outside [low, high]. NaN
/// passes. `op` must be a string literal.
FERRITE_KERNEL(check_range, const char* op, const View& in, double low, double high);

}  // namespace ferrite::kernels
