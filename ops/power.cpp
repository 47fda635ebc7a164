// Powers, remainders and angles of ops/compare.h.
#include <cmath>
#include <optional>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/inplace.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::BinaryOp;
using ops::Like;
using ops::Operands;

namespace {

void reject_bool(DType dtype, const char* op) {
  FERRITE_CHECK(dtype != kBool, DTypeError, op, "does not work on bool; convert with to(dtype)");
}

Operands promote_and_compute(BinaryOp op, const Tensor& a, const Tensor& b, const char* name,
                             bool floating = false) {
  ops::check_same_device(a, b, name);
  DType dtype = ops::result_type(a, b);
  if (floating) dtype = ops::floating_type(dtype);
  reject_bool(dtype, name);
  Operands o = ops::operands(a, b, dtype, dtype, name);
  kernels::binary(current_stream(o.out.device()), op, o.out, o.a, o.b);
  return o;
}

/// `x` converted to its promoted dtype with `other`.
Tensor promoted(const Tensor& x, Scalar other, const char* name) {
  FERRITE_CHECK(x.defined(), ValueError, name, "the tensor is undefined");
  const DType dtype = ops::result_type(x, other);
  reject_bool(dtype, name);
  return ops::operand(x, dtype, x.shape(), x.device());
}

Tensor promote_and_compute(BinaryOp op, const Tensor& a, Scalar b, const char* name) {
  const Tensor x = promoted(a, b, name);
  Tensor out = empty_like(x);
  kernels::binary(current_stream(out.device()), op, out, x, b);
  return out;
}

}  // namespace

// ---- pow

namespace {

/// The cheaper equivalent of a floating-point power, if there is one.
std::optional<kernels::UnaryOp> special_power(double exponent) {
  if (exponent == 2) return kernels::UnaryOp::square;
  if (exponent == 0.5) return kernels::UnaryOp::sqrt;
  if (exponent == -0.5) return kernels::UnaryOp::rsqrt;
  if (exponent == -1) return kernels::UnaryOp::reciprocal;
  return {};
}

Scalar minus_one(Scalar s) {
  if (s.is_floating()) return s.to<double>() - 1;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(s.to<std::int64_t>()) - 1);  // wraps
}

}  // namespace

namespace {

/// out = x^exponent, of one dtype; may be in place.
void raise(const Tensor& out, const Tensor& x, Scalar exponent, const char* op) {
  ops::check_real(x, op);
  const double e = exponent.to<double>();
  FERRITE_CHECK(is_floating(x.dtype()) || e >= 0, ValueError, op,
                "integers cannot be raised to the negative power {}; convert with to(kFloat32)", e);
  const Stream stream = current_stream(out.device());
  if (const auto special = special_power(e); special && is_floating(x.dtype()))
    kernels::unary(stream, *special, out, x);
  else
    kernels::binary(stream, BinaryOp::pow, out, x, exponent);
}

auto power_gradient(const Tensor& x, Scalar exponent) {
  return [x = Saved(x), exponent](const Tensor& grad, Needs) {
    if (exponent.to<double>() == 0) return zeros_like(grad);
    return grad * (pow(x.get(), minus_one(exponent)) * exponent);
  };
}

}  // namespace

Tensor pow(const Tensor& x, Scalar exponent) {
  if (tracing::on())
    return tracing::op("pow", {x}, {{"scalar", exponent}}, [&] { return pow(x, exponent); });
  if (const auto cast = ops::autocast(AutocastOp::pow, x)) return pow(*cast, exponent);
  const profiler::OpRange range("pow", x);
  if (x.defined() && ops::result_type(x, exponent) == kBool)  // x^true is x, x^false is true
    return exponent.to<bool>() ? x.clone() : ones_like(x);
  const Tensor in = promoted(x, exponent, "pow");
  Tensor out = empty_like(in);
  raise(out, in, exponent, "pow");
  if (recording(x)) record(out, "pow", {x}, power_gradient(x, exponent));
  return out;
}

const Tensor& pow_(const Tensor& self, Scalar exponent) {
  const profiler::OpRange range("pow_", self);
  if (self.defined() && ops::result_type(self, exponent) == kBool) {
    autograd::check_inplace(self, "pow_");
    return exponent.to<bool>() ? self : self.fill_(true);
  }
  const Tensor in = promoted(self, exponent, "pow_");
  FERRITE_CHECK(in.dtype() == self.dtype(), DTypeError, "pow_",
                "the result is {}, which cannot be stored in place in {}", in.dtype(),
                self.dtype());
  autograd::check_inplace(self, "pow_");
  const bool records = recording(self);
  const Tensor before = records ? self.clone() : Tensor();
  raise(self, self, exponent, "pow_");
  autograd::changed_inplace(self, "pow_");
  if (records) autograd::record_inplace(self, "pow_", {self}, power_gradient(before, exponent));
  return self;
}

namespace {

// Both gradients are 0 where the formula gives 0 * infinity: 0^0 as a function of x has gradient 0,
// and so have powers of 0, which do not change with an exponent of 0 or more.
Tensor base_gradient(const Tensor& grad, const Tensor& x, const Tensor& exponent) {
  return where(eq(exponent, 0), 0, grad * exponent * pow(x, exponent - 1));
}
Tensor exponent_gradient(const Tensor& grad, const Tensor& x, const Tensor& exponent,
                         const Tensor& out) {
  const Tensor base = is_floating(x.dtype()) ? x : x.to(out.dtype());
  return where(logical_and(eq(x, 0), ge(exponent, 0)), 0, grad * out * log(base));
}

}  // namespace

Tensor pow(const Tensor& x, const Tensor& exponent) {
  if (tracing::on()) return tracing::op("pow", {x, exponent}, {}, [&] { return pow(x, exponent); });
  if (const auto cast = ops::autocast(AutocastOp::pow, x, exponent)) {
    const auto& [b, e] = *cast;
    return pow(b, e);
  }
  const profiler::OpRange range("pow", x, exponent);
  const Operands o = promote_and_compute(BinaryOp::pow, x, exponent, "pow");
  if (recording(x, exponent))
    record(o.out, "pow", {x, exponent},
           [x = Saved(x), exponent = Saved(exponent), out = Saved::output(o.out), lx = Like(x),
            le = Like(exponent)](const Tensor& grad, Needs needs) -> Gradients {
             const Tensor b = x.get(), e = exponent.get();
             return {needs[0] ? lx.reduce(base_gradient(grad, b, e)) : Tensor(),
                     needs[1] ? le.reduce(exponent_gradient(grad, b, e, out.get())) : Tensor()};
           });
  return o.out;
}

const Tensor& pow_(const Tensor& self, const Tensor& exponent) {
  const profiler::OpRange range("pow_", self, exponent);
  const DType dtype = ops::inplace_dtype(self, exponent, "pow_");
  reject_bool(dtype, "pow_");
  const bool records = recording(self, exponent);
  const Saved before = records ? Saved(self.clone()) : Saved();
  const Saved power = records ? Saved(ops::unaliased(exponent, self)) : Saved();
  ops::change(BinaryOp::pow, self, exponent, dtype, "pow_");
  if (records)
    autograd::record_inplace(
        self, "pow_", {self, exponent},
        [before, power, out = Saved::output(self), ls = Like(self), le = Like(exponent)](
            const Tensor& grad, Needs needs) -> Gradients {
          const Tensor b = before.get(), p = power.get();
          return {needs[0] ? ls.reduce(base_gradient(grad, b, p)) : Tensor(),
                  needs[1] ? le.reduce(exponent_gradient(grad, b, p, out.get())) : Tensor()};
        });
  return self;
}

Tensor pow(Scalar base, const Tensor& exponent) {
  if (tracing::on())
    return tracing::op("rpow", {exponent}, {{"scalar", base}}, [&] { return pow(base, exponent); });
  if (const auto cast = ops::autocast(AutocastOp::pow, exponent)) return pow(base, *cast);
  const profiler::OpRange range("pow", exponent);
  const Tensor e = promoted(exponent, base, "pow");
  Tensor out = empty_like(e);
  kernels::binary(current_stream(out.device()), BinaryOp::pow, out, base, e);
  if (recording(exponent))
    record(out, "pow", {exponent},
           [base, e = Saved(exponent), out = Saved::output(out)](const Tensor& grad, Needs) {
             const double b = base.to<double>();
             if (b == 0) return where(ge(e.get(), 0), 0, grad * out.get() * std::log(b));
             return grad * out.get() * std::log(b);
           });
  return out;
}

// ---- floor_divide, remainder, fmod

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  if (tracing::on())
    return tracing::op("floor_divide", {a, b}, {}, [&] { return floor_divide(a, b); });
  const profiler::OpRange range("floor_divide", a, b);
  return promote_and_compute(BinaryOp::floor_divide, a, b, "floor_divide").out;
}
Tensor floor_divide(const Tensor& a, Scalar b) {
  if (tracing::on())
    return tracing::op("floor_divide", {a}, {{"scalar", b}}, [&] { return floor_divide(a, b); });
  const profiler::OpRange range("floor_divide", a);
  return promote_and_compute(BinaryOp::floor_divide, a, b, "floor_divide");
}

Tensor remainder(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("remainder", {a, b}, {}, [&] { return remainder(a, b); });
  const profiler::OpRange range("remainder", a, b);
  const Operands o = promote_and_compute(BinaryOp::remainder, a, b, "remainder");
  if (recording(a, b))
    record(o.out, "remainder", {a, b},
           [a = Saved(a), b = Saved(b), la = Like(a), lb = Like(b)](const Tensor& grad,
                                                                    Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad) : Tensor(),
                     needs[1] ? lb.reduce(neg(grad * floor_divide(a.get(), b.get()))) : Tensor()};
           });
  return o.out;
}
Tensor remainder(const Tensor& a, Scalar b) {
  if (tracing::on())
    return tracing::op("remainder", {a}, {{"scalar", b}}, [&] { return remainder(a, b); });
  const profiler::OpRange range("remainder", a);
  Tensor out = promote_and_compute(BinaryOp::remainder, a, b, "remainder");
  if (recording(a)) record(out, "remainder", {a}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("fmod", {a, b}, {}, [&] { return fmod(a, b); });
  const profiler::OpRange range("fmod", a, b);
  const Operands o = promote_and_compute(BinaryOp::fmod, a, b, "fmod");
  if (recording(a, b))
    record(o.out, "fmod", {a, b},
           [a = Saved(a), b = Saved(b), la = Like(a), lb = Like(b)](const Tensor& grad,
                                                                    Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad) : Tensor(),
                     needs[1] ? lb.reduce(neg(grad * div(a.get(), b.get(), "trunc"))) : Tensor()};
           });
  return o.out;
}
Tensor fmod(const Tensor& a, Scalar b) {
  if (tracing::on()) return tracing::op("fmod", {a}, {{"scalar", b}}, [&] { return fmod(a, b); });
  const profiler::OpRange range("fmod", a);
  Tensor out = promote_and_compute(BinaryOp::fmod, a, b, "fmod");
  if (recording(a)) record(out, "fmod", {a}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

// ---- atan2

Tensor atan2(const Tensor& a, const Tensor& b) {
  const profiler::OpRange range("atan2", a, b);
  const Operands o = promote_and_compute(BinaryOp::atan2, a, b, "atan2", true);
  if (recording(a, b))
    record(o.out, "atan2", {a, b},
           [a = Saved(a), b = Saved(b), la = Like(a), lb = Like(b)](const Tensor& grad,
                                                                    Needs needs) -> Gradients {
             // Bool and integers are converted to the result's dtype; at the origin the gradient is
             // 0.
             const auto number = [&](const Tensor& t) {
               return is_floating(t.dtype()) ? t : t.to(grad.dtype());
             };
             const Tensor y = number(a.get()), x = number(b.get()), radius = hypot(y, x);
             // Divided twice: a square would leave the range of 16 bits, and of others.
             const auto slope = [&](const Tensor& t) {
               return grad * where(eq(radius, 0), 0, t / radius / radius);
             };
             return {needs[0] ? la.reduce(slope(x)) : Tensor(),
                     needs[1] ? lb.reduce(neg(slope(y))) : Tensor()};
           });
  return o.out;
}

}  // namespace ferrite
