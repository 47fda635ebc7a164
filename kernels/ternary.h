// Elementwise arithmetic of three operands in one pass.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class TernaryOp : std::uint8_t {
  addcmul,      // a + factor * b * c
  addcdiv,      // a + factor * b / c
  lerp,         // a + c (b - a)
  lerp_scalar,  // a + factor (b - a); c is not used, but must be a view of that size
};

/// out = op(a, b, c), of one floating dtype; 16-bit types compute in float. Equal sizes (broadcast
/// operands have strides of 0), any strides; `out` may be one of the others.
FERRITE_KERNEL(ternary, TernaryOp op, const View& out, const View& a, const View& b, const View& c,
               Scalar factor);

}  // namespace ferrite::kernels
