// Functions of ops/arithmetic.h and ops/compare.h that are made of others.
#include <limits>
#include <string_view>
#include <type_traits>

#include "ferrite/autograd/record.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using ops::Like;

namespace {

/// choice(a, b), or the other of a number and a NaN, which then gets the gradient alone.
Tensor of_numbers(const char* op, const Tensor& a, const Tensor& b,
                  Tensor (*choice)(const Tensor&, const Tensor&)) {
  return ops::composite(
      op, [&] { return where(isnan(b), a, where(isnan(a), b, choice(a, b))); }, a, b);
}

/// A real tensor in float64.
Tensor widest(const Tensor& x) {
  if (x.is_complex()) detail::fail_type("float_power", x.dtype());
  return x.to(kFloat64);
}

Tensor is_value(const char* op, const Tensor& x, double value) {
  return ops::composite(
      op,
      [&] {
        if (x.is_complex()) detail::fail_type(op, x.dtype());
        return eq(x, value);
      },
      x);
}

/// 16 bits are divided in float32: the quotient is not rounded before it is rounded to a whole one.
template <class Divisor>
Tensor quotient(const Tensor& a, const Divisor& b, DType dtype, std::string_view rounding_mode) {
  if (rounding_mode == "floor") return floor_divide(a, b);
  FERRITE_CHECK(rounding_mode == "trunc", ValueError, "div",
                "expected the rounding mode \"trunc\" or \"floor\", got \"{}\"", rounding_mode);
  if (!is_floating(dtype)) return floor_divide(sub(a, fmod(a, b)), b);
  if constexpr (std::is_same_v<Divisor, Tensor>)
    return ops::computed_in(
        dtype, [](const Tensor& x, const Tensor& y) { return trunc(x / y); }, a, b);
  else
    return ops::computed_in(
        dtype, [&](const Tensor& x) { return trunc(x / b); }, a);
}

}  // namespace

Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  return ops::composite(
      "clamp",
      [&] {
        FERRITE_CHECK(min.defined() || max.defined(), ValueError, "clamp",
                      "expected a lower bound, an upper bound or both");
        const Tensor raised = min.defined() ? maximum(x, min) : x;
        return max.defined() ? minimum(raised, max) : raised;
      },
      x);
}
Tensor clamp_min(const Tensor& x, const Tensor& min) { return clamp(x, min); }
Tensor clamp_max(const Tensor& x, const Tensor& max) { return clamp(x, Tensor(), max); }

// Quotients that are rounded change nowhere, or at once.
Tensor div(const Tensor& a, const Tensor& b, std::string_view rounding_mode) {
  return ops::composite(
      "div",
      [&] {
        const Tensor out =
            no_grad([&] { return quotient(a, b, ops::result_type(a, b), rounding_mode); });
        if (recording(a, b))
          record(out, "div", {a, b}, [la = Like(a), lb = Like(b)](const Tensor& grad, Needs needs) {
            const Tensor zeros = zeros_like(grad);
            return Gradients{needs[0] ? la.reduce(zeros) : Tensor(),
                             needs[1] ? lb.reduce(zeros) : Tensor()};
          });
        return out;
      },
      a, b);
}
Tensor div(const Tensor& a, Scalar b, std::string_view rounding_mode) {
  return ops::composite(
      "div",
      [&] {
        const Tensor out =
            no_grad([&] { return quotient(a, b, ops::result_type(a, b), rounding_mode); });
        if (recording(a))
          record(out, "div", {a}, [](const Tensor& grad, Needs) { return zeros_like(grad); });
        return out;
      },
      a);
}

Tensor fmax(const Tensor& a, const Tensor& b) { return of_numbers("fmax", a, b, maximum); }
Tensor fmin(const Tensor& a, const Tensor& b) { return of_numbers("fmin", a, b, minimum); }

Tensor isposinf(const Tensor& x) {
  return is_value("isposinf", x, std::numeric_limits<double>::infinity());
}
Tensor isneginf(const Tensor& x) {
  return is_value("isneginf", x, -std::numeric_limits<double>::infinity());
}
Tensor isreal(const Tensor& x) {
  return ops::composite(
      "isreal",
      [&] {
        if (x.is_complex()) return eq(imag(x), 0);
        return ones(x.shape(), {.dtype = kBool, .device = x.device()});
      },
      x);
}

Tensor float_power(const Tensor& x, const Tensor& exponent) {
  return ops::composite(
      "float_power", [&] { return pow(widest(x), widest(exponent)); }, x, exponent);
}
Tensor float_power(const Tensor& x, Scalar exponent) {
  return ops::composite(
      "float_power", [&] { return pow(widest(x), exponent); }, x);
}
Tensor float_power(Scalar base, const Tensor& exponent) {
  return ops::composite(
      "float_power", [&] { return pow(base, widest(exponent)); }, exponent);
}

}  // namespace ferrite
