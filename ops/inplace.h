// Helpers for in-place changes by another tensor, for ops/ alone.
#pragma once

#include "ferrite/autograd/record.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/ops/promotion.h"

namespace ferrite::ops {

/// Checks self.op(other), and that `self` can store the result; returns the dtype for the
/// computation.
inline DType inplace_dtype(const Tensor& self, const Tensor& other, const char* op,
                           bool divides = false) {
  check_same_device(self, other, op);
  FERRITE_CHECK(self.device() == other.device() || !self.device().is_host(), DeviceError, op,
                "{} on the host cannot be changed by {}; move one with to(device)", self.describe(),
                other.describe());
  DType result = result_type(self, other);
  if (divides) result = floating_type(result);
  FERRITE_CHECK(can_store(result, self.dtype()), DTypeError, op,
                "the result is {}, which cannot be stored in place in {}", result, self.dtype());
  FERRITE_CHECK(broadcast_shapes(self.shape(), other.shape(), op) == self.shape(), ShapeError, op,
                "{} changed in place cannot take the shape it has with {}", self.describe(),
                other.describe());
  autograd::check_inplace(self, op);
  return result;
}

/// self = kernel(self, other), computed in `dtype` and rounded once.
template <class Kernel>
void change(const Tensor& self, const Tensor& other, DType dtype, const char* op, Kernel kernel,
            Rounding rounding = Rounding::early) {
  const Stream stream = current_stream(self.device());
  // Identical elementwise overlap is fine, but not a shifted or transposed one.
  const bool shifted = geometry::may_overlap(self, other) && !geometry::same_elements(self, other);
  const Tensor b = operand(shifted ? no_grad([&] { return other.clone(); }) : other,
                           rounding == Rounding::late ? factor_type(other, dtype) : dtype,
                           self.shape(), self.device());
  if (dtype == self.dtype()) {
    kernel(stream, self, b);
  } else {
    const Tensor wide = operand(self, dtype, self.shape(), self.device());
    kernel(stream, wide, b);
    kernels::copy(stream, self, wide);
  }
  autograd::changed_inplace(self, op);
}

inline void change(kernels::BinaryOp function, const Tensor& self, const Tensor& other, DType dtype,
                   const char* op) {
  change(
      self, other, dtype, op,
      [&](const Stream& stream, const Tensor& a, const Tensor& b) {
        kernels::binary(stream, function, a, a, b);
      },
      rounding_of(function));
}

/// The operands that gradients of a product, quotient or power need, kept before the change
/// destroys them.
struct Before {
  Before(const Tensor& self, const Tensor& other) : records(autograd::recording(self, other)) {
    if (!records) return;
    if (other.requires_grad()) a = self.clone();
    b = geometry::may_overlap(self, other) ? other.clone() : other;
  }
  bool records;
  Tensor a, b;
};

/// `t`, or a copy of it (on the tape) if an in-place change of `self` would change it too.
inline Tensor unaliased(const Tensor& t, const Tensor& self) {
  return geometry::may_overlap(t, self) ? t.clone() : t;
}

}  // namespace ferrite::ops
