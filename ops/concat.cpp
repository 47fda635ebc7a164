#include "ferrite/ops/concat.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/concat.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::record_many;
using autograd::recording;

namespace {

/// The tensors' common device and promoted dtype; their memory format if they agree on it.
TensorOptions common_options(std::span<const Tensor> tensors, const char* op) {
  FERRITE_CHECK(!tensors.empty(), ValueError, op, "expected one tensor or more, got none");
  for (const Tensor& t : tensors)
    FERRITE_CHECK(t.defined(), ValueError, op, "one of the {} tensors is undefined",
                  tensors.size());
  TensorOptions options{.dtype = tensors[0].dtype(), .device = tensors[0].device()};
  bool channels_last = true;
  for (const Tensor& t : tensors) {
    FERRITE_CHECK(t.device() == options.device, DeviceError, op,
                  "the tensors are on different devices: {} and {}; move one with to(device)",
                  tensors[0].describe(), t.describe());
    options.dtype = promote(options.dtype, t.dtype());
    channels_last = channels_last && t.suggest_memory_format() == kChannelsLast;
  }
  if (channels_last) options.memory_format = kChannelsLast;
  return options;
}

/// cat skips tensors of shape [0].
bool is_skipped(const Tensor& t) { return t.dim() == 1 && t.numel() == 0; }

/// Joins in one pass if the non-empty `tensors` are dense, with the dtype and order of `out`. The
/// number of rows is the product of the dimensions outside of `dim`. Returns whether it did.
bool join_rows(const Tensor& out, MemoryFormat format, std::span<const Tensor> tensors, int dim) {
  for (const Tensor& t : tensors)
    if (t.numel() > 0 && (t.dtype() != out.dtype() || !t.is_contiguous(format))) return false;
  if (out.numel() == 0) return true;
  constexpr int kPlace[] = {0, 3, 1, 2};  // memory position of a dimension, channels last
  std::int64_t rows = 1;
  for (int i = 0; i < out.dim(); ++i)
    if (format == kChannelsLast ? kPlace[i] < kPlace[dim] : i < dim) rows *= out.shape()[i];
  std::vector<kernels::ConcatPart> parts;
  for (const Tensor& t : tensors)
    if (t.numel() > 0)
      parts.push_back({t.data_ptr(), static_cast<std::int64_t>(t.nbytes()) / rows});
  kernels::concat(current_stream(out.device()), out.data_ptr(), rows, parts);
  return true;
}

std::vector<DType> dtypes_of(std::span<const Tensor> tensors) {
  std::vector<DType> dtypes;
  for (const Tensor& t : tensors) dtypes.push_back(t.dtype());
  return dtypes;
}

Tensor zeros_for(const Shape& shape, const TensorOptions& options) {
  Tensor out = empty(shape, options);
  kernels::fill(current_stream(out.device()), out, 0);
  return out;
}

/// Records `parts`, views of `x`; `join` combines their gradients, all of them defined.
template <class Join>
void record_parts(const Tensor& x, std::span<const Tensor> parts, const char* name, Join join) {
  if (parts.empty()) return;
  if (recording(x)) {
    std::vector<Shape> shapes;
    for (const Tensor& part : parts) shapes.push_back(part.shape());
    record_many(parts, name, {&x, 1},
                [shapes = std::move(shapes), join,
                 options = TensorOptions{.dtype = x.dtype(), .device = x.device()}](
                    Gradients& grads, Needs) -> Gradients {
                  for (std::size_t i = 0; i < shapes.size(); ++i)
                    if (!grads[i].defined()) grads[i] = zeros_for(shapes[i], options);
                  return {join(std::span<const Tensor>(grads.data(), grads.size()))};
                });
  }
  for (const Tensor& part : parts) autograd::link_view(part, x);
}

std::int64_t check_splits(const Tensor& x, int dim, const char* op) {
  FERRITE_CHECK(x.defined(), ValueError, op, "the tensor is undefined");
  FERRITE_CHECK(x.dim() > 0, IndexError, op, "a 0-dimensional tensor has no parts");
  return x.shape()[normalize_dim(dim, x.dim(), op)];
}

}  // namespace

// ---- Joining

Tensor cat(std::span<const Tensor> tensors, int dim) {
  if (tracing::on())
    return tracing::op("cat", tensors, {{"dim", std::int64_t{dim}}},
                       [&] { return cat(tensors, dim); });
  if (const auto cast = ops::autocast(AutocastOp::cat, tensors)) return cat(*cast, dim);
  const profiler::OpRange range("cat", tensors);
  TensorOptions options = common_options(tensors, "cat");
  const auto model = std::ranges::find_if_not(tensors, is_skipped);
  const bool has_any = model != tensors.end();
  FERRITE_CHECK(!has_any || model->dim() > 0, ShapeError, "cat",
                "0-dimensional tensors cannot be joined; use stack()");
  const int d = has_any ? normalize_dim(dim, model->dim(), "cat") : 0;
  Shape shape = has_any ? model->shape() : Shape{0};
  shape[d] = 0;
  for (const Tensor& t : tensors) {
    if (is_skipped(t)) continue;
    bool fits = t.dim() == shape.size();
    for (int i = 0; fits && i < shape.size(); ++i) fits = i == d || t.shape()[i] == shape[i];
    FERRITE_CHECK(fits, ShapeError, "cat",
                  "all sizes but that of dimension {} must agree, got {} and {}", d, model->shape(),
                  t.shape());
    shape[d] += t.shape()[d];
  }
  if (shape.size() != 4) options.memory_format = kContiguous;
  Tensor out = empty(shape, options);
  std::vector<std::int64_t> sizes;
  std::vector<bool> skipped;
  for (const Tensor& t : tensors) {
    skipped.push_back(is_skipped(t));
    sizes.push_back(skipped.back() ? 0 : t.shape()[d]);
  }
  if (!join_rows(out, options.memory_format, tensors, d)) {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < tensors.size(); start += sizes[i++])
      if (sizes[i] > 0)
        kernels::copy(current_stream(out.device()),
                      geometry::apply(out, geometry::narrow(out, d, start, sizes[i])), tensors[i]);
  }
  if (recording(tensors))
    record(out, "cat", tensors,
           [sizes = std::move(sizes), skipped = std::move(skipped), dtypes = dtypes_of(tensors), d](
               const Tensor& grad, Needs needs) {
             Gradients grads(sizes.size());
             std::int64_t at = 0;
             for (std::size_t i = 0; i < sizes.size(); at += sizes[i++])
               if (needs[i] && skipped[i])
                 grads[i] = empty({0}, {.dtype = dtypes[i], .device = grad.device()});
               else if (needs[i])
                 grads[i] = grad.narrow(d, at, sizes[i]).to(dtypes[i]);
             return grads;
           });
  return out;
}

Tensor stack(std::span<const Tensor> tensors, int dim) {
  if (tracing::on())
    return tracing::op("stack", tensors, {{"dim", std::int64_t{dim}}},
                       [&] { return stack(tensors, dim); });
  if (const auto cast = ops::autocast(AutocastOp::stack, tensors)) return stack(*cast, dim);
  const profiler::OpRange range("stack", tensors);
  TensorOptions options = common_options(tensors, "stack");
  options.memory_format = kContiguous;
  Shape shape = tensors[0].shape();
  for (const Tensor& t : tensors)
    FERRITE_CHECK(t.shape() == shape, ShapeError, "stack",
                  "all tensors must have the same shape, got {} and {}", shape, t.shape());
  const int d = normalize_dim(dim, shape.size() + 1, "stack");
  shape.insert(d, static_cast<std::int64_t>(tensors.size()));
  Tensor out = empty(shape, options);
  if (!join_rows(out, kContiguous, tensors, d))
    for (std::size_t i = 0; i < tensors.size(); ++i)
      kernels::copy(current_stream(out.device()),
                    geometry::apply(out, geometry::select(out, d, static_cast<std::int64_t>(i))),
                    tensors[i]);
  if (recording(tensors))
    record(out, "stack", tensors,
           [dtypes = dtypes_of(tensors), d](const Tensor& grad, Needs needs) {
             Gradients grads(dtypes.size());
             for (std::size_t i = 0; i < dtypes.size(); ++i)
               if (needs[i]) grads[i] = grad.select(d, static_cast<std::int64_t>(i)).to(dtypes[i]);
             return grads;
           });
  return out;
}

// ---- Taking apart

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim) {
  if (tracing::on())
    return tracing::op("split", {x}, {{"sizes", sizes}, {"dim", std::int64_t{dim}}},
                       [&] { return split(x, sizes, dim); });
  const profiler::OpRange range("split", x);
  const std::int64_t total = check_splits(x, dim, "split");
  const int d = normalize_dim(dim, x.dim(), "split");
  std::int64_t sum = 0;
  for (std::int64_t size : sizes) {
    FERRITE_CHECK(size >= 0 && size <= total - sum, ShapeError, "split",
                  "the sizes must be 0 or more and add up to {}, the size of dimension {}, got {}",
                  total, d, fmt::join(sizes, ", "));
    sum += size;
  }
  FERRITE_CHECK(sum == total, ShapeError, "split", "the sizes add up to {}, dimension {} has {}",
                sum, d, total);
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (std::int64_t size : sizes) {
    parts.push_back(geometry::apply(x, geometry::narrow(x, d, start, size)));
    start += size;
  }
  record_parts(x, parts, "split", [d](std::span<const Tensor> grads) { return cat(grads, d); });
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, int dim) {
  const profiler::OpRange range("split", x);
  const std::int64_t total = check_splits(x, dim, "split");
  FERRITE_CHECK(split_size > 0 || (split_size == 0 && total == 0), ValueError, "split",
                "expected a size above 0, got {}", split_size);
  std::vector<std::int64_t> sizes;
  for (std::int64_t rest = total; rest > 0; rest -= split_size)
    sizes.push_back(std::min(rest, split_size));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim) {
  const profiler::OpRange range("chunk", x);
  const std::int64_t total = check_splits(x, dim, "chunk");
  FERRITE_CHECK(chunks > 0, ValueError, "chunk", "expected 1 or more chunks, got {}", chunks);
  constexpr std::int64_t kMostEmpty = 1 << 20;
  FERRITE_CHECK(total > 0 || chunks <= kMostEmpty, ValueError, "chunk",
                "dimension {} of {} has no elements, so that every chunk is a tensor without any; "
                "expected {} chunks or fewer of them, got {}",
                dim, x.describe(), kMostEmpty, chunks);
  if (total == 0)
    return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(chunks), 0), dim);
  return split(x, (total - 1) / chunks + 1, dim);
}

std::vector<Tensor> unbind(const Tensor& x, int dim) {
  if (tracing::on())
    return tracing::op("unbind", {x}, {{"dim", std::int64_t{dim}}}, [&] { return unbind(x, dim); });
  const profiler::OpRange range("unbind", x);
  const std::int64_t count = check_splits(x, dim, "unbind");
  const int d = normalize_dim(dim, x.dim(), "unbind");
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < count; ++i)
    parts.push_back(geometry::apply(x, geometry::select(x, d, i)));
  record_parts(x, parts, "unbind", [d](std::span<const Tensor> grads) { return stack(grads, d); });
  return parts;
}

// ---- Repeating

Tensor repeat(const Tensor& x, const Shape& repeats) {
  const profiler::OpRange range("repeat", x);
  FERRITE_CHECK(x.defined(), ValueError, "repeat", "the tensor is undefined");
  FERRITE_CHECK(repeats.size() >= x.dim(), ShapeError, "repeat",
                "{} repeats for the {} dimensions of {}", repeats.size(), x.dim(), x.shape());
  for (std::int64_t r : repeats)
    FERRITE_CHECK(r >= 0, ValueError, "repeat", "repeats must be 0 or more, got {}", repeats);
  Shape shape = Shape::filled(repeats.size() - x.dim(), 1);
  for (std::int64_t s : x.shape()) shape.push_back(s);
  Shape full = shape;
  for (int d = 0; d < shape.size(); ++d)
    FERRITE_CHECK(!__builtin_mul_overflow(shape[d], repeats[d], &full[d]), ShapeError, "repeat",
                  "{} repeats of size {} are more than 64 bits hold", repeats[d], shape[d]);
  contiguous_strides(full);  // throws if the result is too large
  Tensor out = x.reshape(shape);
  // Along dimension d, the block of all dimensions from d inwards is repeated as a whole.
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (repeats[d] == 1) continue;
    std::int64_t before = 1, block = 1;
    for (int i = 0; i < shape.size(); ++i) (i < d ? before : block) *= shape[i];
    shape[d] *= repeats[d];
    out = out.reshape({before, 1, block}).expand({before, repeats[d], block}).reshape(shape);
  }
  // What was expanded last may be a view, of x or of a copy.
  return out.is_contiguous() && !out.shares_storage(x) ? out : out.clone(kContiguous);
}

Tensor tile(const Tensor& x, const Shape& repeats) {
  const profiler::OpRange range("tile", x);
  FERRITE_CHECK(x.defined(), ValueError, "tile", "the tensor is undefined");
  Shape full = Shape::filled(std::max(0, x.dim() - repeats.size()), 1);
  for (std::int64_t r : repeats) full.push_back(r);
  return repeat(x, full);
}

}  // namespace ferrite
