// Functions of two and three operands made of others: blends, logarithms of sums, products of logs.
// Shapes, devices and dtypes are treated as in ops/arithmetic.h. All gradients are differentiable
// to any order. A function whose name ends in _ changes `self` in place and returns it (DTypeError
// if it cannot hold the result).
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

/// sqrt(a^2 + b^2), without overflow. Integers become floating; the gradient at 0 is 0.
Tensor hypot(const Tensor& a, const Tensor& b);
/// |a| with the sign of b, that of -0 included. Integers become floating.
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Scalar b);
/// log(exp(a) + exp(b)), and the same to base 2, without overflow. Floating types (DTypeError).
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// log2(2^a + 2^b), without overflow.
Tensor logaddexp2(const Tensor& a, const Tensor& b);
/// a log(b); 0 where a is 0, unless b is NaN. Integers become floating.
Tensor xlogy(const Tensor& a, const Tensor& b);
Tensor xlogy(const Tensor& a, Scalar b);
Tensor xlogy(Scalar a, const Tensor& b);
/// 0 below 0, 1 above, and `values` at 0. Off the tape; DTypeError unless the dtypes agree.
Tensor heaviside(const Tensor& x, const Tensor& values);

/// start + weight (end - start). Floating types (DTypeError); the dtypes must agree.
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight);
const Tensor& lerp_(const Tensor& self, const Tensor& end, const Tensor& weight);
const Tensor& lerp_(const Tensor& self, const Tensor& end, Scalar weight);
/// x + value * a * b, of complex numbers too.
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
const Tensor& addcmul_(const Tensor& self, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + value * a / b, likewise. Integers are divided only into floating tensors (DTypeError).
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
const Tensor& addcdiv_(const Tensor& self, const Tensor& a, const Tensor& b, Scalar value = 1);

}  // namespace ferrite
