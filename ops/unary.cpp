#include "ferrite/ops/unary.h"

#include <numbers>

#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary_op.h"

namespace ferrite {

using ops::Keeps;
using ops::Takes;
using ops::UnaryOp;

// Each function is followed by its gradient, which receives the tensor selected by Keeps.

// ---- Any numeric dtype

namespace {
const auto neg_gradient = [](const Tensor& grad, const Tensor&) { return neg(grad); };
const auto abs_gradient = [](const Tensor& grad, const Tensor& x) { return grad * sign(x); };
const auto square_gradient = [](const Tensor& grad, const Tensor& x) { return grad * x * 2; };
/// For piecewise constant functions.
const auto zero_gradient = [](const Tensor& grad, const Tensor&) { return zeros_like(grad); };
}  // namespace

Tensor neg(const Tensor& x) {
  return ops::unary(x, "neg", UnaryOp::neg, Takes::numeric, Keeps::nothing, neg_gradient);
}
const Tensor& neg_(const Tensor& self) {
  return ops::unary_(self, "neg_", UnaryOp::neg, Takes::numeric, Keeps::nothing, neg_gradient);
}

Tensor abs(const Tensor& x) {
  return ops::unary(x, "abs", UnaryOp::abs, Takes::numeric, Keeps::input, abs_gradient);
}
const Tensor& abs_(const Tensor& self) {
  return ops::unary_(self, "abs_", UnaryOp::abs, Takes::numeric, Keeps::input, abs_gradient);
}

Tensor sign(const Tensor& x) {
  if (x.defined() && x.dtype() == kBool) return x.clone();
  return ops::unary(x, "sign", UnaryOp::sign, Takes::numeric, Keeps::nothing, zero_gradient);
}
const Tensor& sign_(const Tensor& self) {
  if (self.defined() && self.dtype() == kBool) {
    autograd::check_inplace(self, "sign_");
    return self;
  }
  return ops::unary_(self, "sign_", UnaryOp::sign, Takes::numeric, Keeps::nothing, zero_gradient);
}

Tensor square(const Tensor& x) {
  if (x.defined() && x.dtype() == kBool) return x.to(kInt64);
  return ops::unary(x, "square", UnaryOp::square, Takes::numeric, Keeps::input, square_gradient);
}
const Tensor& square_(const Tensor& self) {
  return ops::unary_(self, "square_", UnaryOp::square, Takes::numeric, Keeps::input,
                     square_gradient);
}

namespace {

/// Integers are returned unchanged.
Tensor rounded(const Tensor& x, const char* name, UnaryOp op) {
  if (ops::checked_dtype(x, name, Takes::numeric); !is_floating(x.dtype())) return x.clone();
  return ops::unary(x, name, op, Takes::floating, Keeps::nothing, zero_gradient);
}
const Tensor& rounded_(const Tensor& self, const char* name, UnaryOp op) {
  if (ops::checked_dtype(self, name, Takes::numeric); !is_floating(self.dtype())) return self;
  return ops::unary_(self, name, op, Takes::floating, Keeps::nothing, zero_gradient);
}

}  // namespace

Tensor floor(const Tensor& x) { return rounded(x, "floor", UnaryOp::floor); }
Tensor ceil(const Tensor& x) { return rounded(x, "ceil", UnaryOp::ceil); }
Tensor round(const Tensor& x) { return rounded(x, "round", UnaryOp::round); }
Tensor trunc(const Tensor& x) { return rounded(x, "trunc", UnaryOp::trunc); }
const Tensor& floor_(const Tensor& self) { return rounded_(self, "floor_", UnaryOp::floor); }
const Tensor& ceil_(const Tensor& self) { return rounded_(self, "ceil_", UnaryOp::ceil); }
const Tensor& round_(const Tensor& self) { return rounded_(self, "round_", UnaryOp::round); }
const Tensor& trunc_(const Tensor& self) { return rounded_(self, "trunc_", UnaryOp::trunc); }

// ---- Exponentials and logarithms

namespace {
const auto exp_gradient = [](const Tensor& grad, const Tensor& out) { return grad * out; };
const auto exp2_gradient = [](const Tensor& grad, const Tensor& out) {
  return grad * out * std::numbers::ln2;
};
const auto expm1_gradient = [](const Tensor& grad, const Tensor& out) { return grad * (out + 1); };
const auto log_gradient = [](const Tensor& grad, const Tensor& x) { return grad / x; };
const auto log1p_gradient = [](const Tensor& grad, const Tensor& x) { return grad / (x + 1); };
const auto log2_gradient = [](const Tensor& grad, const Tensor& x) {
  return grad / (x * std::numbers::ln2);
};
}  // namespace

Tensor exp(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::exp, x)) return exp(*cast);
  return ops::unary(x, "exp", UnaryOp::exp, Takes::floating, Keeps::output, exp_gradient);
}
const Tensor& exp_(const Tensor& self) {
  return ops::unary_(self, "exp_", UnaryOp::exp, Takes::floating, Keeps::output, exp_gradient);
}
Tensor exp2(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::exp, x)) return exp2(*cast);
  return ops::unary(x, "exp2", UnaryOp::exp2, Takes::floating, Keeps::output, exp2_gradient);
}
const Tensor& exp2_(const Tensor& self) {
  return ops::unary_(self, "exp2_", UnaryOp::exp2, Takes::floating, Keeps::output, exp2_gradient);
}
Tensor expm1(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::exp, x)) return expm1(*cast);
  return ops::unary(x, "expm1", UnaryOp::expm1, Takes::floating, Keeps::output, expm1_gradient);
}
const Tensor& expm1_(const Tensor& self) {
  return ops::unary_(self, "expm1_", UnaryOp::expm1, Takes::floating, Keeps::output,
                     expm1_gradient);
}
Tensor log(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::log, x)) return log(*cast);
  return ops::unary(x, "log", UnaryOp::log, Takes::floating, Keeps::input, log_gradient);
}
const Tensor& log_(const Tensor& self) {
  return ops::unary_(self, "log_", UnaryOp::log, Takes::floating, Keeps::input, log_gradient);
}
Tensor log1p(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::log, x)) return log1p(*cast);
  return ops::unary(x, "log1p", UnaryOp::log1p, Takes::floating, Keeps::input, log1p_gradient);
}
const Tensor& log1p_(const Tensor& self) {
  return ops::unary_(self, "log1p_", UnaryOp::log1p, Takes::floating, Keeps::input, log1p_gradient);
}
Tensor log2(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::log, x)) return log2(*cast);
  return ops::unary(x, "log2", UnaryOp::log2, Takes::floating, Keeps::input, log2_gradient);
}
const Tensor& log2_(const Tensor& self) {
  return ops::unary_(self, "log2_", UnaryOp::log2, Takes::floating, Keeps::input, log2_gradient);
}

// ---- Roots and reciprocals

namespace {
const auto sqrt_gradient = [](const Tensor& grad, const Tensor& out) { return grad / (out * 2); };
const auto rsqrt_gradient = [](const Tensor& grad, const Tensor& out) {
  return grad * (out * out * out) * -0.5;
};
const auto reciprocal_gradient = [](const Tensor& grad, const Tensor& out) {
  return neg(grad * (out * out));
};
}  // namespace

Tensor sqrt(const Tensor& x) {
  return ops::unary(x, "sqrt", UnaryOp::sqrt, Takes::floating, Keeps::output, sqrt_gradient);
}
const Tensor& sqrt_(const Tensor& self) {
  return ops::unary_(self, "sqrt_", UnaryOp::sqrt, Takes::floating, Keeps::output, sqrt_gradient);
}
Tensor rsqrt(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::rsqrt, x)) return rsqrt(*cast);
  return ops::unary(x, "rsqrt", UnaryOp::rsqrt, Takes::floating, Keeps::output, rsqrt_gradient);
}
const Tensor& rsqrt_(const Tensor& self) {
  return ops::unary_(self, "rsqrt_", UnaryOp::rsqrt, Takes::floating, Keeps::output,
                     rsqrt_gradient);
}
Tensor reciprocal(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::reciprocal, x)) return reciprocal(*cast);
  return ops::unary(x, "reciprocal", UnaryOp::reciprocal, Takes::floating, Keeps::output,
                    reciprocal_gradient);
}
const Tensor& reciprocal_(const Tensor& self) {
  return ops::unary_(self, "reciprocal_", UnaryOp::reciprocal, Takes::floating, Keeps::output,
                     reciprocal_gradient);
}

// ---- Trigonometry, erf

namespace {
const auto sin_gradient = [](const Tensor& grad, const Tensor& x) { return grad * cos(x); };
const auto cos_gradient = [](const Tensor& grad, const Tensor& x) { return neg(grad * sin(x)); };
const auto tan_gradient = [](const Tensor& grad, const Tensor& out) {
  return grad * (out * out + 1);
};
const auto erf_gradient = [](const Tensor& grad, const Tensor& x) {
  return grad * exp(neg(square(x))) * (2 * std::numbers::inv_sqrtpi);
};
}  // namespace

Tensor sin(const Tensor& x) {
  return ops::unary(x, "sin", UnaryOp::sin, Takes::floating, Keeps::input, sin_gradient);
}
const Tensor& sin_(const Tensor& self) {
  return ops::unary_(self, "sin_", UnaryOp::sin, Takes::floating, Keeps::input, sin_gradient);
}
Tensor cos(const Tensor& x) {
  return ops::unary(x, "cos", UnaryOp::cos, Takes::floating, Keeps::input, cos_gradient);
}
const Tensor& cos_(const Tensor& self) {
  return ops::unary_(self, "cos_", UnaryOp::cos, Takes::floating, Keeps::input, cos_gradient);
}
Tensor tan(const Tensor& x) {
  if (const auto cast = ops::autocast(AutocastOp::tan, x)) return tan(*cast);
  return ops::unary(x, "tan", UnaryOp::tan, Takes::floating, Keeps::output, tan_gradient);
}
const Tensor& tan_(const Tensor& self) {
  return ops::unary_(self, "tan_", UnaryOp::tan, Takes::floating, Keeps::output, tan_gradient);
}
Tensor erf(const Tensor& x) {
  return ops::unary(x, "erf", UnaryOp::erf, Takes::floating, Keeps::input, erf_gradient);
}
const Tensor& erf_(const Tensor& self) {
  return ops::unary_(self, "erf_", UnaryOp::erf, Takes::floating, Keeps::input, erf_gradient);
}

// ---- Predicates

namespace {

Tensor predicate(const Tensor& x, const char* name, kernels::Predicate op) {
  const profiler::OpRange range(name, x);
  FERRITE_CHECK(x.defined(), ValueError, name, "the tensor is undefined");
  Tensor out =
      empty(x.shape(),
            {.dtype = kBool, .device = x.device(), .memory_format = x.suggest_memory_format()});
  kernels::predicate(current_stream(out.device()), op, out, x);
  return out;
}

}  // namespace

Tensor isnan(const Tensor& x) { return predicate(x, "isnan", kernels::Predicate::isnan); }
Tensor isinf(const Tensor& x) { return predicate(x, "isinf", kernels::Predicate::isinf); }
Tensor isfinite(const Tensor& x) { return predicate(x, "isfinite", kernels::Predicate::isfinite); }
Tensor logical_not(const Tensor& x) {
  return predicate(x, "logical_not", kernels::Predicate::logical_not);
}

}  // namespace ferrite
