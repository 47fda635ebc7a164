// Sorting and top-k (declared in ops/reduce.h).
#include "ferrite/kernels/order.h"

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/reduced_dims.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::Extremum;

namespace {

/// The first `k` elements along `dim` in the order that starts with the smallest or the largest.
ValuesIndices ordered(const char* op, const Tensor& t, std::int64_t k, int dim, Extremum first) {
  Shape shape = t.shape();
  shape[dim] = k;
  ValuesIndices out{empty(shape, {.dtype = t.dtype(), .device = t.device()}),
                    empty(shape, {.dtype = kInt64, .device = t.device()})};
  kernels::sort(current_stream(t.device()), first, out.values, out.indices, t, dim);
  if (recording(t))
    record(out.values, op, {t},
           [indices = Saved(out.indices), shape = t.shape(), dim](const Tensor& grad, Needs) {
             return scatter(zeros(shape, {.dtype = grad.dtype(), .device = grad.device()}), dim,
                            indices.get(), grad);
           });
  return out;
}

/// Handles 0-dimensional tensors, which sort as one element.
ValuesIndices checked(const char* op, const Tensor& t, std::optional<std::int64_t> k, int dim,
                      Extremum first) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the input is undefined");
  dim = normalize_dim(dim, t.dim(), op);
  const std::int64_t size = t.dim() ? t.shape()[dim] : 1;
  const std::int64_t count = k.value_or(size);
  FERRITE_CHECK(count >= 0 && count <= size, ValueError, op,
                "expected k from 0 to {}, the size of dimension {}, got {}", size, dim, count);
  if (t.dim() > 0) return ordered(op, t, count, dim, first);
  const ValuesIndices out = ordered(op, t.reshape({1}), 1, 0, first);  // also for k = 0, as in
                                                                       // PyTorch
  return {out.values.reshape({}), out.indices.reshape({})};
}

}  // namespace

ValuesIndices topk(const Tensor& t, std::int64_t k, int dim, bool largest, bool sorted) {
  if (tracing::on())
    return tracing::op("topk", {t}, {{"k", k}, {"dim", std::int64_t{dim}}, {"largest", largest}},
                       [&] { return topk(t, k, dim, largest, sorted); });
  const profiler::OpRange range("topk", t);
  return checked("topk", t, k, dim, largest ? Extremum::max : Extremum::min);
}

ValuesIndices sort(const Tensor& t, int dim, bool descending) {
  if (tracing::on())
    return tracing::op("sort", {t}, {{"dim", std::int64_t{dim}}, {"descending", descending}},
                       [&] { return sort(t, dim, descending); });
  const profiler::OpRange range("sort", t);
  return checked("sort", t, {}, dim, descending ? Extremum::max : Extremum::min);
}

Tensor argsort(const Tensor& t, int dim, bool descending) {
  if (tracing::on())
    return tracing::op("argsort", {t}, {{"dim", std::int64_t{dim}}, {"descending", descending}},
                       [&] { return argsort(t, dim, descending); });
  const profiler::OpRange range("argsort", t);
  return no_grad([&] {
           return checked("argsort", t, {}, dim, descending ? Extremum::max : Extremum::min);
         })
      .indices;
}

}  // namespace ferrite
