#include "ferrite/ops/blend.h"

#include <cmath>
#include <numbers>

#include "ferrite/kernels/elementwise.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::BinaryOp;
using ops::composite;
using ops::composite_;
using ops::Like;
using ops::Operands;

namespace {

using T = const Tensor&;

/// Both in the floating dtype of the result, broadcast.
Operands floating_operands(BinaryOp op, T a, T b, const char* name) {
  ops::check_same_device(a, b, name);
  const DType dtype = ops::floating_type(ops::result_type(a, b));
  Operands o = ops::operands(a, b, dtype, dtype, name);
  kernels::binary(current_stream(o.out.device()), op, o.out, o.a, o.b);
  return o;
}

void check_one_dtype(T a, T b, const char* op) {
  FERRITE_CHECK(a.dtype() == b.dtype(), DTypeError, op,
                "expected tensors of one dtype, got {} and {}; convert one with to(dtype)",
                a.dtype(), b.dtype());
}

}  // namespace

Tensor hypot(T a, T b) {
  const profiler::OpRange range("hypot", a, b);
  const Operands o = floating_operands(BinaryOp::hypot, a, b, "hypot");
  if (recording(a, b))
    record(o.out, "hypot", {a, b},
           [a = Saved(a), b = Saved(b), out = Saved::output(o.out), la = Like(a), lb = Like(b)](
               T grad, Needs needs) -> Gradients {
             const Tensor length = out.get();
             // At most 1; the gradient over a short length would leave the range of 16 bits.
             const auto slope = [&](T side) {
               return grad * where(eq(length, 0), 0, side / length);
             };
             return {needs[0] ? la.reduce(slope(a.get())) : Tensor(),
                     needs[1] ? lb.reduce(slope(b.get())) : Tensor()};
           });
  return o.out;
}

Tensor copysign(T a, T b) {
  const profiler::OpRange range("copysign", a, b);
  const Operands o = floating_operands(BinaryOp::copysign, a, b, "copysign");
  if (recording(a, b))
    record(
        o.out, "copysign", {a, b},
        [a = Saved(a), b = Saved(b), la = Like(a), lb = Like(b)](T grad, Needs needs) -> Gradients {
          // The sign of the result over that of a; 0 at 0.
          const auto signs = [&] {
            const Tensor x = a.get();
            return sign(x) * copysign(ones_like(x), b.get());
          };
          return {needs[0] ? la.reduce(grad * signs().to(grad.dtype())) : Tensor(),
                  needs[1] ? lb.reduce(zeros_like(grad)) : Tensor()};
        });
  return o.out;
}

Tensor copysign(T a, Scalar b) {
  ops::check_defined(a, "copysign");
  const DType dtype = ops::floating_type(ops::result_type(a, b));
  return copysign(a,
                  full({}, std::copysign(1.0, b.to<double>()), {.dtype = dtype, .device = kCPU}));
}

namespace {

/// log_base(base^a + base^b), from the larger of the two.
template <class Power, class Log>
Tensor log_of_sum(const char* op, T a, T b, Power power, Log log_of_one_more) {
  // How much larger; infinities of one sign would differ by NaN.
  const auto gap = [](T x, T y) { return where(eq(x, y), 0, x - y); };
  const auto function = [=](T x, T y) {
    Tensor out = no_grad(
        [&] { return maximum(x, y) + log_of_one_more(power(gap(minimum(x, y), maximum(x, y)))); });
    if (recording(x, y))
      record(out, op, {x, y},
             [=, a = Saved(x), b = Saved(y), la = Like(x), lb = Like(y)](T grad,
                                                                         Needs needs) -> Gradients {
               const Tensor x = a.get(), y = b.get();
               return {needs[0] ? la.reduce(grad / (power(gap(y, x)) + 1)) : Tensor(),
                       needs[1] ? lb.reduce(grad / (power(gap(x, y)) + 1)) : Tensor()};
             });
    return out;
  };
  return composite(
      op,
      [&] {
        ops::check_same_device(a, b, op);
        const DType dtype = ops::result_type(a, b);
        FERRITE_CHECK(is_floating(dtype), DTypeError, op,
                      "expected a floating type, got {} and {}; convert one with to(kFloat32)",
                      a.dtype(), b.dtype());
        return ops::computed_in(dtype, function, a, b);
      },
      a, b);
}

}  // namespace

Tensor logaddexp(T a, T b) {
  return log_of_sum(
      "logaddexp", a, b, [](T x) { return exp(x); }, [](T x) { return log1p(x); });
}
Tensor logaddexp2(T a, T b) {
  return log_of_sum(
      "logaddexp2", a, b, [](T x) { return exp2(x); },
      [](T x) { return log1p(x) * std::numbers::log2e; });
}

namespace {

Tensor product_with_log(T a, T b) {
  Tensor out = no_grad([&] {
    const Tensor zero = logical_and(eq(a, 0), logical_not(isnan(b)));
    return a * log(where(zero, 1, b));
  });
  if (recording(a, b))
    record(
        out, "xlogy", {a, b},
        [a = Saved(a), b = Saved(b), la = Like(a), lb = Like(b)](T grad, Needs needs) -> Gradients {
          const Tensor x = a.get(), y = b.get();
          // As PyTorch's: 0 where the gradient is 0, whatever the logarithm.
          const auto slope = [&] {
            const Tensor none = logical_and(eq(x, 0), le(y, 0));
            return where(none, 0, product_with_log(grad, where(none, 1, y)));
          };
          return {needs[0] ? la.reduce(slope()) : Tensor(),
                  needs[1] ? lb.reduce(grad * x / y) : Tensor()};
        });
  return out;
}

}  // namespace

namespace {

Tensor xlogy_in(DType dtype, T a, T b) {
  return composite(
      "xlogy",
      [&] {
        ops::check_same_device(a, b, "xlogy");
        return ops::computed_in(dtype, product_with_log, a, b);
      },
      a, b);
}

}  // namespace

Tensor xlogy(T a, T b) {
  ops::check_same_device(a, b, "xlogy");
  return xlogy_in(ops::floating_type(ops::result_type(a, b)), a, b);
}
// Numbers have every digit, and do not decide the dtype.
Tensor xlogy(T a, Scalar b) {
  ops::check_defined(a, "xlogy");
  return xlogy_in(ops::floating_type(ops::result_type(a, b)), a,
                  full({}, b, {.dtype = kFloat64, .device = kCPU}));
}
Tensor xlogy(Scalar a, T b) {
  ops::check_defined(b, "xlogy");
  return xlogy_in(ops::floating_type(ops::result_type(b, a)),
                  full({}, a, {.dtype = kFloat64, .device = kCPU}), b);
}

Tensor heaviside(T x, T values) {
  return composite(
      "heaviside",
      [&] {
        ops::check_same_device(x, values, "heaviside");
        check_one_dtype(x, values, "heaviside");
        const NoGradGuard guard;
        return where(eq(x, 0), values, gt(x, 0).to(x.dtype()));
      },
      x, values);
}

// ---- lerp, addcmul, addcdiv

namespace {

/// From the end that is nearer, so that a weight of 1 gives it exactly.
Tensor between(T x, T y, T weight) {
  Tensor out = no_grad([&] {
    const Tensor way = y - x;
    return where(lt(abs(weight), 0.5), x + weight * way, y - way * (1 - weight));
  });
  if (recording(x, y, weight))
    record(out, "lerp", {x, y, weight},
           [a = Saved(x), b = Saved(y), w = Saved(weight), la = Like(x), lb = Like(y),
            lw = Like(weight)](T grad, Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad * (1 - w.get())) : Tensor(),
                     needs[1] ? lb.reduce(grad * w.get()) : Tensor(),
                     needs[2] ? lw.reduce(grad * (b.get() - a.get())) : Tensor()};
           });
  return out;
}

Tensor between(T x, T y, double weight) {
  Tensor out = no_grad([&] {
    const Tensor way = y - x;
    return std::abs(weight) < 0.5 ? add(x, way, weight) : add(y, way, weight - 1);
  });
  if (recording(x, y))
    record(out, "lerp", {x, y},
           [weight, la = Like(x), lb = Like(y)](T grad, Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad * (1 - weight)) : Tensor(),
                     needs[1] ? lb.reduce(grad * weight) : Tensor()};
           });
  return out;
}

Tensor blend(T start, T end, T weight, const char* op) {
  check_one_dtype(start, end, op);
  if (weight.dim() > 0) check_one_dtype(start, weight, op);
  ops::check_same_device(start, end, op);
  ops::check_same_device(start, weight, op);
  // A weight for all is promoted, as a number is.
  const DType dtype = ops::result_type({start, end, weight});
  FERRITE_CHECK(is_floating(dtype), DTypeError, op, "expected floating types, got {} and {}",
                start.describe(), weight.describe());
  return ops::computed_in(
      dtype, [](T x, T y, T w) { return between(x, y, w); }, start, end, weight);
}
Tensor blend(T start, T end, Scalar weight, const char* op) {
  check_one_dtype(start, end, op);
  ops::check_floating(op, start, end);
  return ops::computed_in(
      start.dtype(), [&](T x, T y) { return between(x, y, weight.to<double>()); }, start, end);
}

/// `value` among numbers of `dtype`.
void check_factor(Scalar value, DType dtype, const char* op) {
  FERRITE_CHECK(is_differentiable(dtype) || !value.is_floating(), DTypeError, op,
                "expected an integer as factor of integers, got {}", value.to<double>());
  FERRITE_CHECK(is_complex(dtype) || !value.is_complex(), DTypeError, op,
                "expected a real factor for a result of {}, got a complex one", dtype);
}

Tensor add_product(T x, T a, T b, Scalar value, const char* op) {
  const DType dtype = ops::result_type({x, a, b});
  FERRITE_CHECK(dtype != kBool, DTypeError, op, "does not work on bool; convert with to(dtype)");
  check_factor(value, dtype, op);
  const bool one = !value.is_complex() && value.to<double>() == 1;
  return ops::computed_in(
      dtype, [&](T x, T a, T b) { return x + (one ? a * b : a * b * value); }, x, a, b);
}

Tensor add_quotient(T x, T a, T b, Scalar value, const char* op) {
  FERRITE_CHECK(is_differentiable(ops::result_type(a, b)), DTypeError, op,
                "integers are not divided: got {} and {}; convert one with to(kFloat32)", a.dtype(),
                b.dtype());
  const DType dtype = ops::result_type({x, a, b});
  check_factor(value, dtype, op);
  return ops::computed_in(
      dtype, [&](T x, T a, T b) { return x + a * value / b; }, x, a, b);
}

}  // namespace

Tensor lerp(T start, T end, T weight) {
  return composite(
      "lerp", [&] { return blend(start, end, weight, "lerp"); }, start, end, weight);
}
Tensor lerp(T start, T end, Scalar weight) {
  return composite(
      "lerp", [&] { return blend(start, end, weight, "lerp"); }, start, end);
}
const Tensor& lerp_(T self, T end, T weight) {
  return composite_(
      "lerp_", self, [&](T x) { return blend(x, end, weight, "lerp_"); }, end, weight);
}
const Tensor& lerp_(T self, T end, Scalar weight) {
  return composite_(
      "lerp_", self, [&](T x) { return blend(x, end, weight, "lerp_"); }, end);
}

Tensor addcmul(T x, T a, T b, Scalar value) {
  if (const auto cast = ops::autocast(CastPolicy::promote, x, a, b)) {
    const auto& [to, left, right] = *cast;
    return addcmul(to, left, right, value);
  }
  return composite(
      "addcmul", [&] { return add_product(x, a, b, value, "addcmul"); }, x, a, b);
}
const Tensor& addcmul_(T self, T a, T b, Scalar value) {
  return composite_(
      "addcmul_", self, [&](T x) { return add_product(x, a, b, value, "addcmul_"); }, a, b);
}
Tensor addcdiv(T x, T a, T b, Scalar value) {
  if (const auto cast = ops::autocast(CastPolicy::promote, x, a, b)) {
    const auto& [to, left, right] = *cast;
    return addcdiv(to, left, right, value);
  }
  return composite(
      "addcdiv", [&] { return add_quotient(x, a, b, value, "addcdiv"); }, x, a, b);
}
const Tensor& addcdiv_(T self, T a, T b, Scalar value) {
  return composite_(
      "addcdiv_", self, [&](T x) { return add_quotient(x, a, b, value, "addcdiv_"); }, a, b);
}

}  // namespace ferrite
