#include "ferrite/ops/special.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/unary_op.h"

namespace ferrite {

using ops::composite;
using ops::composite_;
using ops::Keeps;
using ops::Takes;
using ops::UnaryOp;

namespace {

using T = const Tensor&;

Tensor gradient_of_erfinv(T grad, T y) {
  return grad * exp(square(y)) * (0.5 / std::numbers::inv_sqrtpi);
}
Tensor gradient_of_lgamma(T grad, T x) { return grad * digamma(x); }

/// The gradient of polygamma() of order n.
auto next_order(std::int64_t n) {
  return [n](T grad, T x) { return grad * polygamma(n + 1, x); };
}

/// As the kernel takes it.
kernels::UnaryParams order(std::int64_t n, const char* op) {
  FERRITE_CHECK(n >= 0, ValueError, op, "expected an order of 0 or more, got {}", n);
  constexpr std::int64_t kInfinite = 1000;  // its factorial is infinite
  return {.a = std::min(n, kInfinite)};
}

/// mvlgamma(); `op` is the name that errors begin with.
Tensor multivariate(T x, std::int64_t p, const char* op) {
  FERRITE_CHECK(p >= 1, ValueError, op, "expected a dimension of 1 or more, got {}", p);
  return ops::computed_in(
      ops::floating_type(x.dtype()),
      [&](T wide) {
        Tensor sum = lgamma(wide);
        for (std::int64_t j = 1; j < p; ++j)
          sum = sum + lgamma(wide - 0.5 * static_cast<double>(j));
        return sum + 0.25 * static_cast<double>(p * (p - 1)) * std::log(std::numbers::pi);
      },
      x);
}

}  // namespace

Tensor erfinv(T x) {
  if (const auto cast = ops::autocast(CastPolicy::float32, x)) return erfinv(*cast);
  return ops::unary(x, "erfinv", UnaryOp::erfinv, Takes::floating, Keeps::output,
                    gradient_of_erfinv);
}
const Tensor& erfinv_(T self) {
  return ops::unary_(self, "erfinv_", UnaryOp::erfinv, Takes::floating, Keeps::output,
                     gradient_of_erfinv);
}

Tensor lgamma(T x) {
  return ops::unary(x, "lgamma", UnaryOp::lgamma, Takes::floating, Keeps::input,
                    gradient_of_lgamma);
}
const Tensor& lgamma_(T self) {
  return ops::unary_(self, "lgamma_", UnaryOp::lgamma, Takes::floating, Keeps::input,
                     gradient_of_lgamma);
}

Tensor digamma(T x) {
  return ops::unary(x, "digamma", UnaryOp::polygamma, Takes::floating, Keeps::input, next_order(0));
}
const Tensor& digamma_(T self) {
  return ops::unary_(self, "digamma_", UnaryOp::polygamma, Takes::floating, Keeps::input,
                     next_order(0));
}

Tensor polygamma(std::int64_t n, T x) {
  return ops::unary(x, "polygamma", UnaryOp::polygamma, Takes::floating, Keeps::input,
                    next_order(n), order(n, "polygamma"));
}
const Tensor& polygamma_(T self, std::int64_t n) {
  return ops::unary_(self, "polygamma_", UnaryOp::polygamma, Takes::floating, Keeps::input,
                     next_order(n), order(n, "polygamma_"));
}

Tensor mvlgamma(T x, std::int64_t p) {
  return composite(
      "mvlgamma", [&] { return multivariate(x, p, "mvlgamma"); }, x);
}
const Tensor& mvlgamma_(T self, std::int64_t p) {
  return composite_("mvlgamma_", self, [&](T x) { return multivariate(x, p, "mvlgamma_"); });
}

Tensor special::ndtr(T x) {
  return composite(
      "special_ndtr",
      [&] {
        return ops::computed_in(
            ops::floating_type(x.dtype()),
            [](T wide) { return erfc(wide * (-1 / std::numbers::sqrt2)) * 0.5; }, x);
      },
      x);
}

}  // namespace ferrite
