#include "ops/arithmetic.h"

#include "autograd/record.h"
#include "kernels/elementwise.h"
#include "ops/promotion.h"

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

Operands prepare(const Tensor& a, const Tensor& b, const char* op, bool divides = false) {
  ops::check_same_device(a, b, op);
  DType dtype = ops::result_type(a, b);
  if (divides) dtype = ops::floating_type(dtype);
  return ops::operands(a, b, dtype, dtype, op);
}

Tensor compute(BinaryOp op, const Operands& o) {
  kernels::binary(current_stream(o.out.device()), op, o.out, o.a, o.b);
  return o.out;
}

/// The kernel of a tensor and a scalar, in the promoted dtype.
Tensor compute(BinaryOp op, const Tensor& a, Scalar b, bool divides = false) {
  DType dtype = ops::result_type(a, b);
  if (divides) dtype = ops::floating_type(dtype);
  const Tensor x = ops::operand(a, dtype, a.shape(), a.device());
  Tensor out = empty_like(x);
  kernels::binary(current_stream(out.device()), op, out, x, b);
  return out;
}

bool is_one(Scalar s) { return s.to<double>() == 1; }

/// The other operand as `self`'s in-place change needs it.
Tensor inplace_operand(const Tensor& self, const Tensor& other, const char* op,
                       bool divides = false) {
  ops::check_same_device(self, other, op);
  DType result = ops::result_type(self, other);
  if (divides) result = ops::floating_type(result);
  FERRITE_CHECK(promote(result, self.dtype()) == self.dtype() ||
                    (is_floating(result) && is_floating(self.dtype())),
                DTypeError, op, "the result is {}, which cannot be stored in place in {}", result,
                self.dtype());
  FERRITE_CHECK(broadcast_shapes(self.shape(), other.shape(), op) == self.shape(), ShapeError, op,
                "{} changed in place cannot take the shape it has with {}", self.describe(),
                other.describe());
  autograd::check_inplace(self, op);
  return ops::operand(other, self.dtype(), self.shape(), self.device());
}

void inplace_scalar(const Tensor& self, Scalar other, const char* op, bool divides = false) {
  DType result = ops::result_type(self, other);
  if (divides) result = ops::floating_type(result);
  FERRITE_CHECK(result == self.dtype(), DTypeError, op,
                "the result is {}, which cannot be stored in place in {}", result, self.dtype());
  autograd::check_inplace(self, op);
}

}  // namespace

// ---- add, sub

Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) {
  const Operands o = prepare(a, b, "add");
  if (is_one(alpha))
    compute(BinaryOp::add, o);
  else
    kernels::add_scaled(current_stream(o.out.device()), o.out, o.a, o.b, alpha);
  if (recording(a, b))
    record(o.out, "add", {a, b},
           [la = Like(a), lb = Like(b), alpha](const Tensor& grad, Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad) : Tensor(),
                     needs[1] ? lb.reduce(is_one(alpha) ? grad : mul(grad, alpha)) : Tensor()};
           });
  return o.out;
}

Tensor add(const Tensor& a, Scalar b) {
  Tensor out = compute(BinaryOp::add, a, b);
  if (recording(a)) record(out, "add", {a}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) {
  const Operands o = prepare(a, b, "sub");
  FERRITE_CHECK(o.out.dtype() != kBool, DTypeError, "sub",
                "bool tensors cannot be subtracted; use logical_xor or ne");
  if (is_one(alpha))
    compute(BinaryOp::sub, o);
  else
    kernels::add_scaled(current_stream(o.out.device()), o.out, o.a, o.b, -alpha.to<double>());
  if (recording(a, b))
    record(o.out, "sub", {a, b},
           [la = Like(a), lb = Like(b), alpha](const Tensor& grad, Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad) : Tensor(),
                     needs[1] ? lb.reduce(mul(grad, -alpha.to<double>())) : Tensor()};
           });
  return o.out;
}

Tensor sub(const Tensor& a, Scalar b) {
  Tensor out = compute(BinaryOp::sub, a, b);
  if (recording(a)) record(out, "sub", {a}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

Tensor sub(Scalar a, const Tensor& b) {
  const Tensor x = ops::operand(b, ops::result_type(b, a), b.shape(), b.device());
  Tensor out = empty_like(x);
  kernels::binary(current_stream(out.device()), BinaryOp::sub, out, a, x);
  if (recording(b))
    record(out, "rsub", {b}, [](const Tensor& grad, Needs) { return mul(grad, -1); });
  return out;
}

// ---- mul, div

Tensor mul(const Tensor& a, const Tensor& b) {
  const Operands o = prepare(a, b, "mul");
  compute(BinaryOp::mul, o);
  if (recording(a, b))
    record(
        o.out, "mul", {a, b},
        [a = Saved(b.requires_grad() ? a : Tensor()), b = Saved(a.requires_grad() ? b : Tensor()),
         la = Like(a), lb = Like(b)](const Tensor& grad, Needs needs) -> Gradients {
          return {needs[0] ? la.reduce(mul(grad, b.get())) : Tensor(),
                  needs[1] ? lb.reduce(mul(grad, a.get())) : Tensor()};
        });
  return o.out;
}

Tensor mul(const Tensor& a, Scalar b) {
  Tensor out = compute(BinaryOp::mul, a, b);
  if (recording(a))
    record(out, "mul", {a}, [b](const Tensor& grad, Needs) { return mul(grad, b); });
  return out;
}

Tensor div(const Tensor& a, const Tensor& b) {
  const Operands o = prepare(a, b, "div", true);
  compute(BinaryOp::div, o);
  if (recording(a, b))
    record(o.out, "div", {a, b},
           [b = Saved(b), out = Saved::output(o.out), la = Like(a), lb = Like(b)](
               const Tensor& grad, Needs needs) -> Gradients {
             const Tensor scaled = div(grad, b.get());
             return {needs[0] ? la.reduce(scaled) : Tensor(),
                     needs[1] ? lb.reduce(mul(mul(scaled, out.get()), -1)) : Tensor()};
           });
  return o.out;
}

Tensor div(const Tensor& a, Scalar b) {
  Tensor out = compute(BinaryOp::div, a, b, true);
  if (recording(a))
    record(out, "div", {a}, [b](const Tensor& grad, Needs) { return div(grad, b); });
  return out;
}

Tensor div(Scalar a, const Tensor& b) {
  const DType dtype = ops::floating_type(ops::result_type(b, a));
  const Tensor x = ops::operand(b, dtype, b.shape(), b.device());
  Tensor out = empty_like(x);
  kernels::binary(current_stream(out.device()), BinaryOp::div, out, a, x);
  if (recording(b))
    record(out, "rdiv", {b}, [b = Saved(b), out = Saved::output(out)](const Tensor& grad, Needs) {
      return mul(div(mul(grad, out.get()), b.get()), -1);
    });
  return out;
}

// ---- In place. The gradient of `self` as it was comes first.

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  const Tensor b = inplace_operand(*this, other, "add_");
  kernels::add_scaled(current_stream(device()), *this, *this, b, alpha);
  autograd::changed_inplace(*this, "add_");
  if (recording(*this, other))
    autograd::record_inplace(
        *this, "add_", {*this, other},
        [lb = Like(other), alpha](const Tensor& grad, Needs needs) -> Gradients {
          return {grad, needs[1] ? lb.reduce(is_one(alpha) ? grad : grad * alpha) : Tensor()};
        });
  return *this;
}

const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  return add_(
      other, alpha.is_floating() ? Scalar(-alpha.to<double>()) : Scalar(-alpha.to<std::int64_t>()));
}

const Tensor& Tensor::mul_(const Tensor& other) const {
  const Tensor b = inplace_operand(*this, other, "mul_");
  const bool records = recording(*this, other);
  // The values that the change destroys, where the other operand's gradient needs them.
  const Tensor before = records && other.requires_grad() ? clone() : Tensor();
  kernels::binary(current_stream(device()), BinaryOp::mul, *this, *this, b);
  autograd::changed_inplace(*this, "mul_");
  if (records)
    autograd::record_inplace(*this, "mul_", {*this, other},
                             [a = Saved(before), b = Saved(other), lb = Like(other)](
                                 const Tensor& grad, Needs needs) -> Gradients {
                               return {needs[0] ? grad * b.get() : Tensor(),
                                       needs[1] ? lb.reduce(grad * a.get()) : Tensor()};
                             });
  return *this;
}

const Tensor& Tensor::div_(const Tensor& other) const {
  const Tensor b = inplace_operand(*this, other, "div_", true);
  const bool records = recording(*this, other);
  const Tensor before = records && other.requires_grad() ? clone() : Tensor();
  kernels::binary(current_stream(device()), BinaryOp::div, *this, *this, b);
  autograd::changed_inplace(*this, "div_");
  if (records)
    autograd::record_inplace(
        *this, "div_", {*this, other},
        [a = Saved(before), b = Saved(other), lb = Like(other)](const Tensor& grad,
                                                                Needs needs) -> Gradients {
          const Tensor scaled = grad / b.get();
          return {scaled, needs[1] ? lb.reduce(scaled * a.get() / b.get() * -1) : Tensor()};
        });
  return *this;
}

const Tensor& Tensor::add_(Scalar other) const {
  inplace_scalar(*this, other, "add_");
  kernels::binary(current_stream(device()), BinaryOp::add, *this, *this, other);
  autograd::changed_inplace(*this, "add_");
  return *this;
}

const Tensor& Tensor::sub_(Scalar other) const {
  inplace_scalar(*this, other, "sub_");
  kernels::binary(current_stream(device()), BinaryOp::sub, *this, *this, other);
  autograd::changed_inplace(*this, "sub_");
  return *this;
}

const Tensor& Tensor::mul_(Scalar other) const {
  inplace_scalar(*this, other, "mul_");
  kernels::binary(current_stream(device()), BinaryOp::mul, *this, *this, other);
  autograd::changed_inplace(*this, "mul_");
  if (recording(*this))
    autograd::record_inplace(*this, "mul_", {*this},
                             [other](const Tensor& grad, Needs) { return grad * other; });
  return *this;
}

const Tensor& Tensor::div_(Scalar other) const {
  inplace_scalar(*this, other, "div_", true);
  kernels::binary(current_stream(device()), BinaryOp::div, *this, *this, other);
  autograd::changed_inplace(*this, "div_");
  if (recording(*this))
    autograd::record_inplace(*this, "div_", {*this},
                             [other](const Tensor& grad, Needs) { return grad / other; });
  return *this;
}

}  // namespace ferrite
