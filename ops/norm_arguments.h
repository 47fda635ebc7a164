// How norms check and convert what they are given, and the type that they compute in.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/kernels/view.h"

namespace ferrite::ops::norms {

/// What statistics and parameters of an input are computed in.
constexpr DType statistics_dtype(DType input) { return input == kFloat64 ? kFloat64 : kFloat32; }

void check_input(const Tensor& input, const char* op);
void check_eps(double eps, const char* op);
/// That both are there, or neither, and that they are no parameters, which weight and bias in their
/// place would be.
void check_running(const Tensor& mean, const Tensor& var, const char* op);
/// `t` may be undefined.
void check_parameter(const Tensor& t, const Shape& shape, const Tensor& input, const char* name,
                     const char* op);

/// A parameter or gradient as kernels take it, off the tape; itself where nothing changes.
Tensor dense(const Tensor& t, DType dtype, MemoryFormat format = kContiguous);
inline kernels::View optional(const Tensor& t) {
  return t.defined() ? kernels::View(t) : kernels::View();
}
/// A gradient computed with the statistics, in its parameter's dtype.
Tensor as_dtype(const Tensor& grad, DType dtype);

}  // namespace ferrite::ops::norms
