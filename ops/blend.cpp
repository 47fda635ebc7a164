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

/// `t` in `dtype`, without a copy where it has it.
Tensor in(T t, DType dtype) { return t.dtype() == dtype ? t : t.to(dtype); }

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
             const Tensor slope = where(eq(length, 0), 0, grad / length);
             return {needs[0] ? la.reduce(slope * a.get()) : Tensor(),
                     needs[1] ? lb.reduce(slope * b.get()) : Tensor()};
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
Tensor copysign(T a, Scalar b) { return copysign(a, tensor(b)); }

namespace {

/// log_base(base^a + base^b), from the larger of the two.
template <class Power, class Log>
Tensor log_of_sum(const char* op, T a, T b, Power power, Log log) {
  return composite(
      op,
      [&] {
        ops::check_floating(op, a, b);
        const Tensor top = no_grad([&] { return maximum(a, b); });
        // Infinities of one sign would differ by NaN.
        const Tensor base = where(isfinite(top), top, 0);
        return log(power(a - base) + power(b - base)) + base;
      },
      a, b);
}

}  // namespace

Tensor logaddexp(T a, T b) {
  return log_of_sum(
      "logaddexp", a, b, [](T x) { return exp(x); }, [](T x) { return log(x); });
}
Tensor logaddexp2(T a, T b) {
  return log_of_sum(
      "logaddexp2", a, b, [](T x) { return exp2(x); }, [](T x) { return log2(x); });
}

namespace {

Tensor product_with_log(T a, T b) {
  // Where a is 0 the logarithm must not be infinite, and its gradient not NaN.
  const Tensor zero = logical_and(eq(a, 0), logical_not(isnan(b)));
  return a * log(where(zero, 1, b));
}

}  // namespace

Tensor xlogy(T a, T b) {
  return composite(
      "xlogy",
      [&] {
        ops::check_same_device(a, b, "xlogy");
        const DType dtype = ops::floating_type(ops::result_type(a, b));
        return product_with_log(in(a, dtype), in(b, dtype));
      },
      a, b);
}
Tensor xlogy(T a, Scalar b) { return xlogy(a, tensor(b)); }
Tensor xlogy(Scalar a, T b) { return xlogy(tensor(a), b); }

Tensor heaviside(T x, T values) {
  return composite(
      "heaviside",
      [&] {
        ops::check_same_device(x, values, "heaviside");
        check_one_dtype(x, values, "heaviside");
        const NoGradGuard guard;
        const Tensor above = gt(x, 0).to(x.dtype());
        return where(eq(x, 0), values, where(isnan(x), 0, above));
      },
      x, values);
}

// ---- lerp, addcmul, addcdiv

namespace {

/// From the end that is nearer, so that a weight of 1 gives it exactly.
template <class W>
Tensor blend(T start, T end, const W& weight, const char* op) {
  check_one_dtype(start, end, op);
  ops::check_floating(op, start, end);
  const Tensor way = end - start;
  if constexpr (std::is_same_v<W, Tensor>) {
    check_one_dtype(start, weight, op);
    return where(lt(abs(weight), 0.5), start + weight * way, end - way * (1 - weight));
  } else {
    const double w = weight.template to<double>();
    return std::abs(w) < 0.5 ? start + way * w : end - way * (1 - w);
  }
}

Tensor add_product(T x, T a, T b, Scalar value) {
  return add(x, value.to<double>() == 1 ? a * b : a * b * value);
}

Tensor add_quotient(T x, T a, T b, Scalar value, const char* op) {
  FERRITE_CHECK(is_floating(ops::result_type(a, b)), DTypeError, op,
                "integers are not divided: got {} and {}; convert one with to(kFloat32)", a.dtype(),
                b.dtype());
  return add(x, a / b * value);
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
      "addcmul", [&] { return add_product(x, a, b, value); }, x, a, b);
}
const Tensor& addcmul_(T self, T a, T b, Scalar value) {
  return composite_(
      "addcmul_", self, [&](T x) { return add_product(x, a, b, value); }, a, b);
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
