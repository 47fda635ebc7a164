#include "ferrite/ops/reduce.h"

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/reduce.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/complex_parts.h"
#include "ferrite/ops/reduced_dims.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using kernels::ReduceOp;
using ops::ReducedDims;

namespace {

/// The input of kernels::reduce: `t` itself if the kernel accumulates in `out` anyway.
Tensor reducible(const Tensor& t, DType out) {
  const bool widens =
      is_floating(t.dtype()) ? out == kFloat32 && itemsize(t.dtype()) == 2 : out == kInt64;
  return widens ? t : ops::converted(t, out);
}

Tensor add_up(ReduceOp op, const Tensor& t, const ReducedDims& dims, DType dtype) {
  const Tensor x = reducible(t, dtype);
  Tensor out = empty(dims.result, {.dtype = dtype, .device = t.device()});
  kernels::reduce(current_stream(t.device()), op, dims.keepdim_view(out), x);
  return out;
}

/// The gradient of a sum with shape `kept`, for an input of `shape` and `dtype`.
Tensor spread(const Tensor& grad, const Shape& kept, const Shape& shape, DType dtype) {
  return grad.to(dtype).reshape(kept).expand(shape);
}

/// f(parts, dims) of a complex tensor's real and imaginary parts, whose dimension stays.
template <class F>
Tensor complex_reduction(const Tensor& t, const Dims& dims, F&& f) {
  if (t.dim() == 0) return t.clone();
  Dims counted;
  for (int d = 0; d < t.dim() && dims.empty(); ++d) counted.push_back(d);
  for (const std::int64_t d : dims) counted.push_back(normalize_dim(d, t.dim(), "sum"));
  return ops::by_parts(t, [&](const Tensor& x) { return f(x, counted); });
}

}  // namespace

Tensor sum(const Tensor& t, const Dims& dims, bool keepdim, std::optional<DType> dtype) {
  if (tracing::on())
    return tracing::op("sum", {t}, {{"dims", tracing::sizes(dims)}, {"keepdim", keepdim}},
                       [&] { return sum(t, dims, keepdim, dtype); });
  const profiler::OpRange range("sum", t);
  if (!dtype) dtype = ops::autocast_target(AutocastOp::sum, t);
  const ReducedDims reduced(t, dims, keepdim, "sum");
  const DType to = dtype.value_or(is_differentiable(t.dtype()) ? t.dtype() : kInt64);
  if (t.is_complex() && !is_complex(to)) return sum(t.to(to), dims, keepdim, to);
  if (is_complex(to))
    return complex_reduction(
        t.to(to), dims, [&](const Tensor& x, const Dims& all) { return sum(x, all, keepdim); });
  Tensor out = add_up(ReduceOp::sum, t, reduced, to);
  if (is_floating(to) && recording(t))
    record(out, "sum", {t},
           [kept = reduced.kept, shape = t.shape(), from = t.dtype()](const Tensor& grad, Needs) {
             return spread(grad, kept, shape, from);
           });
  return out;
}

Tensor mean(const Tensor& t, const Dims& dims, bool keepdim, std::optional<DType> dtype) {
  if (tracing::on())
    return tracing::op("mean", {t}, {{"dims", tracing::sizes(dims)}, {"keepdim", keepdim}},
                       [&] { return mean(t, dims, keepdim, dtype); });
  const profiler::OpRange range("mean", t);
  const ReducedDims reduced(t, dims, keepdim, "mean");
  const DType to = dtype.value_or(t.dtype());
  if (t.is_complex() && !is_complex(to)) return mean(t.to(to), dims, keepdim, to);
  if (is_complex(to))
    return complex_reduction(
        t.to(to), dims, [&](const Tensor& x, const Dims& all) { return mean(x, all, keepdim); });
  FERRITE_CHECK(is_floating(to), DTypeError, "mean",
                "expected a floating type, got {}; give one, as in mean(t, kFloat32)", to);
  Tensor out = add_up(ReduceOp::mean, t, reduced, to);
  if (recording(t))
    record(out, "mean", {t},
           [kept = reduced.kept, shape = t.shape(), from = t.dtype(), n = reduced.count](
               const Tensor& grad, Needs) {
             return spread(div(grad, static_cast<double>(n)), kept, shape, from);
           });
  return out;
}

Tensor sum_to(const Tensor& t, const Shape& shape) {
  const profiler::OpRange range("sum_to", t);
  FERRITE_CHECK(t.defined(), ValueError, "sum_to", "the input is undefined");
  if (t.shape() == shape) return t;
  if (t.is_complex())
    return ops::by_parts(t, [&](const Tensor& x) {
      Shape parts = shape;
      parts.push_back(2);
      return sum_to(x, parts);
    });
  ReducedDims reduced(t, {}, true, "sum_to");
  const int extra = t.dim() - shape.size();
  bool fits = extra >= 0;
  for (int d = 0; fits && d < t.dim(); ++d) {
    const std::int64_t target = d < extra ? 1 : shape[d - extra];
    fits = target == 1 || target == t.shape()[d];
    reduced.kept[d] = target;
  }
  FERRITE_CHECK(fits, ShapeError, "sum_to", "{} is no broadcast of the shape {}", t.describe(),
                shape);
  reduced.result = shape;
  Tensor out = add_up(ReduceOp::sum, t, reduced, t.dtype());
  if (recording(t))
    record(out, "sum_to", {t}, [kept = reduced.kept, from = t.shape()](const Tensor& grad, Needs) {
      return spread(grad, kept, from, grad.dtype());
    });
  return out;
}

}  // namespace ferrite
