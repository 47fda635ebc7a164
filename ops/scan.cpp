// Cumulative sums, products and extrema (declared in ops/reduce.h).
#include <cmath>
#include <vector>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/order.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::ScanOp;

namespace {

using T = const Tensor&;

Tensor reverse_cumsum(T t, int dim) { return flip(cumsum(flip(t, {dim}), dim), {dim}); }

// ---- Gradients, of tensors that have dimensions

Tensor sum_gradient(T grad, T, T, int dim) { return reverse_cumsum(grad, dim); }

/// For one element after the other: the sum of what it is a factor of, without it. Right at zeros,
/// and to any order.
Tensor product_gradient_in_steps(T grad, T x, int dim) {
  const std::int64_t n = x.size(dim);
  std::vector<Tensor> parts;
  Tensor before = ones_like(x.narrow(dim, 0, 1));
  for (std::int64_t k = 0; k < n; ++k) {
    const Tensor later =
        cumprod(cat({before, x.narrow(dim, k + 1, n - k - 1)}, dim), dim, x.dtype());
    parts.push_back(sum(grad.narrow(dim, k, n - k) * later, dim, true));
    before = before * x.narrow(dim, k, 1);
  }
  return cat(parts, dim);
}

/// Up to the first 0 of a row the others' product is a quotient; at it, the product with 1 in its
/// place, up to the second; behind it, 0.
Tensor product_gradient(T grad, T x, T out, int dim) {
  if (x.size(dim) <= 1) return grad;
  if (grad_enabled()) return product_gradient_in_steps(grad, x, dim);
  const Tensor zero = eq(x, 0), zeros = cumsum(zero, dim), first = logical_and(zero, eq(zeros, 1));
  const Tensor filled = cumprod(where(first, 1, x), dim, x.dtype());
  const Tensor at_first = reverse_cumsum(where(eq(zeros, 1), grad * filled, 0), dim);
  const Tensor before = reverse_cumsum(where(eq(zeros, 0), grad * out, 0), dim) / where(zero, 1, x);
  return where(eq(zeros, 0), before, where(first, at_first, 0));
}

/// sum over j >= k of grad_j exp(x_k - out_j), by logarithms, for each sign of the gradient.
Tensor logsumexp_gradient(T grad, T x, T out, int dim) {
  const auto part = [&](T share) {
    const Tensor some = gt(share, 0);
    const Tensor logs = where(some, log(where(some, share, 1)) - out, -INFINITY);
    return exp(flip(logcumsumexp(flip(logs, {dim}), dim), {dim}) + x);
  };
  return part(grad) - part(neg(grad));
}

/// The kernel's result, in `to`; it takes other types than these for sums alone.
Tensor scanned(ScanOp op, T t, int dim, DType to) {
  DType wide = t.dtype();
  if (op != ScanOp::sum) wide = !is_floating(wide) ? kInt64 : itemsize(wide) == 2 ? kFloat32 : wide;
  return no_grad([&] {
    const bool places = op == ScanOp::argmax || op == ScanOp::argmin;
    const DType computed = is_floating(wide) && !places ? wide : kInt64;
    const Tensor out = empty(t.shape(), {.dtype = computed, .device = t.device()});
    kernels::scan(current_stream(t.device()), op, out, t.to(wide), dim);
    return out.to(to);
  });
}

struct Scan {
  const char* name;
  const char* inplace;
  ScanOp op;
  ops::AutocastRule cast;
  Tensor (*gradient)(T grad, T x, T out, int dim);
};

const Scan kSum{"cumsum", "cumsum_", ScanOp::sum, AutocastOp::cumsum, sum_gradient};
const Scan kProduct{"cumprod", "cumprod_", ScanOp::prod, CastPolicy::float32, product_gradient};
const Scan kLogSum{"logcumsumexp", "", ScanOp::logsumexp, CastPolicy::unchanged,
                   logsumexp_gradient};

Tensor run(const Scan& s, T t, int dim, std::optional<DType> dtype) {
  if (tracing::on())
    return tracing::op(s.name, {t}, {{"dim", std::int64_t{dim}}},
                       [&] { return run(s, t, dim, dtype); });
  const profiler::OpRange range(s.name, t);
  if (!dtype) dtype = ops::autocast_target(s.cast, t);
  ops::check_real(t, s.name);
  dim = normalize_dim(dim, t.dim(), s.name);
  const DType to = dtype.value_or(is_floating(t.dtype()) ? t.dtype() : kInt64);
  if (is_floating(to) != is_floating(t.dtype()) || (is_floating(to) && to != t.dtype()))
    return run(s, t.to(to), dim, to);
  if (t.dim() == 0) return run(s, t.reshape({1}), 0, to).reshape({});
  Tensor out = scanned(s.op, t, dim, to);
  if (recording(t)) {
    // Sums need no more than their gradient.
    const bool keeps = s.op != ScanOp::sum;
    record(out, s.name, {t},
           [f = s.gradient, dim, x = Saved(keeps ? t : Tensor()),
            y = keeps ? Saved::output(out) : Saved()](T grad, Needs) {
             return f(grad, x.get(), y.get(), dim);
           });
  }
  return out;
}

const Tensor& run_(const Scan& s, T self, int dim) {
  const profiler::OpRange range(s.inplace, self);
  ops::check_real(self, s.inplace);
  FERRITE_CHECK(self.dtype() != kBool, DTypeError, s.inplace,
                "the result is int64, which cannot be stored in place in bool");
  dim = normalize_dim(dim, self.dim(), s.inplace);
  autograd::check_inplace(self, s.inplace);
  const bool records = recording(self), keeps = records && s.op != ScanOp::sum;
  const Saved before = keeps ? Saved(self.clone()) : Saved();
  kernels::copy(current_stream(self.device()), self,
                no_grad([&] { return run(s, self, dim, {}); }));
  autograd::changed_inplace(self, s.inplace);
  if (records)
    autograd::record_inplace(self, s.inplace, {self},
                             [f = s.gradient, dim, before,
                              after = keeps ? Saved::output(self) : Saved()](T grad, Needs) {
                               if (grad.dim() == 0) return grad;
                               return f(grad, before.get(), after.get(), dim);
                             });
  return self;
}

ValuesIndices extremum(ScanOp op, const char* name, T t, int dim) {
  const profiler::OpRange range(name, t);
  ops::check_real(t, name);
  dim = normalize_dim(dim, t.dim(), name);
  if (t.dim() == 0) {
    const ValuesIndices one = extremum(op, name, t.reshape({1}), 0);
    return {one.values.reshape({}), one.indices.reshape({})};
  }
  const Tensor indices = scanned(op, t, dim, kInt64);
  return {t.gather(dim, indices), indices};
}

}  // namespace

Tensor cumsum(T t, int dim, std::optional<DType> dtype) { return run(kSum, t, dim, dtype); }
const Tensor& cumsum_(T self, int dim) { return run_(kSum, self, dim); }

Tensor cumprod(T t, int dim, std::optional<DType> dtype) { return run(kProduct, t, dim, dtype); }
const Tensor& cumprod_(T self, int dim) { return run_(kProduct, self, dim); }

Tensor logcumsumexp(T t, int dim) {
  ops::check_defined(t, "logcumsumexp");
  FERRITE_CHECK(is_floating(t.dtype()), DTypeError, "logcumsumexp",
                "expected a floating type, got {}", t.describe());
  return run(kLogSum, t, dim, {});
}

ValuesIndices cummax(T t, int dim) { return extremum(ScanOp::argmax, "cummax", t, dim); }
ValuesIndices cummin(T t, int dim) { return extremum(ScanOp::argmin, "cummin", t, dim); }

}  // namespace ferrite
