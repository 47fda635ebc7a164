#include "ferrite/ops/compare.h"

#include <cmath>
#include <limits>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/host_copy.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/kernels/where.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
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

// ---- Comparisons and bits

namespace {

void check_ordered(DType dtype, BinaryOp op, const char* name) {
  if (is_complex(dtype) && op != BinaryOp::eq && op != BinaryOp::ne)
    ferrite::detail::fail_type(name, dtype);
}

Tensor compare(BinaryOp op, const Tensor& a, const Tensor& b, const char* name) {
  if (tracing::on()) return tracing::op(name, {a, b}, {}, [&] { return compare(op, a, b, name); });
  const profiler::OpRange range(name, a, b);
  ops::check_same_device(a, b, name);
  const DType dtype = ops::result_type(a, b);
  check_ordered(dtype, op, name);
  const Operands o = ops::operands(a, b, dtype, kernels::gives_bool(op) ? kBool : dtype, name);
  kernels::binary(current_stream(o.out.device()), op, o.out, o.a, o.b);
  return o.out;
}

Tensor compare(BinaryOp op, const Tensor& a, Scalar b, const char* name) {
  if (tracing::on())
    return tracing::op(name, {a}, {{"scalar", b}}, [&] { return compare(op, a, b, name); });
  const profiler::OpRange range(name, a);
  FERRITE_CHECK(a.defined(), ValueError, name, "the tensor is undefined");
  if (const DType dtype = ops::result_type(a, b); is_complex(dtype))
    return compare(op, a, full({}, b, {.dtype = dtype, .device = a.device()}), name);
  const Tensor x = ops::operand(a, ops::result_type(a, b), a.shape(), a.device());
  Tensor out = empty(x.shape(), {.dtype = kernels::gives_bool(op) ? kBool : x.dtype(),
                                 .device = x.device(),
                                 .memory_format = x.suggest_memory_format()});
  kernels::binary(current_stream(out.device()), op, out, x, b);
  return out;
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare(BinaryOp::eq, a, b, "eq"); }
Tensor eq(const Tensor& a, Scalar b) { return compare(BinaryOp::eq, a, b, "eq"); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare(BinaryOp::ne, a, b, "ne"); }
Tensor ne(const Tensor& a, Scalar b) { return compare(BinaryOp::ne, a, b, "ne"); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare(BinaryOp::lt, a, b, "lt"); }
Tensor lt(const Tensor& a, Scalar b) { return compare(BinaryOp::lt, a, b, "lt"); }
Tensor le(const Tensor& a, const Tensor& b) { return compare(BinaryOp::le, a, b, "le"); }
Tensor le(const Tensor& a, Scalar b) { return compare(BinaryOp::le, a, b, "le"); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare(BinaryOp::gt, a, b, "gt"); }
Tensor gt(const Tensor& a, Scalar b) { return compare(BinaryOp::gt, a, b, "gt"); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare(BinaryOp::ge, a, b, "ge"); }
Tensor ge(const Tensor& a, Scalar b) { return compare(BinaryOp::ge, a, b, "ge"); }
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return compare(BinaryOp::logical_and, a, b, "logical_and");
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return compare(BinaryOp::logical_or, a, b, "logical_or");
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return compare(BinaryOp::logical_xor, a, b, "logical_xor");
}

namespace {

/// `logical` is the same on bool.
template <class B>
Tensor bitwise(BinaryOp op, BinaryOp logical, const Tensor& a, const B& b, const char* name) {
  FERRITE_CHECK(a.defined(), ValueError, name, "the first operand is undefined");
  if constexpr (std::is_same_v<B, Tensor>) ops::check_same_device(a, b, name);
  const DType dtype = ops::result_type(a, b);
  FERRITE_CHECK(!is_floating(dtype), DTypeError, name,
                "expected integers or bool, got operands of {}; logical_and() and its like take "
                "any type",
                dtype);
  return compare(dtype == kBool ? logical : op, a, b, name);
}

template <class B>
Tensor shift(BinaryOp op, const Tensor& a, const B& b, const char* name) {
  FERRITE_CHECK(a.defined(), ValueError, name, "the first operand is undefined");
  if constexpr (std::is_same_v<B, Tensor>) ops::check_same_device(a, b, name);
  const DType dtype = ops::result_type(a, b);
  FERRITE_CHECK(is_integral(dtype), DTypeError, name, "expected integers, got operands of {}",
                dtype);
  return compare(op, a, b, name);
}

}  // namespace

Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  return shift(BinaryOp::shift_left, a, b, "bitwise_left_shift");
}
Tensor bitwise_left_shift(const Tensor& a, Scalar b) {
  return shift(BinaryOp::shift_left, a, b, "bitwise_left_shift");
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  return shift(BinaryOp::shift_right, a, b, "bitwise_right_shift");
}
Tensor bitwise_right_shift(const Tensor& a, Scalar b) {
  return shift(BinaryOp::shift_right, a, b, "bitwise_right_shift");
}

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return bitwise(BinaryOp::bit_and, BinaryOp::logical_and, a, b, "bitwise_and");
}
Tensor bitwise_and(const Tensor& a, Scalar b) {
  return bitwise(BinaryOp::bit_and, BinaryOp::logical_and, a, b, "bitwise_and");
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return bitwise(BinaryOp::bit_or, BinaryOp::logical_or, a, b, "bitwise_or");
}
Tensor bitwise_or(const Tensor& a, Scalar b) {
  return bitwise(BinaryOp::bit_or, BinaryOp::logical_or, a, b, "bitwise_or");
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return bitwise(BinaryOp::bit_xor, BinaryOp::logical_xor, a, b, "bitwise_xor");
}
Tensor bitwise_xor(const Tensor& a, Scalar b) {
  return bitwise(BinaryOp::bit_xor, BinaryOp::logical_xor, a, b, "bitwise_xor");
}
Tensor bitwise_not(const Tensor& x) {
  FERRITE_CHECK(x.defined(), ValueError, "bitwise_not", "the input is undefined");
  FERRITE_CHECK(is_integral(x.dtype()) || x.dtype() == kBool, DTypeError, "bitwise_not",
                "expected integers or bool, got {}", x.describe());
  // In two's complement.
  return x.dtype() == kBool ? logical_not(x) : sub(-1, x);
}

namespace {

void check_same_dtype(const Tensor& a, const Tensor& b, const char* op) {
  ops::check_same_device(a, b, op);
  FERRITE_CHECK(a.dtype() == b.dtype(), DTypeError, op,
                "expected one dtype, got {} and {}; convert one with to(dtype)", a.describe(),
                b.describe());
}

bool all_true(const Tensor& t) { return sum(logical_not(t)).item<std::int64_t>() == 0; }

/// Called before the comparison becomes part of a graph whose result could not be read.
void check_readable(const Tensor& a, const Tensor& b, const char* op) {
  for (const Tensor& t : {a, b})
    if (t.defined()) ferrite::detail::check_may_read(t.device(), op);
}

struct Closeness {
  double rtol, atol;
  bool equal_nan;
};

void check_comparable(const Tensor& a, const Tensor& b, const Closeness& how, const char* op) {
  check_same_dtype(a, b, op);
  broadcast_shapes(a.shape(), b.shape(), op);
  FERRITE_CHECK(how.rtol >= 0 && how.atol >= 0, ValueError, op,
                "expected tolerances of 0 or more, got rtol {} and atol {}", how.rtol, how.atol);
}

Tensor compare_closely(const Tensor& a, const Tensor& b, const Closeness& how) {
  NoGradGuard guard;
  // Integers, whose difference may overflow, are compared in float64.
  const DType dtype = is_differentiable(a.dtype()) ? a.dtype() : kFloat64;
  const Tensor x = a.to(dtype), y = b.to(dtype);
  const Tensor error = abs(x - y);
  Tensor close =
      logical_or(eq(a, b), logical_and(isfinite(error), le(error, abs(y * how.rtol) + how.atol)));
  if (how.equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return close;
}

}  // namespace

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  const profiler::OpRange range("isclose", a, b);
  const Closeness how{rtol, atol, equal_nan};
  check_comparable(a, b, how, "isclose");
  return compare_closely(a, b, how);
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  const profiler::OpRange range("allclose", a, b);
  const Closeness how{rtol, atol, equal_nan};
  check_comparable(a, b, how, "allclose");
  check_readable(a, b, "allclose");
  return all_true(compare_closely(a, b, how));
}

bool equal(const Tensor& a, const Tensor& b) {
  const profiler::OpRange range("equal", a, b);
  check_same_dtype(a, b, "equal");
  check_readable(a, b, "equal");
  return a.shape() == b.shape() && all_true(eq(a, b));
}

// ---- maximum, minimum

namespace {

/// `Loses` is the comparison by which an operand loses: lt for the maximum.
template <class Loses>
Tensor extremum(BinaryOp op, const Tensor& a, const Tensor& b, const char* name, Loses loses) {
  ops::check_same_device(a, b, name);
  const DType dtype = ops::result_type(a, b);
  check_ordered(dtype, op, name);
  const Operands o = ops::operands(a, b, dtype, dtype, name);
  kernels::binary(current_stream(o.out.device()), op, o.out, o.a, o.b);
  if (recording(a, b))
    record(o.out, name, {a, b},
           [a = Saved(a), b = Saved(b), la = Like(a), lb = Like(b), loses](
               const Tensor& grad, Needs needs) -> Gradients {
             const Tensor x = a.get(), y = b.get();
             const Tensor shared = where(eq(x, y), grad * 0.5, grad);
             return {needs[0] ? la.reduce(where(loses(x, y), 0, shared)) : Tensor(),
                     needs[1] ? lb.reduce(where(loses(y, x), 0, shared)) : Tensor()};
           });
  return o.out;
}

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("maximum", {a, b}, {}, [&] { return maximum(a, b); });
  const profiler::OpRange range("maximum", a, b);
  return extremum(BinaryOp::maximum, a, b, "maximum",
                  [](const Tensor& x, const Tensor& y) { return lt(x, y); });
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  if (tracing::on()) return tracing::op("minimum", {a, b}, {}, [&] { return minimum(a, b); });
  const profiler::OpRange range("minimum", a, b);
  return extremum(BinaryOp::minimum, a, b, "minimum",
                  [](const Tensor& x, const Tensor& y) { return gt(x, y); });
}

// ---- where

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (tracing::on())
    return tracing::op("where", {condition, a, b}, {}, [&] { return where(condition, a, b); });
  if (const auto cast = ops::autocast(AutocastOp::where, a, b)) {
    const auto& [x, y] = *cast;
    return where(condition, x, y);
  }
  const profiler::OpRange range("where", condition, a, b);
  ops::check_same_device(a, b, "where");
  ops::check_same_device(condition, a, "where");
  ops::check_same_device(condition, b, "where");
  FERRITE_CHECK(condition.dtype() == kBool || condition.dtype() == kUInt8, DTypeError, "where",
                "expected a condition of bool or uint8, got {}", condition.describe());
  const auto [shape, device, format] = ops::Together(a, b, condition, "where");
  const DType dtype = ops::result_type(a, b);
  if (is_complex(dtype)) {
    const Tensor holds = ops::operand(condition, kBool, condition.shape(), device);
    return view_as_complex(where(holds.unsqueeze(-1), view_as_real(a.to(device, dtype)),
                                 view_as_real(b.to(device, dtype))));
  }
  Tensor out = empty(shape, {.dtype = dtype, .device = device, .memory_format = format});
  const Tensor holds = ops::operand(condition, kBool, shape, device);
  kernels::where(current_stream(device), out, holds, ops::operand(a, dtype, shape, device),
                 ops::operand(b, dtype, shape, device));
  if (recording(a, b))
    record(out, "where", {a, b},
           [condition = Saved(condition), la = Like(a), lb = Like(b)](const Tensor& grad,
                                                                      Needs needs) -> Gradients {
             const Tensor c = condition.get();
             return {needs[0] ? la.reduce(where(c, grad, 0)) : Tensor(),
                     needs[1] ? lb.reduce(where(c, 0, grad)) : Tensor()};
           });
  return out;
}

namespace {

Tensor scalar_like(Scalar value, const Tensor& beside) {
  FERRITE_CHECK(beside.defined(), ValueError, "where", "the tensor is undefined");
  const DType dtype = ops::result_type(beside, value);
  // As in PyTorch, -1e9 beside float16 is -infinity: masks of scores are written so.
  const DType wide = is_floating(dtype) && itemsize(dtype) == 2 ? kFloat32 : dtype;
  ops::check_storable(value, wide, "where");
  return full({}, value, {.dtype = wide, .device = beside.device()}).to(dtype);
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  return where(condition, a, scalar_like(b, a));
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  return where(condition, scalar_like(a, b), b);
}
Tensor where(const Tensor& condition, Scalar a, Scalar b) {
  const bool floating = a.is_floating() || b.is_floating();
  const bool complex = a.is_complex() || b.is_complex();
  const bool masks = a.kind() == Scalar::Kind::boolean && b.kind() == Scalar::Kind::boolean;
  const DType dtype = complex    ? complex_type(get_default_dtype())
                      : floating ? get_default_dtype()
                      : masks    ? kBool
                                 : kInt64;
  FERRITE_CHECK(condition.defined(), ValueError, "where", "the condition is undefined");
  const Tensor second = full({}, b, {.dtype = dtype, .device = condition.device()});
  return where(condition, full({}, a, {.dtype = dtype, .device = condition.device()}), second);
}

// ---- clamp

namespace {

/// Both bounds: a missing one is the end of the dtype's range.
kernels::UnaryParams clamp_bounds(std::optional<Scalar> min, std::optional<Scalar> max,
                                  DType dtype) {
  if (is_floating(dtype))
    return {min.value_or(-std::numeric_limits<double>::infinity()),
            max.value_or(std::numeric_limits<double>::infinity())};
  return dispatch_integral(dtype, "clamp",
                           [&]<class T>() -> std::optional<kernels::UnaryParams> {
                             return kernels::UnaryParams{
                                 min.value_or(std::numeric_limits<T>::lowest()),
                                 max.value_or(std::numeric_limits<T>::max())};
                           })
      .value();
}

bool is_nan(std::optional<Scalar> bound) { return bound && std::isnan(bound->to<double>()); }

void clamp_into(const Tensor& out, const Tensor& x, std::optional<Scalar> min,
                std::optional<Scalar> max) {
  if (is_nan(min) || is_nan(max))
    return kernels::fill(current_stream(out.device()), out,
                         std::numeric_limits<double>::quiet_NaN());
  kernels::unary(current_stream(out.device()), kernels::UnaryOp::clamp, out, x,
                 clamp_bounds(min, max, out.dtype()));
}

std::vector<tracing::Attribute> bounds_of(std::optional<Scalar> min, std::optional<Scalar> max) {
  std::vector<tracing::Attribute> bounds;
  if (min) bounds.push_back({"min", *min});
  if (max) bounds.push_back({"max", *max});
  return bounds;
}

DType clamp_dtype(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max,
                  const char* name) {
  FERRITE_CHECK(x.defined(), ValueError, name, "the tensor is undefined");
  FERRITE_CHECK(min || max, ValueError, name, "expected a lower bound, an upper bound or both");
  DType dtype = x.dtype();
  for (const std::optional<Scalar>& bound : {min, max})
    if (bound) dtype = promote(dtype, ops::result_type(x, *bound));
  if (is_complex(dtype)) ferrite::detail::fail_type(name, dtype);
  FERRITE_CHECK(dtype != kBool, DTypeError, name,
                "does not hold bool between bools; convert with to(dtype)");
  return dtype;
}

/// The bound as a clamped result of this type has it.
std::optional<Scalar> stored_bound(std::optional<Scalar> bound, DType dtype) {
  if (!bound || itemsize(dtype) >= 4) return bound;
  return dispatch_floating(dtype, "clamp", [&]<class T>() {
    return static_cast<double>(static_cast<float>(T(bound->cast<float>())));
  });
}

}  // namespace

Tensor ops::clamp_gradient(const Tensor& grad, const Tensor& x, std::optional<Scalar> min,
                           std::optional<Scalar> max) {
  min = stored_bound(min, x.dtype());
  max = stored_bound(max, x.dtype());
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (is_nan(min) || is_nan(max)) return zeros_like(grad);  // the result is NaN everywhere
  if (autograd::creating_graph()) {
    Tensor result = grad;
    if (min) result = where(gt(x, *min), result, 0);
    if (max) result = where(lt(x, *max), result, 0);
    return result;
  }
  Tensor out = empty_like(x);
  kernels::unary_backward(current_stream(out.device()), kernels::UnaryOp::clamp, out, grad, x,
                          {min.value_or(kNone), max.value_or(kNone)});
  return out;
}

Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  if (tracing::on())
    return tracing::op("clamp", {x}, bounds_of(min, max), [&] { return clamp(x, min, max); });
  const profiler::OpRange range("clamp", x);
  const DType dtype = clamp_dtype(x, min, max, "clamp");
  const Tensor in = ops::operand(x, dtype, x.shape(), x.device());
  Tensor out = empty_like(in);
  clamp_into(out, in, min, max);
  if (recording(x))
    record(out, "clamp", {x}, [x = Saved(x), min, max](const Tensor& grad, Needs) {
      return ops::clamp_gradient(grad, x.get(), min, max);
    });
  return out;
}
Tensor clamp_min(const Tensor& x, Scalar min) { return clamp(x, min, {}); }
Tensor clamp_max(const Tensor& x, Scalar max) { return clamp(x, {}, max); }

const Tensor& Tensor::clamp_(std::optional<Scalar> min, std::optional<Scalar> max) const {
  if (tracing::on())
    return tracing::op("clamp_", {*this}, bounds_of(min, max),
                       [&]() -> const Tensor& { return clamp_(min, max); });
  const profiler::OpRange range("clamp_", *this);
  const DType dtype = clamp_dtype(*this, min, max, "clamp_");
  FERRITE_CHECK(dtype == this->dtype(), DTypeError, "clamp_",
                "the result is {}, which cannot be stored in place in {}", dtype, this->dtype());
  autograd::check_inplace(*this, "clamp_");
  clamp_into(*this, *this, min, max);
  autograd::changed_inplace(*this, "clamp_");
  // At and beyond the bounds the output equals them.
  if (recording(*this))
    autograd::record_inplace(*this, "clamp_", {*this},
                             [out = Saved::output(*this), min, max](const Tensor& grad, Needs) {
                               return ops::clamp_gradient(grad, out.get(), min, max);
                             });
  return *this;
}

}  // namespace ferrite
