#pragma once

#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels::cpu {

// The two halves of binary(). Beside 16-bit values one operand may be float32 (a scalar).
void arithmetic(BinaryOp op, const View& out, const View& a, const View& b);
void comparison(BinaryOp op, const View& out, const View& a, const View& b);

/// The tensors' dtype where one operand is a scalar.
inline DType operand_dtype(const View& a, const View& b) {
  return itemsize(a.dtype) <= itemsize(b.dtype) ? a.dtype : b.dtype;
}

}  // namespace ferrite::kernels::cpu
