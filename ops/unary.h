// Elementwise functions of one tensor. The activations are in ops/activation.h.
//
// The result has the input's shape, device and memory format. Floating dtypes are kept; integers
// and bool become float32 in functions with fractional results (exp, sin, sqrt...), as in PyTorch.
// A function whose name ends in _ changes `self` in place and returns it: DTypeError if an integer
// tensor cannot hold the result. All gradients are differentiable to any order.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

// Any numeric dtype (bool: DTypeError, unless noted).
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
/// -1, 0 or 1; 0 for NaN. bool is unchanged.
Tensor sign(const Tensor& x);
/// int64 for bool.
Tensor square(const Tensor& x);
/// Integers are unchanged.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
/// Ties go to even.
Tensor round(const Tensor& x);
Tensor trunc(const Tensor& x);

Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor erf(const Tensor& x);

// bool results, off the tape.
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor logical_not(const Tensor& x);

inline Tensor operator-(const Tensor& x) { return neg(x); }

const Tensor& neg_(const Tensor& self);
const Tensor& abs_(const Tensor& self);
const Tensor& square_(const Tensor& self);
const Tensor& floor_(const Tensor& self);
const Tensor& ceil_(const Tensor& self);
const Tensor& round_(const Tensor& self);
const Tensor& trunc_(const Tensor& self);
const Tensor& sign_(const Tensor& self);
const Tensor& exp_(const Tensor& self);
const Tensor& exp2_(const Tensor& self);
const Tensor& expm1_(const Tensor& self);
const Tensor& log_(const Tensor& self);
const Tensor& log1p_(const Tensor& self);
const Tensor& log2_(const Tensor& self);
const Tensor& sqrt_(const Tensor& self);
const Tensor& rsqrt_(const Tensor& self);
const Tensor& reciprocal_(const Tensor& self);
const Tensor& sin_(const Tensor& self);
const Tensor& cos_(const Tensor& self);
const Tensor& tan_(const Tensor& self);
const Tensor& erf_(const Tensor& self);

}  // namespace ferrite
