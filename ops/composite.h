// Ops made of other ops, for ops/ alone.
#pragma once

#include <utility>

#include "ferrite/autograd/autocast.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/renamed.h"

namespace ferrite::ops {

/// f(), as the op `op` of these tensors, which must be defined: profiles show one event of that
/// name, and errors of the ops within carry it. Regions of autocast do not reach these: a policy is
/// applied before.
template <class F, class... Tensors>
decltype(auto) composite(const char* op, F&& f, const Tensors&... inputs) {
  const profiler::OpRange range(op, inputs...);
  (check_defined(inputs, op), ...);
  const autograd::AutocastScope off(nullptr);
  return renamed(op, std::forward<F>(f));
}

/// self = f(self), in place and on the tape, for an f made of other ops. DTypeError if `self`
/// cannot hold the result.
template <class F, class... Tensors>
const Tensor& composite_(const char* op, const Tensor& self, F&& f, const Tensors&... others) {
  composite(
      op,
      [&] {
        autograd::check_inplace(self, op);
        const Tensor result = f(autograd::recording(self, others...) ? self.clone() : self);
        FERRITE_CHECK(can_store(result.dtype(), self.dtype()), DTypeError, op,
                      "the result is {}, which cannot be stored in place in {}", result.dtype(),
                      self.dtype());
        FERRITE_CHECK(result.shape() == self.shape(), ShapeError, op,
                      "the result has the shape {}, the tensor changed in place {}", result.shape(),
                      self.shape());
        self.copy_(result);
      },
      self, others...);
  return self;
}

/// f(tensors...) of tensors in `dtype`. Of 16 bits they are float32 meanwhile, and the result is
/// rounded once.
template <class F, class... Tensors>
Tensor computed_in(DType dtype, F&& f, const Tensors&... tensors) {
  const bool half = is_floating(dtype) && itemsize(dtype) == 2;
  const DType wide = half ? kFloat32 : dtype;
  return f((tensors.dtype() == wide ? tensors : tensors.to(wide))...).to(dtype);
}

}  // namespace ferrite::ops
