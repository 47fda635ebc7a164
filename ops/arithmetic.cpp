#include "ferrite/ops/arithmetic.h"

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/inplace.h"
#include "ferrite/ops/promotion.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::BinaryOp;
using ops::Before;
using ops::change;
using ops::check_defined;
using ops::inplace_dtype;
using ops::Like;
using ops::Operands;

namespace {

void check_subtracts(DType result, const char* op) {
  FERRITE_CHECK(result != kBool, DTypeError, op,
                "bool cannot be subtracted from bool; use logical_xor or ne");
}

void check_alpha(Scalar alpha, DType result, const char* op) {
  FERRITE_CHECK(is_differentiable(result) || !alpha.is_floating(), DTypeError, op,
                "expected an integer alpha for a result of {}, got {}", result, alpha.to<double>());
  FERRITE_CHECK(is_complex(result) || !alpha.is_complex(), DTypeError, op,
                "expected a real alpha for a result of {}, got a complex one", result);
  ops::check_storable(alpha, result, op);
}

/// The dtype of the result and of the computation.
DType common_dtype(const Tensor& a, const Tensor& b, const char* op) {
  ops::check_same_device(a, b, op);
  return ops::result_type(a, b);
}

/// kernel(stream, out, a, b) on both operands in `dtype`, broadcast.
template <class Kernel>
Tensor apply(const Tensor& a, const Tensor& b, DType dtype, const char* op, const Kernel& kernel,
             ops::Rounding rounding = ops::Rounding::early) {
  if (ops::need_nothing(a, b, dtype)) [[likely]] {  // avoids creating handles, which cost more
    Tensor out = empty_like(a);
    kernel(current_stream(out.device()), out, a, b);
    return out;
  }
  Operands o = ops::operands(a, b, dtype, dtype, op, rounding);
  kernel(current_stream(o.out.device()), o.out, o.a, o.b);
  return std::move(o.out);
}

Tensor compute(BinaryOp function, const Tensor& a, const Tensor& b, DType dtype, const char* op) {
  return apply(
      a, b, dtype, op,
      [&](const Stream& stream, const Tensor& out, const Tensor& x, const Tensor& y) {
        kernels::binary(stream, function, out, x, y);
      },
      ops::rounding_of(function));
}

/// The kernel of a tensor and a scalar, in the promoted dtype.
Tensor compute(BinaryOp op, const Tensor& a, Scalar b, const char* name, bool divides = false) {
  check_defined(a, name);
  DType dtype = ops::result_type(a, b);
  if (divides) dtype = ops::floating_type(dtype);
  if (op == BinaryOp::sub) check_subtracts(dtype, name);
  const Tensor x = ops::operand(a, dtype, a.shape(), a.device());
  Tensor out = empty_like(x);
  kernels::binary(current_stream(out.device()), op, out, x, b);
  return out;
}
/// The same with the scalar first.
Tensor compute(BinaryOp op, Scalar a, const Tensor& b, const char* name, bool divides = false) {
  check_defined(b, name);
  DType dtype = ops::result_type(b, a);
  if (divides) dtype = ops::floating_type(dtype);
  if (op == BinaryOp::sub) check_subtracts(dtype, name);
  const Tensor x = ops::operand(b, dtype, b.shape(), b.device());
  Tensor out = empty_like(x);
  kernels::binary(current_stream(out.device()), op, out, a, x);
  return out;
}

bool is_one(Scalar s) { return !s.is_complex() && s.to<double>() == 1; }

/// Whether a kernel of a tensor and a scalar does not know the two: a complex one is a tensor to
/// it.
bool needs_tensor(const Tensor& t, Scalar s, bool scales = false) {
  return s.is_complex() || (t.defined() && t.is_complex() && !scales);
}
Tensor as_tensor(Scalar s, const Tensor& beside) {
  check_defined(beside, "scalar");
  return full({}, s, {.dtype = ops::result_type(beside, s), .device = beside.device()});
}

Scalar negated(Scalar s) {
  if (s.is_complex()) return -s.to<std::complex<double>>();
  if (s.is_floating()) return -s.to<double>();
  return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(s.to<std::int64_t>()));
}

/// a + alpha * b
Tensor add_scaled(const Tensor& a, const Tensor& b, Scalar alpha, DType dtype, const char* op) {
  return apply(a, b, dtype, op,
               [&](const Stream& stream, const Tensor& out, const Tensor& x, const Tensor& y) {
                 kernels::add_scaled(stream, out, x, y, alpha);
               });
}

}  // namespace

// ---- add, sub

Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) {
  if (tracing::on())
    return tracing::op("add", {a, b}, {{"alpha", alpha}}, [&] { return add(a, b, alpha); });
  if (alpha.is_complex()) {
    const DType dtype = common_dtype(a, b, "add");
    check_alpha(alpha, dtype, "add");
    return add(a, mul(b.to(dtype), alpha));
  }
  const profiler::OpRange range("add", a, b);
  const DType dtype = common_dtype(a, b, "add");
  check_alpha(alpha, dtype, "add");
  Tensor out = is_one(alpha) ? compute(BinaryOp::add, a, b, dtype, "add")
                             : add_scaled(a, b, alpha, dtype, "add");
  if (recording(a, b))
    record(out, "add", {a, b},
           [la = Like(a), lb = Like(b), alpha](const Tensor& grad, Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad) : Tensor(),
                     needs[1] ? lb.reduce(is_one(alpha) ? grad : mul(grad, alpha)) : Tensor()};
           });
  return out;
}

Tensor add(const Tensor& a, Scalar b) {
  if (tracing::on()) return tracing::op("add", {a}, {{"scalar", b}}, [&] { return add(a, b); });
  if (needs_tensor(a, b)) return add(a, as_tensor(b, a));
  const profiler::OpRange range("add", a);
  Tensor out = compute(BinaryOp::add, a, b, "add");
  if (recording(a)) record(out, "add", {a}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) {
  if (tracing::on())
    return tracing::op("sub", {a, b}, {{"alpha", alpha}}, [&] { return sub(a, b, alpha); });
  if (alpha.is_complex()) {
    const DType dtype = common_dtype(a, b, "sub");
    check_alpha(alpha, dtype, "sub");
    return sub(a, mul(b.to(dtype), alpha));
  }
  const profiler::OpRange range("sub", a, b);
  const DType dtype = common_dtype(a, b, "sub");
  check_subtracts(dtype, "sub");
  check_alpha(alpha, dtype, "sub");
  Tensor out = is_one(alpha) ? compute(BinaryOp::sub, a, b, dtype, "sub")
                             : add_scaled(a, b, negated(alpha), dtype, "sub");
  if (recording(a, b))
    record(out, "sub", {a, b},
           [la = Like(a), lb = Like(b), alpha](const Tensor& grad, Needs needs) -> Gradients {
             return {needs[0] ? la.reduce(grad) : Tensor(),
                     needs[1] ? lb.reduce(mul(grad, negated(alpha))) : Tensor()};
           });
  return out;
}

Tensor sub(const Tensor& a, Scalar b) {
  if (tracing::on()) return tracing::op("sub", {a}, {{"scalar", b}}, [&] { return sub(a, b); });
  if (needs_tensor(a, b)) return sub(a, as_tensor(b, a));
  const profiler::OpRange range("sub", a);
  Tensor out = compute(BinaryOp::sub, a, b, "sub");
  if (recording(a)) record(out, "sub", {a}, [](const Tensor& grad, Needs) { return grad; });
  return out;
}

Tensor sub(Scalar a, const Tensor& b) {
  if (tracing::on()) return tracing::op("rsub", {b}, {{"scalar", a}}, [&] { return sub(a, b); });
  if (needs_tensor(b, a)) return sub(as_tensor(a, b), b);
  const profiler::OpRange range("sub", b);
  Tensor out = compute(BinaryOp::sub, a, b, "sub");
  if (recording(b))
    record(out, "rsub", {b}, [](const Tensor& grad, Needs) { return mul(grad, -1); });
  return out;
}

// ---- mul, div

Tensor mul(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("mul", {a, b}, {}, [&] { return mul(a, b); });
  const profiler::OpRange range("mul", a, b);
  Tensor out = compute(BinaryOp::mul, a, b, common_dtype(a, b, "mul"), "mul");
  if (recording(a, b))
    record(
        out, "mul", {a, b},
        [a = Saved(b.requires_grad() ? a : Tensor()), b = Saved(a.requires_grad() ? b : Tensor()),
         la = Like(a), lb = Like(b)](const Tensor& grad, Needs needs) -> Gradients {
          return {needs[0] ? la.reduce(mul(grad, conj(b.get()))) : Tensor(),
                  needs[1] ? lb.reduce(mul(grad, conj(a.get()))) : Tensor()};
        });
  return out;
}

Tensor mul(const Tensor& a, Scalar b) {
  if (tracing::on()) return tracing::op("mul", {a}, {{"scalar", b}}, [&] { return mul(a, b); });
  if (needs_tensor(a, b, true)) return mul(a, as_tensor(b, a));
  const profiler::OpRange range("mul", a);
  Tensor out = compute(BinaryOp::mul, a, b, "mul");
  if (recording(a))
    record(out, "mul", {a}, [b](const Tensor& grad, Needs) { return mul(grad, b); });
  return out;
}

Tensor div(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("div", {a, b}, {}, [&] { return div(a, b); });
  const profiler::OpRange range("div", a, b);
  const DType dtype = ops::floating_type(common_dtype(a, b, "div"));
  Tensor out = compute(BinaryOp::div, a, b, dtype, "div");
  if (recording(a, b))
    record(out, "div", {a, b},
           [a = Saved(b.requires_grad() ? a : Tensor()), b = Saved(b), la = Like(a), lb = Like(b)](
               const Tensor& grad, Needs needs) -> Gradients {
             const Tensor scaled = div(grad, conj(b.get()));
             if (!needs[1]) return {la.reduce(scaled), Tensor()};
             // The quotient again: its tensor may have been changed in place since.
             const Tensor quotient = div(a.get(), b.get());
             return {needs[0] ? la.reduce(scaled) : Tensor(),
                     lb.reduce(mul(mul(scaled, conj(quotient)), -1))};
           });
  return out;
}

Tensor div(const Tensor& a, Scalar b) {
  if (tracing::on()) return tracing::op("div", {a}, {{"scalar", b}}, [&] { return div(a, b); });
  if (needs_tensor(a, b, true)) return div(a, as_tensor(b, a));
  const profiler::OpRange range("div", a);
  Tensor out = compute(BinaryOp::div, a, b, "div", true);
  if (recording(a))
    record(out, "div", {a}, [b](const Tensor& grad, Needs) { return div(grad, b); });
  return out;
}

Tensor div(Scalar a, const Tensor& b) {
  if (tracing::on()) return tracing::op("rdiv", {b}, {{"scalar", a}}, [&] { return div(a, b); });
  if (needs_tensor(b, a)) return div(as_tensor(a, b), b);
  if (const auto cast = ops::autocast(AutocastOp::reciprocal, b)) return div(a, *cast);
  const profiler::OpRange range("div", b);
  Tensor out = compute(BinaryOp::div, a, b, "div", true);
  if (recording(b))
    record(out, "rdiv", {b}, [a, b = Saved(b)](const Tensor& grad, Needs) {
      // Not by the quotient, which overflows where its product with a small gradient does not.
      return div(mul(div(grad, b.get()), -a.to<double>()), b.get());
    });
  return out;
}

// ---- In place. The gradient of the previous `self` comes first.

namespace {

void check_inplace(const Tensor& self, Scalar other, const char* op, bool divides = false) {
  check_defined(self, op);
  DType result = ops::result_type(self, other);
  if (divides) result = ops::floating_type(result);
  FERRITE_CHECK(ops::can_store(result, self.dtype()), DTypeError, op,
                "the result is {}, which cannot be stored in place in {}", result, self.dtype());
  autograd::check_inplace(self, op);
}

void change(BinaryOp function, const Tensor& self, Scalar other, const char* op) {
  kernels::binary(current_stream(self.device()), function, self, self, other);
  autograd::changed_inplace(self, op);
}

/// For add_ and sub_: a node whose gradient is that of its output.
void shift(BinaryOp function, const Tensor& self, Scalar other, const char* op) {
  change(function, self, other, op);
  if (recording(self))
    autograd::record_inplace(self, op, {self}, [](const Tensor& grad, Needs) { return grad; });
}

/// self += alpha * other, for add_ and sub_.
void accumulate(const Tensor& self, const Tensor& other, Scalar alpha, DType dtype,
                const char* op) {
  check_alpha(alpha, dtype, op);
  if (alpha.is_complex()) return accumulate(self, mul(other.to(dtype), alpha), 1, dtype, op);
  change(self, other, dtype, op, [&](const Stream& stream, const Tensor& a, const Tensor& b) {
    kernels::add_scaled(stream, a, a, b, alpha);
  });
  if (recording(self, other))
    autograd::record_inplace(
        self, op, {self, other},
        [lb = Like(other), alpha](const Tensor& grad, Needs needs) -> Gradients {
          return {grad, needs[1] ? lb.reduce(is_one(alpha) ? grad : mul(grad, alpha)) : Tensor()};
        });
}

}  // namespace

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  if (tracing::on())
    return tracing::op("add_", {*this, other}, {{"alpha", alpha}},
                       [&]() -> const Tensor& { return add_(other, alpha); });
  const profiler::OpRange range("add_", *this, other);
  accumulate(*this, other, alpha, inplace_dtype(*this, other, "add_"), "add_");
  return *this;
}

const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  if (tracing::on())
    return tracing::op("sub_", {*this, other}, {{"alpha", alpha}},
                       [&]() -> const Tensor& { return sub_(other, alpha); });
  const profiler::OpRange range("sub_", *this, other);
  const DType dtype = inplace_dtype(*this, other, "sub_");
  check_subtracts(dtype, "sub_");
  accumulate(*this, other, negated(alpha), dtype, "sub_");
  return *this;
}

const Tensor& Tensor::mul_(const Tensor& other) const {
  if (tracing::on())
    return tracing::op("mul_", {*this, other}, {}, [&]() -> const Tensor& { return mul_(other); });
  const profiler::OpRange range("mul_", *this, other);
  const DType dtype = inplace_dtype(*this, other, "mul_");
  const Before before(*this, other);
  change(BinaryOp::mul, *this, other, dtype, "mul_");
  if (before.records)
    autograd::record_inplace(*this, "mul_", {*this, other},
                             [a = Saved(before.a), b = Saved(before.b), la = Like(*this),
                              lb = Like(other)](const Tensor& grad, Needs needs) -> Gradients {
                               return {
                                   needs[0] ? la.reduce(grad * ferrite::conj(b.get())) : Tensor(),
                                   needs[1] ? lb.reduce(grad * ferrite::conj(a.get())) : Tensor()};
                             });
  return *this;
}

const Tensor& Tensor::div_(const Tensor& other) const {
  if (tracing::on())
    return tracing::op("div_", {*this, other}, {}, [&]() -> const Tensor& { return div_(other); });
  const profiler::OpRange range("div_", *this, other);
  const DType dtype = inplace_dtype(*this, other, "div_", true);
  const Before before(*this, other);
  change(BinaryOp::div, *this, other, dtype, "div_");
  if (before.records)
    autograd::record_inplace(*this, "div_", {*this, other},
                             [a = Saved(before.a), b = Saved(before.b), la = Like(*this),
                              lb = Like(other)](const Tensor& grad, Needs needs) -> Gradients {
                               const Tensor scaled = grad / ferrite::conj(b.get());
                               return {needs[0] ? la.reduce(scaled) : Tensor(),
                                       needs[1] ? lb.reduce(scaled * ferrite::conj(a.get()) /
                                                            ferrite::conj(b.get()) * -1)
                                                : Tensor()};
                             });
  return *this;
}

const Tensor& Tensor::add_(Scalar other) const {
  if (tracing::on())
    return tracing::op("add_", {*this}, {{"scalar", other}},
                       [&]() -> const Tensor& { return add_(other); });
  if (needs_tensor(*this, other)) return add_(as_tensor(other, *this));
  const profiler::OpRange range("add_", *this);
  check_inplace(*this, other, "add_");
  shift(BinaryOp::add, *this, other, "add_");
  return *this;
}

const Tensor& Tensor::sub_(Scalar other) const {
  if (tracing::on())
    return tracing::op("sub_", {*this}, {{"scalar", other}},
                       [&]() -> const Tensor& { return sub_(other); });
  if (needs_tensor(*this, other)) return sub_(as_tensor(other, *this));
  const profiler::OpRange range("sub_", *this);
  check_inplace(*this, other, "sub_");
  check_subtracts(dtype(), "sub_");
  shift(BinaryOp::sub, *this, other, "sub_");
  return *this;
}

const Tensor& Tensor::mul_(Scalar other) const {
  if (tracing::on())
    return tracing::op("mul_", {*this}, {{"scalar", other}},
                       [&]() -> const Tensor& { return mul_(other); });
  if (needs_tensor(*this, other, true)) return mul_(as_tensor(other, *this));
  const profiler::OpRange range("mul_", *this);
  check_inplace(*this, other, "mul_");
  change(BinaryOp::mul, *this, other, "mul_");
  if (recording(*this))
    autograd::record_inplace(*this, "mul_", {*this},
                             [other](const Tensor& grad, Needs) { return grad * other; });
  return *this;
}

const Tensor& Tensor::div_(Scalar other) const {
  if (tracing::on())
    return tracing::op("div_", {*this}, {{"scalar", other}},
                       [&]() -> const Tensor& { return div_(other); });
  if (needs_tensor(*this, other, true)) return div_(as_tensor(other, *this));
  const profiler::OpRange range("div_", *this);
  check_inplace(*this, other, "div_", true);
  change(BinaryOp::div, *this, other, "div_");
  if (recording(*this))
    autograd::record_inplace(*this, "div_", {*this},
                             [other](const Tensor& grad, Needs) { return grad / other; });
  return *this;
}

}  // namespace ferrite
