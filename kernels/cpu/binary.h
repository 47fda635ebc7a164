#pragma once

#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels::cpu {

void binary(BinaryOp op, const View& out, const View& a, const View& b);
void binary(BinaryOp op, const View& out, const View& a, Scalar b);
void binary(BinaryOp op, const View& out, Scalar a, const View& b);
void add_scaled(const View& out, const View& a, const View& b, Scalar alpha);

// The two halves of binary(). Beside 16-bit values one operand may be float32 (a scalar).
void arithmetic(BinaryOp op, const View& out, const View& a, const View& b);
void comparison(BinaryOp op, const View& out, const View& a, const View& b);

/// The tensors' dtype where one operand is a scalar.
inline DType operand_dtype(const View& a, const View& b) {
  return itemsize(a.dtype) <= itemsize(b.dtype) ? a.dtype : b.dtype;
}

}  // namespace ferrite::kernels::cpu
