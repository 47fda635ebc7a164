// Variance, norms, products and counts (declared in ops/reduce.h).
#include <cmath>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/reduce.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/reduced_dims.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::ReduceOp;
using ops::ReducedDims;

// ---- var, std

namespace {

void check_floating(const Tensor& t, const char* op) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the input is undefined");
  FERRITE_CHECK(is_floating(t.dtype()), DTypeError, op, "expected a floating type, got {}",
                t.describe());
}

double divisor(const ReducedDims& reduced, int correction) {
  return static_cast<double>(std::max<std::int64_t>(0, reduced.count - correction));
}

/// Off the tape, 16-bit types in float32.
Tensor variance(const Tensor& t, const ReducedDims& reduced, int correction) {
  return no_grad([&] {
    const Tensor x = itemsize(t.dtype()) == 2 ? t.to(kFloat32) : t;
    Tensor center = empty(reduced.kept, {.dtype = x.dtype(), .device = t.device()});
    kernels::reduce(current_stream(t.device()), ReduceOp::mean, center, x);
    return (sum_to(square(x - center), reduced.kept) / divisor(reduced, correction))
        .reshape(reduced.result);
  });
}

/// The gradient of the variance times `scale`, which has the shape of the reduced result.
Tensor variance_gradient(const Tensor& scale, const Tensor& x, const ReducedDims& reduced,
                         int correction) {
  const Tensor mean_of_x = sum_to(x, reduced.kept) / static_cast<double>(reduced.count);
  return (x - mean_of_x) * (scale.reshape(reduced.kept) * (2 / divisor(reduced, correction)));
}

}  // namespace

Tensor var(const Tensor& t, const Dims& dims, int correction, bool keepdim) {
  const profiler::OpRange range("var", t);
  check_floating(t, "var");
  const ReducedDims reduced(t, dims, keepdim, "var");
  Tensor out = ops::converted(variance(t, reduced, correction), t.dtype());
  if (recording(t))
    record(out, "var", {t}, [x = Saved(t), reduced, correction](const Tensor& grad, Needs) {
      return variance_gradient(grad, x.get(), reduced, correction);
    });
  return out;
}

Tensor std(const Tensor& t, const Dims& dims, int correction, bool keepdim) {
  const profiler::OpRange range("std", t);
  check_floating(t, "std");
  const ReducedDims reduced(t, dims, keepdim, "std");
  Tensor out = no_grad([&] { return sqrt(variance(t, reduced, correction)).to(t.dtype()); });
  if (recording(t))
    record(out, "std", {t},
           [x = Saved(t), y = Saved::output(out), reduced, correction](const Tensor& grad, Needs) {
             const Tensor root = y.get();
             const Tensor slope = where(eq(root, 0), 0, grad / (root * 2));
             return variance_gradient(slope, x.get(), reduced, correction);
           });
  return out;
}

// ---- norm

namespace {

/// x |x|^(p - 2), with 0 at 0.
Tensor signed_power(const Tensor& x, double p) {
  if (p == 2) return x;
  if (p == 1) return sign(x);
  const Tensor size = abs(x);
  if (p > 2) return x * pow(size, p - 2);
  return where(eq(x, 0), 0, sign(x) * pow(where(eq(x, 0), 1, size), p - 1));
}

Tensor norm_gradient(const Tensor& grad, const Tensor& x, const Tensor& n, const Shape& kept,
                     double p) {
  if (p == 0) return x * 0;
  if (std::isinf(p)) {
    const Tensor shares = no_grad([&] {
      const Tensor is_it = logical_or(eq(abs(x), n), isnan(x));
      return is_it.to(x.dtype()) / sum_to(is_it.to(kFloat32), kept).to(x.dtype());
    });
    return sign(x) * shares * grad;
  }
  const Tensor safe = where(eq(n, 0), 1, n);
  const Tensor scale = p == 1 ? grad : grad / (p == 2 ? safe : pow(safe, p - 1));
  return signed_power(x, p) * where(eq(n, 0), 0, scale);
}

}  // namespace

Tensor norm(const Tensor& t, double p, const Dims& dims, bool keepdim) {
  if (const auto cast = ops::autocast(AutocastOp::norm, t)) return norm(*cast, p, dims, keepdim);
  const profiler::OpRange range("norm", t);
  check_floating(t, "norm");
  FERRITE_CHECK(!std::isnan(p), ValueError, "norm", "p must be a number, got {}", p);
  const ReducedDims reduced(t, dims, keepdim, "norm");
  FERRITE_CHECK(reduced.count > 0 || (p >= 0 && !std::isinf(p)), ValueError, "norm",
                "{} has no elements, whose norm of order {} is undefined", t.describe(), p);
  Tensor out = empty(reduced.result, {.dtype = t.dtype(), .device = t.device()});
  kernels::reduce(current_stream(t.device()), ReduceOp::norm, reduced.keepdim_view(out), t, p);
  if (recording(t))
    record(out, "norm", {t},
           [x = Saved(t), out = Saved::output(out), kept = reduced.kept, p](const Tensor& grad,
                                                                            Needs) {
             return norm_gradient(grad.reshape(kept), x.get(), out.get().reshape(kept), kept, p);
           });
  return out;
}

// ---- prod

namespace {

/// The factor of each element: the product of the others, if at most one of all is 0. `x` must not
/// be a 16-bit type, in which products overflow although the quotient is representable.
Tensor product_of_others(const Tensor& x, const Shape& kept) {
  const Tensor zero = eq(x, 0);
  const Tensor filled = where(zero, 1, x);
  Tensor product = empty(kept, {.dtype = x.dtype(), .device = x.device()});
  kernels::reduce(current_stream(x.device()), ReduceOp::prod, product, filled);
  const Tensor zeros = sum_to(zero.to(kFloat32), kept);
  return where(zero, where(eq(zeros, 1), product, 0), where(eq(zeros, 0), product / filled, 0));
}

Tensor product(const Tensor& t, const Dims& dims, bool keepdim) {
  const ReducedDims reduced(t, dims, keepdim, "prod");
  const DType dtype = is_floating(t.dtype()) ? t.dtype() : kInt64;
  Tensor out = empty(reduced.result, {.dtype = dtype, .device = t.device()});
  kernels::reduce(current_stream(t.device()), ReduceOp::prod, reduced.keepdim_view(out), t);
  if (recording(t))
    record(out, "prod", {t}, [x = Saved(t), kept = reduced.kept](const Tensor& grad, Needs) {
      autograd::once_differentiable();
      const Tensor input = x.get();
      if (input.dim() == 0) return grad;
      const DType wide = itemsize(input.dtype()) == 2 ? kFloat32 : input.dtype();
      return (product_of_others(input.to(wide), kept) * grad.reshape(kept).to(wide))
          .to(input.dtype());
    });
  return out;
}

/// A count, or a question answered by one.
Tensor counted(ReduceOp op, const char* name, const Tensor& t, const Dims& dims, bool keepdim) {
  const profiler::OpRange range(name, t);
  const ReducedDims reduced(t, dims, keepdim, name);
  // uint8 gives uint8, as in PyTorch; its bytes are those of bool.
  const DType dtype = op == ReduceOp::count_nonzero ? kInt64 : t.dtype() == kUInt8 ? kUInt8 : kBool;
  Tensor out = empty(reduced.result, {.dtype = dtype, .device = t.device()});
  kernels::View to = reduced.keepdim_view(out);
  if (dtype == kUInt8) to.dtype = kBool;
  kernels::reduce(current_stream(t.device()), op, to, t);
  return out;
}

}  // namespace

Tensor prod(const Tensor& t) {
  if (const auto cast = ops::autocast(AutocastOp::prod, t)) return prod(*cast);
  const profiler::OpRange range("prod", t);
  return product(t, {}, false);
}
Tensor prod(const Tensor& t, int dim, bool keepdim) {
  if (const auto cast = ops::autocast(AutocastOp::prod, t)) return prod(*cast, dim, keepdim);
  const profiler::OpRange range("prod", t);
  return product(t, {dim}, keepdim);
}

Tensor any(const Tensor& t) { return counted(ReduceOp::any, "any", t, {}, false); }
Tensor any(const Tensor& t, int dim, bool keepdim) {
  return counted(ReduceOp::any, "any", t, {dim}, keepdim);
}
Tensor all(const Tensor& t) { return counted(ReduceOp::all, "all", t, {}, false); }
Tensor all(const Tensor& t, int dim, bool keepdim) {
  return counted(ReduceOp::all, "all", t, {dim}, keepdim);
}
Tensor count_nonzero(const Tensor& t, const Dims& dims) {
  return counted(ReduceOp::count_nonzero, "count_nonzero", t, dims, false);
}

}  // namespace ferrite
