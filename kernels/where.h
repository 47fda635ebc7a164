// Elementwise selection between two operands.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// out = condition ? a : b. `condition` is bool; the others share a dtype. Equal sizes, any
/// strides; `out` may be `a` or `b`.
FERRITE_KERNEL(where, const View& out, const View& condition, const View& a, const View& b);

}  // namespace ferrite::kernels
