// Special functions (torch.special): gamma, error and normal distribution functions.
//
// The result has the input's shape, device and memory format. Floating dtypes are kept, integers
// and bool become float32; DTypeError for complex numbers, and where a tensor changed in place (by
// a function whose name ends in _) cannot hold the result. All gradients are differentiable to any
// order. Errors are of some units in the last place, but near a zero of the result small beside 1.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

/// The inverse of erf(): infinite at -1 and 1, NaN beyond.
Tensor erfinv(const Tensor& x);
/// The logarithm of the absolute value of the gamma function; infinite at 0 and negative integers.
Tensor lgamma(const Tensor& x);
/// The derivative of lgamma(): infinite at 0, NaN at negative integers.
Tensor digamma(const Tensor& x);
/// The n-th derivative of digamma(), for n = 0 itself; ValueError for a negative n. The factor n!
/// overflows above n = 34 in float32, and above 170 in float64.
Tensor polygamma(std::int64_t n, const Tensor& x);
/// The logarithm of the multivariate gamma function of dimension p: p (p - 1) / 4 log(pi) plus the
/// sum of lgamma(x - j / 2) for j from 0 to p - 1. ValueError unless p is 1 or more.
Tensor mvlgamma(const Tensor& x, std::int64_t p);

const Tensor& erfinv_(const Tensor& self);
const Tensor& lgamma_(const Tensor& self);
const Tensor& digamma_(const Tensor& self);
const Tensor& polygamma_(const Tensor& self, std::int64_t n);
const Tensor& mvlgamma_(const Tensor& self, std::int64_t p);

/// The names of torch.special.
namespace special {

using ferrite::digamma;
using ferrite::erf;
using ferrite::erfc;
using ferrite::erfinv;
using ferrite::exp2;
using ferrite::expm1;
using ferrite::log1p;
using ferrite::log_softmax;
using ferrite::logit;
using ferrite::polygamma;
using ferrite::sinc;
using ferrite::softmax;
using ferrite::xlogy;

/// lgamma().
inline Tensor gammaln(const Tensor& x) { return lgamma(x); }
/// digamma().
inline Tensor psi(const Tensor& x) { return digamma(x); }
/// mvlgamma().
inline Tensor multigammaln(const Tensor& x, std::int64_t p) { return mvlgamma(x, p); }
/// sigmoid().
inline Tensor expit(const Tensor& x) { return x.sigmoid(); }
/// The probability that a standard normal number is below x.
Tensor ndtr(const Tensor& x);

}  // namespace special

}  // namespace ferrite
