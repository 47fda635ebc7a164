#include "ferrite/ops/blend.h"

#include <cmath>
#include <numbers>

#include "ferrite/core/tracing.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/ternary.h"
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
using kernels::TernaryOp;
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

/// Whether a kernel makes a result of `dtype` in one pass. Traces show the ops it consists of.
bool in_one_pass(DType dtype) { return is_floating(dtype) && !tracing::on(); }

/// Of one floating dtype, broadcast, off the tape.
Tensor one_pass(TernaryOp op, T x, T a, T b, Scalar factor, const char* name) {
  ops::check_same_device(x, a, name);
  ops::check_same_device(x, b, name);
  ops::check_same_device(a, b, name);
  const auto together = ops::Together(x, a, b, name);
  const Shape& shape = together.shape;
  const Device& device = together.device;
  Tensor out =
      empty(shape, {.dtype = x.dtype(), .device = device, .memory_format = together.format});
  const auto operand = [&](T t) { return ops::operand(t, t.dtype(), shape, device); };
  kernels::ternary(current_stream(device), op, out, operand(x), operand(a), operand(b), factor);
  return out;
}

/// self = op(self, a, b) in one pass; false, and nothing is done, where that takes more.
bool change_in_one_pass(TernaryOp op, T self, T a, T b, Scalar factor, const char* name) {
  if (!self.defined() || !in_one_pass(self.dtype()) || factor.is_complex()) return false;
  for (const Tensor* t : {&a, &b}) {
    if (!t->defined() || t->device() != self.device()) return false;
    if (geometry::may_overlap(self, *t) && !geometry::same_elements(self, *t)) return false;
  }
  // A number for all is converted; 16 bits would round it.
  const bool converts =
      b.dim() == 0 && is_floating(b.dtype()) && itemsize(self.dtype()) >= itemsize(kFloat32);
  if (a.dtype() != self.dtype() || (b.dtype() != self.dtype() && !converts)) return false;
  if (recording(self, a, b)) return false;
  if (broadcast_shapes(self.shape(), broadcast_shapes(a.shape(), b.shape(), name), name) !=
      self.shape())
    return false;
  const profiler::OpRange range(name, self, a, b);
  autograd::check_inplace(self, name);
  const auto operand = [&](T t) {
    return ops::operand(t, self.dtype(), self.shape(), self.device());
  };
  kernels::ternary(current_stream(self.device()), op, self, self, operand(a), operand(b), factor);
  autograd::changed_inplace(self, name);
  return true;
}

/// f(tensors...) in their dtype; 16-bit numbers are rounded once.
template <class F, class... Tensors>
Tensor rounded_once(F f, T t, const Tensors&... others) {
  return ops::computed_in(t.dtype(), f, t, others...);
}

/// From the end that is nearer, so that a weight of 1 gives it exactly.
Tensor between(T x, T y, T weight) {
  Tensor out = no_grad([&] {
    if (in_one_pass(x.dtype())) return one_pass(TernaryOp::lerp, x, y, weight, 0, "lerp");
    const Tensor way = y - x;
    return where(lt(abs(weight), 0.5), x + weight * way, y - way * (1 - weight));
  });
  if (recording(x, y, weight))
    record(out, "lerp", {x, y, weight},
           [a = Saved(x), b = Saved(y), w = Saved(weight), la = Like(x), lb = Like(y),
            lw = Like(weight)](T grad, Needs needs) -> Gradients {
             const auto to_start = [](T g, T weight) { return g * (1 - weight); };
             const auto to_weight = [](T g, T start, T end) { return g * (end - start); };
             return {
                 needs[0] ? la.reduce(rounded_once(to_start, grad, w.get())) : Tensor(),
                 needs[1] ? lb.reduce(grad * w.get()) : Tensor(),
                 needs[2] ? lw.reduce(rounded_once(to_weight, grad, a.get(), b.get())) : Tensor()};
           });
  return out;
}

Tensor between(T x, T y, double weight) {
  Tensor out = no_grad([&] {
    if (in_one_pass(x.dtype())) return one_pass(TernaryOp::lerp_scalar, x, y, y, weight, "lerp");
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

/// f(x, a, b) of tensors in `dtype`, in which a kernel computes it where it can.
template <class F>
Tensor computed_in_kernel(DType dtype, F f, T x, T a, T b) {
  const bool same = x.dtype() == dtype && a.dtype() == dtype && b.dtype() == dtype;
  return same && in_one_pass(dtype) ? f(x, a, b) : ops::computed_in(dtype, f, x, a, b);
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
  return computed_in_kernel(
      dtype, [](T x, T y, T w) { return between(x, y, w); }, start, end, weight);
}
Tensor blend(T start, T end, Scalar weight, const char* op) {
  check_one_dtype(start, end, op);
  ops::check_floating(op, start, end);
  return computed_in_kernel(
      start.dtype(), [&](T x, T y, T) { return between(x, y, weight.to<double>()); }, start, end,
      end);
}

/// `value` among numbers of `dtype`.
void check_factor(Scalar value, DType dtype, const char* op) {
  FERRITE_CHECK(is_differentiable(dtype) || !value.is_floating(), DTypeError, op,
                "expected an integer as factor of integers, got {}", value.to<double>());
  FERRITE_CHECK(is_complex(dtype) || !value.is_complex(), DTypeError, op,
                "expected a real factor for a result of {}, got a complex one", dtype);
}

Tensor scaled(T x, Scalar factor) {
  return !factor.is_complex() && factor.to<double>() == 1 ? x : x * factor;
}

Tensor add_product(T x, T a, T b, Scalar value, const char* op) {
  const DType dtype = ops::result_type({x, a, b});
  FERRITE_CHECK(dtype != kBool, DTypeError, op, "does not work on bool; convert with to(dtype)");
  check_factor(value, dtype, op);
  const auto sum = [&](T x, T a, T b) {
    if (!in_one_pass(x.dtype())) return x + scaled(a * b, value);
    Tensor out = one_pass(TernaryOp::addcmul, x, a, b, value, op);
    if (recording(x, a, b))
      record(out, "addcmul", {x, a, b},
             [value, a = Saved(a), b = Saved(b), lx = Like(x), la = Like(a), lb = Like(b)](
                 T grad, Needs needs) -> Gradients {
               const auto product = [&](T g, T other) { return scaled(g, value) * other; };
               return {needs[0] ? lx.reduce(grad) : Tensor(),
                       needs[1] ? la.reduce(rounded_once(product, grad, b.get())) : Tensor(),
                       needs[2] ? lb.reduce(rounded_once(product, grad, a.get())) : Tensor()};
             });
    return out;
  };
  return computed_in_kernel(dtype, sum, x, a, b);
}

Tensor add_quotient(T x, T a, T b, Scalar value, const char* op) {
  FERRITE_CHECK(is_differentiable(ops::result_type(a, b)), DTypeError, op,
                "integers are not divided: got {} and {}; convert one with to(kFloat32)", a.dtype(),
                b.dtype());
  const DType dtype = ops::result_type({x, a, b});
  check_factor(value, dtype, op);
  const auto sum = [&](T x, T a, T b) {
    if (!in_one_pass(x.dtype())) return x + scaled(a, value) / b;
    Tensor out = one_pass(TernaryOp::addcdiv, x, a, b, value, op);
    if (recording(x, a, b))
      record(out, "addcdiv", {x, a, b},
             [value, a = Saved(a), b = Saved(b), lx = Like(x), la = Like(a), lb = Like(b)](
                 T grad, Needs needs) -> Gradients {
               const auto to_a = [&](T g, T b) { return scaled(g, value) / b; };
               const auto to_b = [&](T g, T a, T b) { return neg(g * (scaled(a, value) / b) / b); };
               return {needs[0] ? lx.reduce(grad) : Tensor(),
                       needs[1] ? la.reduce(rounded_once(to_a, grad, b.get())) : Tensor(),
                       needs[2] ? lb.reduce(rounded_once(to_b, grad, a.get(), b.get())) : Tensor()};
             });
    return out;
  };
  return computed_in_kernel(dtype, sum, x, a, b);
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
  if (change_in_one_pass(TernaryOp::lerp, self, end, weight, 0, "lerp_")) return self;
  return composite_(
      "lerp_", self, [&](T x) { return blend(x, end, weight, "lerp_"); }, end, weight);
}
const Tensor& lerp_(T self, T end, Scalar weight) {
  if (change_in_one_pass(TernaryOp::lerp_scalar, self, end, end, weight, "lerp_")) return self;
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
  if (change_in_one_pass(TernaryOp::addcmul, self, a, b, value, "addcmul_")) return self;
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
  if (change_in_one_pass(TernaryOp::addcdiv, self, a, b, value, "addcdiv_")) return self;
  return composite_(
      "addcdiv_", self, [&](T x) { return add_quotient(x, a, b, value, "addcdiv_"); }, a, b);
}

}  // namespace ferrite
