#include "ferrite/ops/index.h"

#include <algorithm>

#include "ferrite/autograd/record.h"
#include "ferrite/core/host_copy.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/index.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex_parts.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using ops::accumulate;
using ops::at_least_1d;
using ops::check_1d;
using ops::check_fits;
using ops::checked_index;
using ops::zeros;

// ---- gather

namespace {

/// The gradient of gather: zeros, with `grad` added at the positions that were read.
Tensor gather_back(const Tensor& grad, const Shape& shape, int dim, const Tensor& index) {
  Tensor out = accumulate({}, shape, grad.dtype(), grad.device(), [&](const Tensor& sum) {
    kernels::scatter_add(current_stream(sum.device()), "gather_backward", sum, index,
                         grad.to(sum.dtype()), dim);
  });
  if (recording(grad))
    record(out, "gather_backward", {grad}, [dim, index = Saved(index)](const Tensor& g, Needs) {
      return g.gather(dim, index.get());
    });
  return out;
}

}  // namespace

Tensor ops::gather(const Tensor& x, int dim, const Tensor& index, const char* op) {
  const Tensor ids = checked_index(index, x, op);
  if (x.dim() == 0 || index.dim() == 0) {
    FERRITE_CHECK(x.dim() <= 1 && index.dim() <= 1, ShapeError, op,
                  "an index of {} for a tensor of {}", index.shape(), x.shape());
    return gather(at_least_1d(x), dim, at_least_1d(ids), op).reshape(index.shape());
  }
  const int d = normalize_dim(dim, x.dim(), op);
  check_fits(ids, x, d, "a tensor", op);
  if (x.is_complex())
    return by_parts(x, [&](const Tensor& parts) {
      Shape both = ids.shape();
      both.push_back(2);
      return gather(parts, d, ids.unsqueeze(-1).expand(both), op);
    });
  Tensor out = empty(ids.shape(), {.dtype = x.dtype(), .device = x.device()});
  if (out.numel() > 0) kernels::gather(current_stream(x.device()), op, out, x, ids, d);
  if (recording(x))
    record(out, op, {x}, [d, shape = x.shape(), ids = Saved(ids)](const Tensor& grad, Needs) {
      return gather_back(grad, shape, d, ids.get());
    });
  return out;
}

Tensor Tensor::gather(int dim, const Tensor& index) const {
  if (tracing::on())
    return tracing::op("gather", {*this, index}, {{"dim", std::int64_t{dim}}},
                       [&] { return gather(dim, index); });
  const profiler::OpRange range("gather", *this, index);
  return ops::gather(*this, dim, index, "gather");
}

Tensor gather(const Tensor& x, int dim, const Tensor& index) { return x.gather(dim, index); }

// ---- index_select

namespace {

/// The gradient of index_select: zeros, with the slices of `grad` added at the positions that were
/// read.
Tensor index_select_back(const Tensor& grad, const Shape& shape, int dim, const Tensor& index) {
  Tensor out = accumulate({}, shape, grad.dtype(), grad.device(), [&](const Tensor& sum) {
    kernels::index_add(current_stream(sum.device()), "index_select_backward", sum, index, grad, dim,
                       1);
  });
  if (recording(grad))
    record(out, "index_select_backward", {grad},
           [dim, index = Saved(index)](const Tensor& g, Needs) {
             return g.index_select(dim, index.get());
           });
  return out;
}

void select_slices(const Tensor& out, const Tensor& x, const Tensor& index, int dim,
                   const char* op) {
  const Stream stream = current_stream(x.device());
  if (x.suggest_memory_format() != kChannelsLast)
    return kernels::index_select(stream, op, out, x, index, dim);
  // In memory order, whole blocks are moved.
  const auto in_memory_order = [](const Tensor& t) {
    return geometry::apply(t, geometry::permute(t, {0, 2, 3, 1}));
  };
  constexpr int kPlace[] = {0, 3, 1, 2};
  kernels::index_select(stream, op, in_memory_order(out), in_memory_order(x), index, kPlace[dim]);
}

}  // namespace

Tensor ops::index_select(const Tensor& x, int dim, const Tensor& index, const char* op) {
  if (x.is_complex())
    return by_parts(x, [&](const Tensor& t) { return index_select(t, dim, index, op); });
  Shape out_shape = x.shape();
  out_shape[dim] = index.numel();
  Tensor out =
      empty(out_shape,
            {.dtype = x.dtype(), .device = x.device(), .memory_format = x.suggest_memory_format()});
  if (out.numel() > 0) select_slices(out, x, index, dim, op);
  if (recording(x))
    record(out, "index_select", {x},
           [dim, shape = x.shape(), index = Saved(index)](const Tensor& grad, Needs) {
             return index_select_back(grad, shape, dim, index.get());
           });
  return out;
}

Tensor Tensor::index_select(int dim, const Tensor& index) const {
  if (tracing::on())
    return tracing::op("index_select", {*this, index}, {{"dim", std::int64_t{dim}}},
                       [&] { return index_select(dim, index); });
  const profiler::OpRange range("index_select", *this, index);
  const Tensor ids = at_least_1d(checked_index(index, *this, "index_select"));
  check_1d(index, "index_select");
  if (this->dim() == 0) {
    FERRITE_CHECK(ids.numel() == 1, ShapeError, "index_select",
                  "a 0-dimensional tensor takes an index of 1 element, got {}", ids.numel());
    return reshape({1}).index_select(dim, ids).reshape({});
  }
  return ops::index_select(*this, normalize_dim(dim, this->dim(), "index_select"), ids,
                           "index_select");
}

Tensor index_select(const Tensor& x, int dim, const Tensor& index) {
  return x.index_select(dim, index);
}

// ---- Masks

namespace {

void check_mask(const Tensor& mask, const Tensor& x, const char* op) {
  FERRITE_CHECK(x.defined() && mask.defined(), ValueError, op, "expected two tensors, got {}, {}",
                x.describe(), mask.describe());
  FERRITE_CHECK(mask.dtype() == kBool, DTypeError, op, "expected a bool mask, got {}",
                mask.describe());
  FERRITE_CHECK(mask.device() == x.device() || (mask.dim() == 0 && mask.device().is_host()),
                DeviceError, op, "the tensor is on {}, the mask on {}; move one with to(device)",
                x.device(), mask.device());
}

}  // namespace

Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  if (tracing::on())
    return tracing::op("masked_fill", {*this, mask}, {{"value", value}},
                       [&] { return masked_fill(mask, value); });
  const profiler::OpRange range("masked_fill", *this, mask);
  check_mask(mask, *this, "masked_fill");
  ops::check_storable(value, dtype(), "masked_fill");
  const Shape full = broadcast_shapes(shape(), mask.shape(), "masked_fill");
  if (full != shape()) return expand(full).masked_fill(mask, value);
  if (is_complex()) return ferrite::where(mask, value, *this);
  Tensor out = empty_like(*this);
  kernels::masked_fill(current_stream(device()), out, *this,
                       ops::operand(mask, kBool, full, device()), value);
  if (recording(*this))
    record(out, "masked_fill", {*this}, [mask = Saved(mask)](const Tensor& grad, Needs) {
      return grad.masked_fill(mask.get(), 0);
    });
  return out;
}

const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  if (tracing::on())
    return tracing::op("masked_fill_", {*this, mask}, {{"value", value}},
                       [&]() -> const Tensor& { return masked_fill_(mask, value); });
  const profiler::OpRange range("masked_fill_", *this, mask);
  check_mask(mask, *this, "masked_fill_");
  ops::check_storable(value, dtype(), "masked_fill_");
  FERRITE_CHECK(broadcast_shapes(shape(), mask.shape(), "masked_fill_") == shape(), ShapeError,
                "masked_fill_", "a mask of {} is larger than the tensor of {}", mask.shape(),
                shape());
  if (is_complex()) return copy_(ferrite::where(mask, value, recording(*this) ? clone() : *this));
  autograd::check_inplace(*this, "masked_fill_");
  kernels::masked_fill(current_stream(device()), *this, *this,
                       ops::operand(mask, kBool, shape(), device()), value);
  autograd::changed_inplace(*this, "masked_fill_");
  if (recording(*this))
    autograd::record_inplace(*this, "masked_fill_", {*this},
                             [mask = Saved(mask)](const Tensor& grad, Needs) {
                               return grad.masked_fill(mask.get(), 0);
                             });
  return *this;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  return x.masked_fill(mask, value);
}

Tensor nonzero(const Tensor& x) {
  if (tracing::on()) return tracing::op("nonzero", {x}, {}, [&] { return nonzero(x); });
  const profiler::OpRange range("nonzero", x);
  FERRITE_CHECK(x.defined(), ValueError, "nonzero", "the tensor is undefined");
  if (x.is_complex()) return nonzero(ne(x, 0));
  ferrite::detail::check_may_read(x.device(), "nonzero");
  const Stream stream = current_stream(x.device());
  Tensor count = empty({}, {.dtype = kInt64, .device = x.device()});
  kernels::count_nonzero(stream, count, x);
  Tensor out =
      empty({count.item<std::int64_t>(), x.dim()}, {.dtype = kInt64, .device = x.device()});
  kernels::nonzero(stream, out, x);
  return out;
}

std::vector<Tensor> where(const Tensor& condition) {
  return unbind(nonzero(at_least_1d(condition)), 1);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const profiler::OpRange range("masked_select", x, mask);
  check_mask(mask, x, "masked_select");
  ferrite::detail::check_may_read(x.device(), "masked_select");
  const Shape full = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Tensor positions = nonzero(ops::operand(mask, kBool, full, x.device()).reshape({-1}));
  return x.expand(full).reshape({full.numel()}).index_select(0, positions.select(1, 0));
}

// ---- one_hot, embedding

Tensor one_hot(const Tensor& classes, std::int64_t num_classes) {
  if (tracing::on())
    return tracing::op("one_hot", {classes}, {{"num_classes", num_classes}},
                       [&] { return one_hot(classes, num_classes); });
  const profiler::OpRange range("one_hot", classes);
  const Tensor ids = checked_index(classes, classes, "one_hot");
  if (num_classes < 0) {
    ferrite::detail::check_may_read(ids.device(), "one_hot");
    const auto values = ids.to_vector<std::int64_t>();
    FERRITE_CHECK(!values.empty(), ValueError, "one_hot",
                  "an empty tensor has no largest class; give num_classes");
    const std::int64_t largest = std::ranges::max(values);
    FERRITE_CHECK(largest < INT64_MAX, IndexError, "one_hot", "class {} is too large", largest);
    num_classes = largest + 1;
  }
  FERRITE_CHECK(num_classes > 0, ValueError, "one_hot", "expected 1 class or more, got {}",
                num_classes);
  Shape shape = classes.shape();
  shape.push_back(num_classes);
  const Tensor out = zeros(shape, kInt64, classes.device());
  if (out.numel() == 0) return out;
  const Tensor at = geometry::apply(ids, geometry::unsqueeze(ids, -1));
  const Tensor one = empty({}, {.dtype = kInt64, .device = classes.device()});
  const Stream stream = current_stream(classes.device());
  kernels::fill(stream, one, 1);
  kernels::scatter(stream, "one_hot", out, at,
                   geometry::apply(one, geometry::expand(one, at.shape())), classes.dim());
  return out;
}

namespace {

/// What `rows` [..., width] are multiplied by to have p-norms of at most max_norm: [..., 1].
Tensor limiting_factors(const Tensor& rows, double max_norm, double p) {
  const Tensor norms = norm(rows, p, {-1}, true);
  return where(gt(norms, max_norm), max_norm / (norms + 1e-7), 1);
}

void check_max_norm(const Tensor& weight, double max_norm, const char* op) {
  FERRITE_CHECK(is_floating(weight.dtype()), DTypeError, op,
                "max_norm works on weights of floating types, got {}", weight.describe());
  FERRITE_CHECK(max_norm >= 0, ValueError, op, "max_norm must be at least 0, got {}", max_norm);
}

/// `grad` [n, width] with each row divided by how often `index` [n] contains its index.
Tensor divided_by_frequency(const Tensor& grad, const Tensor& index, std::int64_t rows) {
  const Tensor one = ones({index.numel()}, {.dtype = kInt64, .device = index.device()});
  const Tensor counts = zeros({rows}, kInt64, index.device()).index_add(0, index, one);
  const DType wide = itemsize(grad.dtype()) == 2 ? kFloat32 : grad.dtype();
  const Tensor often = counts.index_select(0, index).unsqueeze(1).to(wide);
  return (grad.to(wide) / often).to(grad.dtype());
}

/// While an op is traced, the weight is not changed; the rows of the result are limited instead.
Tensor traced_embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& o) {
  EmbeddingOptions unlimited = o;
  unlimited.max_norm = {};
  const Tensor rows = tracing::op("embedding", {indices, weight}, {},
                                  [&] { return embedding(indices, weight, unlimited); });
  if (!o.max_norm) return rows;
  check_max_norm(weight, *o.max_norm, "embedding");
  return rows * limiting_factors(rows, *o.max_norm, o.norm_type);
}

}  // namespace

void ops::limit_norms(const Tensor& weight, const Tensor& ids, double max_norm, double p,
                      const char* op) {
  const NoGradGuard guard;
  check_max_norm(weight, max_norm, op);
  if (ids.numel() == 0) return;
  composite(
      op,
      [&] {
        const Tensor flat = ids.reshape({-1}), rows = weight.index_select(0, flat);
        const auto limited = [&](const Tensor& x) { return x * limiting_factors(x, max_norm, p); };
        index_copy_(weight, 0, flat, computed_in(weight.dtype(), limited, rows));
      },
      weight, ids);
}

Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx) {
  return embedding(indices, weight, EmbeddingOptions{.padding_idx = padding_idx});
}

Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& o) {
  if (tracing::on()) return traced_embedding(indices, weight, o);
  const profiler::OpRange op_range("embedding", indices, weight);
  const Tensor ids = checked_index(indices, weight, "embedding").reshape({-1});
  FERRITE_CHECK(weight.dim() == 2, ShapeError, "embedding",
                "expected a weight of 2 dimensions (num_embeddings, width), got {}",
                weight.shape());
  const std::int64_t rows = weight.shape()[0], width = weight.shape()[1];
  std::int64_t pad = -1;
  if (o.padding_idx) {
    FERRITE_CHECK(*o.padding_idx >= -rows && *o.padding_idx < rows, IndexError, "embedding",
                  "padding_idx {} is out of range for {} embeddings", *o.padding_idx, rows);
    pad = *o.padding_idx < 0 ? *o.padding_idx + rows : *o.padding_idx;
  }
  if (o.max_norm) ops::limit_norms(weight, ids, *o.max_norm, o.norm_type, "embedding");
  Tensor out = empty({ids.numel(), width}, {.dtype = weight.dtype(), .device = weight.device()});
  if (out.numel() > 0) select_slices(out, weight, ids, 0, "embedding");
  if (recording(weight))
    record(out, "embedding", {weight},
           [ids = Saved(ids), pad, shape = weight.shape(), by_frequency = o.scale_grad_by_freq](
               const Tensor& grad, Needs) {
             const Tensor index = ids.get();
             const Tensor g = by_frequency ? divided_by_frequency(grad, index, shape[0]) : grad;
             if (pad < 0) return index_select_back(g, shape, 0, index);
             const Tensor is_pad = empty(index.shape(), {.dtype = kBool, .device = index.device()});
             kernels::binary(current_stream(index.device()), kernels::BinaryOp::eq, is_pad, index,
                             Scalar(pad));
             return index_select_back(g.masked_fill(is_pad.unsqueeze(1), 0), shape, 0, index);
           });
  Shape shape = indices.shape();
  shape.push_back(width);
  return out.reshape(shape);
}

}  // namespace ferrite
