// max, min and related functions (declared in ops/reduce.h).
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/order.h"
#include "ferrite/kernels/reduce.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/reduced_dims.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::Extremum;
using kernels::ReduceOp;
using ops::ReducedDims;

namespace {

/// The gradient if the extremum is NaN: for max it is shared by the NaNs, for amax it is undefined
/// (NaN).
enum class AtNaN : std::uint8_t { shared, undefined };

/// Over several dimensions, the gradient shared evenly among the elements that are `out`.
Tensor extremum(ReduceOp op, const char* name, const Tensor& t, const Dims& dims, bool keepdim,
                AtNaN at_nan) {
  if (tracing::on())
    return tracing::op(op == ReduceOp::max ? "amax" : "amin", {t},
                       {{"dims", tracing::sizes(dims)}, {"keepdim", keepdim}},
                       [&] { return extremum(op, name, t, dims, keepdim, at_nan); });
  const profiler::OpRange range(name, t);
  const ReducedDims reduced(t, dims, keepdim, name);
  ops::check_real(t, name);
  FERRITE_CHECK(reduced.count > 0, ValueError, name, "{} has no elements to choose from",
                t.describe());
  Tensor out = empty(reduced.result, {.dtype = t.dtype(), .device = t.device()});
  kernels::reduce(current_stream(t.device()), op, reduced.keepdim_view(out), t);
  if (recording(t))
    record(out, name, {t},
           [t = Saved(t), out = Saved::output(out), kept = reduced.kept, at_nan](const Tensor& grad,
                                                                                 Needs) {
             const Tensor x = t.get();
             const Tensor shares = no_grad([&] {
               Tensor is_it = eq(x, out.get().reshape(kept));
               if (at_nan == AtNaN::shared) is_it = logical_or(is_it, isnan(x));
               return is_it.to(x.dtype()) / sum_to(is_it.to(kFloat32), kept).to(x.dtype());
             });
             return shares * grad.reshape(kept);
           });
  return out;
}

/// Along one dimension; computes `values` only if requested.
ValuesIndices pick(Extremum kind, const char* name, const Tensor& t, int dim, bool keepdim,
                   bool want_values) {
  const ReducedDims reduced(t, {dim}, keepdim, name);
  FERRITE_CHECK(reduced.count > 0, ValueError, name, "dimension {} of {} has no elements", dim,
                t.describe());
  ValuesIndices out;
  if (want_values) out.values = empty(reduced.result, {.dtype = t.dtype(), .device = t.device()});
  out.indices = empty(reduced.result, {.dtype = kInt64, .device = t.device()});
  kernels::arg_extremum(current_stream(t.device()), kind,
                        want_values ? reduced.keepdim_view(out.values) : kernels::View(),
                        reduced.keepdim_view(out.indices), t, normalize_dim(dim, t.dim(), name));
  return out;
}

ValuesIndices along(Extremum kind, const char* name, const Tensor& t, int dim, bool keepdim) {
  if (tracing::on())
    return tracing::op(name, {t}, {{"dim", std::int64_t{dim}}, {"keepdim", keepdim}},
                       [&] { return along(kind, name, t, dim, keepdim); });
  const profiler::OpRange range(name, t);
  FERRITE_CHECK(t.defined(), ValueError, name, "the input is undefined");
  if (t.dim() == 0) {
    normalize_dim(dim, 0, name);
    return along(kind, name, t.reshape({1}), 0, false);
  }
  const ValuesIndices out = pick(kind, name, t, dim, keepdim, true);
  if (recording(t))
    record(out.values, name, {t},
           [indices = Saved(out.indices), shape = t.shape(),
            dim = normalize_dim(dim, t.dim(), name), keepdim](const Tensor& grad, Needs) {
             const Tensor at = keepdim ? indices.get() : indices.get().unsqueeze(dim);
             return scatter(zeros(shape, {.dtype = grad.dtype(), .device = grad.device()}), dim, at,
                            keepdim ? grad : grad.unsqueeze(dim));
           });
  return out;
}

Tensor arg(Extremum kind, const char* name, const Tensor& t, std::optional<int> dim, bool keepdim) {
  if (tracing::on() && dim)
    return tracing::op(name, {t}, {{"dim", std::int64_t{*dim}}, {"keepdim", keepdim}},
                       [&] { return arg(kind, name, t, dim, keepdim); });
  const profiler::OpRange range(name, t);
  FERRITE_CHECK(t.defined(), ValueError, name, "the input is undefined");
  return no_grad([&] {
    if (dim && t.dim() > 0) return pick(kind, name, t, *dim, keepdim, false).indices;
    if (dim) normalize_dim(*dim, 0, name);
    const Tensor index = pick(kind, name, t.reshape({-1}), 0, false, false).indices;
    return keepdim ? index.reshape(Shape::filled(t.dim(), 1)) : index;
  });
}

}  // namespace

Tensor max(const Tensor& t) { return extremum(ReduceOp::max, "max", t, {}, false, AtNaN::shared); }
Tensor min(const Tensor& t) { return extremum(ReduceOp::min, "min", t, {}, false, AtNaN::shared); }
Tensor amax(const Tensor& t, const Dims& dims, bool keepdim) {
  return extremum(ReduceOp::max, "amax", t, dims, keepdim, AtNaN::undefined);
}
Tensor amin(const Tensor& t, const Dims& dims, bool keepdim) {
  return extremum(ReduceOp::min, "amin", t, dims, keepdim, AtNaN::undefined);
}
ValuesIndices max(const Tensor& t, int dim, bool keepdim) {
  return along(Extremum::max, "max", t, dim, keepdim);
}
ValuesIndices min(const Tensor& t, int dim, bool keepdim) {
  return along(Extremum::min, "min", t, dim, keepdim);
}
Tensor argmax(const Tensor& t, std::optional<int> dim, bool keepdim) {
  return arg(Extremum::max, "argmax", t, dim, keepdim);
}
Tensor argmin(const Tensor& t, std::optional<int> dim, bool keepdim) {
  return arg(Extremum::min, "argmin", t, dim, keepdim);
}

}  // namespace ferrite
