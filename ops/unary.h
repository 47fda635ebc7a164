// Elementwise functions of one tensor. The activations are in ops/activation.h.
//
// The result has the input's shape, device and memory format. Floating dtypes are kept; integers
// and bool become float32 in functions with fractional results (exp, sin, sqrt...), as in PyTorch.
// A function whose name ends in _ changes `self` in place and returns it: DTypeError if an integer
// tensor cannot hold the result. All gradients are differentiable to any order.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite {

// Any numeric dtype (bool: DTypeError, unless noted).
/// -x.
Tensor neg(const Tensor& x);
/// The absolute value.
Tensor abs(const Tensor& x);
/// -1, 0 or 1 by the sign of each element; 0 for NaN. bool is unchanged.
Tensor sign(const Tensor& x);
/// x * x, elementwise; int64 for bool.
Tensor square(const Tensor& x);
/// The next integer below or equal, in the dtype of x. Integers are unchanged.
Tensor floor(const Tensor& x);
/// The next integer above or equal, in the dtype of x. Integers are unchanged.
Tensor ceil(const Tensor& x);
/// The nearest integer, in the dtype of x; of two equally near ones the even one. Integers are
/// unchanged.
Tensor round(const Tensor& x);
/// x without its fraction, in the dtype of x: towards 0. Integers are unchanged.
Tensor trunc(const Tensor& x);

/// e^x, elementwise.
Tensor exp(const Tensor& x);
/// 2^x, elementwise.
Tensor exp2(const Tensor& x);
/// e^x - 1, elementwise, without loss of digits near 0.
Tensor expm1(const Tensor& x);
/// The natural logarithm, elementwise; NaN below 0.
Tensor log(const Tensor& x);
/// log(1 + x), elementwise, without loss of digits near 0; NaN below -1.
Tensor log1p(const Tensor& x);
/// The logarithm to base 2, elementwise; NaN below 0.
Tensor log2(const Tensor& x);
/// The logarithm to base 10, elementwise; NaN below 0.
Tensor log10(const Tensor& x);
/// The square root, elementwise; NaN below 0.
Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x), elementwise; NaN below 0.
Tensor rsqrt(const Tensor& x);
/// 1 / x, elementwise.
Tensor reciprocal(const Tensor& x);
/// The sine of radians, elementwise.
Tensor sin(const Tensor& x);
/// The cosine of radians, elementwise.
Tensor cos(const Tensor& x);
/// The tangent of radians, elementwise.
Tensor tan(const Tensor& x);
/// The inverse of the sine, in radians; NaN outside [-1, 1].
Tensor asin(const Tensor& x);
/// The inverse of the cosine, in radians; NaN outside [-1, 1].
Tensor acos(const Tensor& x);
/// The inverse of the tangent, in radians.
Tensor atan(const Tensor& x);
/// The hyperbolic sine, elementwise.
Tensor sinh(const Tensor& x);
/// The hyperbolic cosine, elementwise.
Tensor cosh(const Tensor& x);
/// The inverse of the hyperbolic sine.
Tensor asinh(const Tensor& x);
/// The inverse of the hyperbolic cosine; NaN below 1.
Tensor acosh(const Tensor& x);
/// The inverse of the hyperbolic tangent; NaN outside [-1, 1].
Tensor atanh(const Tensor& x);
/// The error function.
Tensor erf(const Tensor& x);
/// 1 - erf(x), without cancellation.
Tensor erfc(const Tensor& x);
/// log(x / (1 - x)), with x clamped to [eps, 1 - eps] if `eps` is given (ValueError outside [0,
/// 0.5]).
Tensor logit(const Tensor& x, std::optional<double> eps = {});
/// log(sigmoid(x)), without overflow.
Tensor logsigmoid(const Tensor& x);
/// sin(pi x) / (pi x); 1 at 0.
Tensor sinc(const Tensor& x);
/// Degrees as radians.
Tensor deg2rad(const Tensor& x);
/// Radians as degrees.
Tensor rad2deg(const Tensor& x);
/// x - trunc(x). Floating types only.
Tensor frac(const Tensor& x);
/// x with other numbers in place of NaN (`nan`) and the infinities (`posinf`, `neginf`): by default
/// 0, and the largest and the smallest of the dtype. Integers and bool are unchanged.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
/// x itself; DTypeError for bool.
Tensor positive(const Tensor& x);
/// sign(), under the name that PyTorch uses for complex numbers too.
Tensor sgn(const Tensor& x);

// bool results, off the tape.
/// Whether each element is NaN: bool, of the same shape.
Tensor isnan(const Tensor& x);
/// Whether each element is infinite: bool, of the same shape.
Tensor isinf(const Tensor& x);
/// Whether each element is neither infinite nor NaN: bool, of the same shape.
Tensor isfinite(const Tensor& x);
/// bool: whether each element is zero.
Tensor logical_not(const Tensor& x);
/// Whether the sign bit is set: bool; true for -0 too.
Tensor signbit(const Tensor& x);

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
const Tensor& asin_(const Tensor& self);
const Tensor& acos_(const Tensor& self);
const Tensor& atan_(const Tensor& self);
const Tensor& sinh_(const Tensor& self);
const Tensor& cosh_(const Tensor& self);
const Tensor& asinh_(const Tensor& self);
const Tensor& acosh_(const Tensor& self);
const Tensor& atanh_(const Tensor& self);
const Tensor& sinc_(const Tensor& self);
const Tensor& deg2rad_(const Tensor& self);
const Tensor& rad2deg_(const Tensor& self);
const Tensor& frac_(const Tensor& self);
const Tensor& erfc_(const Tensor& self);
const Tensor& log10_(const Tensor& self);
const Tensor& logit_(const Tensor& self, std::optional<double> eps = {});
const Tensor& nan_to_num_(const Tensor& self, double nan = 0, std::optional<double> posinf = {},
                          std::optional<double> neginf = {});
inline const Tensor& sgn_(const Tensor& self) { return sign_(self); }
const Tensor& erf_(const Tensor& self);

}  // namespace ferrite
