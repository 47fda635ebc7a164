// Functions of one operand, element by element. Views of a call have equal sizes and any strides;
// `out` may be the input. 16-bit types compute in float.
#pragma once

#include <algorithm>
#include <limits>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class UnaryOp : std::uint8_t {
  // any numeric dtype
  neg,  // complex too
  abs,
  sign,
  square,
  relu,
  clamp,  // to [p.a, p.b]
  // floating dtypes
  floor,
  ceil,
  round,  // half to even
  trunc,
  exp,
  exp2,
  expm1,
  log,
  log1p,
  log2,
  sqrt,
  rsqrt,
  reciprocal,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  log10,
  erf,
  erfc,
  erfinv,
  lgamma,
  polygamma,  // the p.a-th derivative of digamma
  tanh,
  sigmoid,
  leaky_relu,  // slope p.a
  elu,         // alpha p.a
  gelu,
  gelu_tanh,
  silu,
  softplus,  // beta p.a, threshold p.b
  celu,      // alpha p.a
  selu,
  hardshrink,  // limit p.a
  softshrink,  // limit p.a
  threshold,   // x above p.a, else p.b
  hardsigmoid,
  hardswish,
  mish,
};

/// The constants of selu (Klambauer et al., 2017).
inline constexpr double kSeluScale = 1.0507009873554804934193349852946,
                        kSeluAlpha = 1.6732632423543772848170429916717;

/// Parameters, for the operations that have any.
struct UnaryParams {
  Scalar a = 0, b = 0;
};

/// `bound` converted to the integer type T, clamped to T's range.
template <class T>
T saturated(Scalar bound) {
  using Limits = std::numeric_limits<T>;
  if (bound.is_floating()) {
    const double v = bound.to<double>();
    if (v >= static_cast<double>(Limits::max())) return Limits::max();
    return v > static_cast<double>(Limits::lowest()) ? static_cast<T>(v) : Limits::lowest();
  }
  return static_cast<T>(
      std::clamp<std::int64_t>(bound.to<std::int64_t>(), Limits::lowest(), Limits::max()));
}

/// out = op(in); both have one dtype.
FERRITE_KERNEL_FUNCTION(unary, UnaryOp op, const View& out, const View& in,
                        const UnaryParams& p = {});

/// out = grad * op'(...) for relu, clamp, sigmoid and everything from tanh on. `saved` is the input
/// of the forward pass, or its output for sigmoid and tanh; for relu and clamp, and for leaky_relu
/// with a slope of 0 or more, it may be either. The gradient of clamp is 0 at the bounds and at
/// NaN; a bound of NaN is no bound. All views share a floating dtype.
FERRITE_KERNEL_FUNCTION(unary_backward, UnaryOp op, const View& out, const View& grad,
                        const View& saved, const UnaryParams& p = {});

enum class Predicate : std::uint8_t { isnan, isinf, isfinite, logical_not, signbit };
/// `out` is bool, `in` of any dtype.
FERRITE_KERNEL(predicate, Predicate op, const View& out, const View& in);

}  // namespace ferrite::kernels
