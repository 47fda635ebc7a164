// Variance, norms, products and counts (declared in ops/reduce.h).
#include <cmath>
#include <vector>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/reduce.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/reduced_dims.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::ReduceOp;
using ops::composite;
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
  if (tracing::on())
    return tracing::op("var", {t},
                       {{"dims", tracing::sizes(dims)},
                        {"keepdim", keepdim},
                        {"correction", std::int64_t{correction}}},
                       [&] { return var(t, dims, correction, keepdim); });
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
  if (tracing::on())
    return tracing::op("std", {t},
                       {{"dims", tracing::sizes(dims)},
                        {"keepdim", keepdim},
                        {"correction", std::int64_t{correction}}},
                       [&] { return std(t, dims, correction, keepdim); });
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
  if (p == 1) return sign(x);
  const Tensor size = abs(x);
  if (p > 2) return x * pow(size, p - 2);
  return where(eq(x, 0), 0, sign(x) * pow(where(eq(x, 0), 1, size), p - 1));
}

}  // namespace

Tensor ops::norm_gradient(const Tensor& grad, const Tensor& x, const Tensor& n, double p) {
  if (p == 0) return x * 0;
  if (std::isinf(p)) {
    const Tensor shares = no_grad([&] {
      const Tensor is_it = logical_or(eq(abs(x), n), isnan(x));
      return is_it.to(x.dtype()) / sum_to(is_it.to(kFloat32), n.shape()).to(x.dtype());
    });
    return sign(x) * shares * grad;
  }
  const Tensor zero = eq(n, 0), safe = where(zero, 1, n);
  // x / n is at most 1, where grad / n of a short vector is more than float16 holds.
  if (p == 2) return x / safe * where(zero, 0, grad);
  const Tensor scale = p == 1 ? grad : grad / pow(safe, p - 1);
  return signed_power(x, p) * where(zero, 0, scale);
}

Tensor norm(const Tensor& t, double p, const Dims& dims, bool keepdim) {
  if (tracing::on())
    return tracing::op("norm", {t},
                       {{"p", p}, {"dims", tracing::sizes(dims)}, {"keepdim", keepdim}},
                       [&] { return norm(t, p, dims, keepdim); });
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
             return ops::norm_gradient(grad.reshape(kept), x.get(), out.get().reshape(kept), p);
           });
  return out;
}

// ---- prod

namespace {

/// The product of the others for each element, from the products of those before it and of those
/// after it; differentiable. One dimension is reduced, or all.
Tensor product_of_others(const Tensor& x, const Shape& kept) {
  int dim = 0;
  while (dim < kept.size() - 1 && kept[dim] == x.shape()[dim]) ++dim;
  const bool all = kept.numel() == 1 && x.numel() != x.shape()[dim];
  const Tensor t = all ? x.reshape({-1}) : x;
  const int d = all ? 0 : dim;
  if (t.size(d) == 0) return x;
  const auto before = [&](const Tensor& of) {
    const Tensor first = ones_like(of.narrow(d, 0, 1));
    return cumprod(cat({first, of.narrow(d, 0, of.size(d) - 1)}, d), d, of.dtype());
  };
  return (before(t) * flip(before(flip(t, {d})), {d})).reshape(x.shape());
}

/// The same by division, off the tape. `x` must not be a 16-bit type, in which products overflow
/// although the quotient is representable.
Tensor quotients(const Tensor& x, const Shape& kept) {
  const Tensor zero = eq(x, 0);
  const Tensor filled = where(zero, 1, x);
  Tensor product = empty(kept, {.dtype = x.dtype(), .device = x.device()});
  kernels::reduce(current_stream(x.device()), ReduceOp::prod, product, filled);
  const Tensor zeros = sum_to(zero.to(kFloat32), kept);
  return where(zero, where(eq(zeros, 1), product, 0), where(eq(zeros, 0), product / filled, 0));
}

Tensor product(const Tensor& t, const Dims& dims, bool keepdim) {
  const ReducedDims reduced(t, dims, keepdim, "prod");
  ops::check_real(t, "prod");
  const DType dtype = is_floating(t.dtype()) ? t.dtype() : kInt64;
  Tensor out = empty(reduced.result, {.dtype = dtype, .device = t.device()});
  kernels::reduce(current_stream(t.device()), ReduceOp::prod, reduced.keepdim_view(out), t);
  if (recording(t))
    record(out, "prod", {t}, [x = Saved(t), kept = reduced.kept](const Tensor& grad, Needs) {
      const Tensor input = x.get();
      if (input.dim() == 0) return grad;
      if (grad_enabled()) return product_of_others(input, kept) * grad.reshape(kept);
      const DType wide = itemsize(input.dtype()) == 2 ? kFloat32 : input.dtype();
      return (quotients(input.to(wide), kept) * grad.reshape(kept).to(wide)).to(input.dtype());
    });
  return out;
}

/// A count, or a question answered by one.
Tensor counted(ReduceOp op, const char* name, const Tensor& t, const Dims& dims, bool keepdim) {
  if (tracing::on())
    return tracing::op(name, {t}, {{"dims", tracing::sizes(dims)}, {"keepdim", keepdim}},
                       [&] { return counted(op, name, t, dims, keepdim); });
  const profiler::OpRange range(name, t);
  const ReducedDims reduced(t, dims, keepdim, name);
  ops::check_real(t, name);
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

// ---- Made of others

Tensor logsumexp(const Tensor& t, const Dims& dims, bool keepdim) {
  if (tracing::on())
    return tracing::op("logsumexp", {t}, {{"dims", tracing::sizes(dims)}, {"keepdim", keepdim}},
                       [&] { return logsumexp(t, dims, keepdim); });
  return composite(
      "logsumexp",
      [&] {
        const Tensor x = t.to(ops::floating_type(t.dtype()));
        if (const ReducedDims reduced(x, dims, true, "logsumexp"); reduced.count == 0)
          return log(sum(x, dims, keepdim, x.dtype()));
        const ReducedDims reduced(x, dims, keepdim, "logsumexp");
        Tensor out = no_grad([&] {
          const Tensor top = amax(x, dims, true), base = where(isfinite(top), top, 0);
          return (log(sum(exp(x - base), dims, true)) + base).reshape(reduced.result);
        });
        if (recording(x))
          record(out, "logsumexp", {x},
                 [x = Saved(x), y = Saved::output(out), kept = reduced.kept](const Tensor& grad,
                                                                             Needs) {
                   return grad.reshape(kept) * exp(x.get() - y.get().reshape(kept));
                 });
        return out;
      },
      t);
}

namespace {

Tensor without_nan(const Tensor& t) { return is_floating(t.dtype()) ? where(isnan(t), 0, t) : t; }

}  // namespace

Tensor nansum(const Tensor& t, const Dims& dims, bool keepdim, std::optional<DType> dtype) {
  return composite(
      "nansum",
      [&] {
        ops::check_real(t, "nansum");
        return sum(without_nan(t), dims, keepdim, dtype);
      },
      t);
}
Tensor nanmean(const Tensor& t, const Dims& dims, bool keepdim) {
  return composite(
      "nanmean",
      [&] {
        check_floating(t, "nanmean");
        const Tensor count = sum(logical_not(isnan(t)), dims, keepdim);
        return sum(without_nan(t), dims, keepdim) / count;
      },
      t);
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& t, const Dims& dims, int correction,
                                    bool keepdim) {
  return composite(
      "var_mean",
      [&] { return std::tuple(var(t, dims, correction, keepdim), mean(t, dims, keepdim)); }, t);
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& t, const Dims& dims, int correction,
                                    bool keepdim) {
  return composite(
      "std_mean",
      [&] {
        return std::tuple(ferrite::std(t, dims, correction, keepdim), mean(t, dims, keepdim));
      },
      t);
}

std::tuple<Tensor, Tensor> aminmax(const Tensor& t, std::optional<int> dim, bool keepdim) {
  return composite(
      "aminmax",
      [&] {
        const Dims dims = dim && t.dim() > 0 ? Dims(*dim) : Dims();
        if (dim) normalize_dim(*dim, t.dim(), "aminmax");
        return std::tuple(amin(t, dims, keepdim), amax(t, dims, keepdim));
      },
      t);
}

Tensor trace(const Tensor& t) {
  return composite(
      "trace",
      [&] {
        FERRITE_CHECK(t.dim() == 2, ShapeError, "trace", "expected a matrix, got {}", t.describe());
        return sum(diagonal(t));
      },
      t);
}

Tensor diff(const Tensor& t, std::int64_t n, int dim, const Tensor& prepend, const Tensor& append) {
  return composite(
      "diff",
      [&] {
        FERRITE_CHECK(n >= 0, ValueError, "diff", "expected n of 0 or more, got {}", n);
        FERRITE_CHECK(t.dim() > 0, ShapeError, "diff", "expected 1 dimension or more, got none");
        const int d = normalize_dim(dim, t.dim(), "diff");
        if (n == 0) return t.clone();  // without the ends, as in PyTorch
        std::vector<Tensor> parts;
        for (const Tensor& part : {prepend, t, append})
          if (part.defined()) parts.push_back(part);
        Tensor out = parts.size() == 1 ? t : cat(parts, d);
        for (std::int64_t i = 0; i < n && out.size(d) > 0; ++i) {
          const std::int64_t left = out.size(d) - 1;
          const Tensor later = out.narrow(d, 1, left), earlier = out.narrow(d, 0, left);
          out = out.dtype() == kBool ? logical_xor(later, earlier) : later - earlier;
        }
        return out.is_same(t) ? t.clone() : out;
      },
      t);
}

}  // namespace ferrite
