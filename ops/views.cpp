#include "ferrite/ops/views.h"

#include <algorithm>

#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/defined.h"
#include "ferrite/ops/reduce.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using ops::check_defined;

namespace {

/// `t` with the geometry `v`, on the tape with `backward` as its gradient.
template <class Backward>
Tensor make_view(const Tensor& t, const geometry::View& v, const char* name, Backward backward) {
  Tensor out = geometry::apply(t, v);
  if (recording(t)) record(out, name, {t}, std::move(backward));
  autograd::link_view(out, t);
  return out;
}

Tensor zeros_for(const Tensor& grad, const Shape& shape) {
  const MemoryFormat format =
      shape.size() == grad.dim() ? grad.suggest_memory_format() : kContiguous;
  Tensor out =
      empty(shape, {.dtype = grad.dtype(), .device = grad.device(), .memory_format = format});
  kernels::fill(current_stream(out.device()), out, 0);
  return out;
}

/// The gradient of a view without overlapping elements: zeros of `shape`, with `grad` in the region
/// selected by `view_of`. Its own gradient is the view.
template <class ViewOf>
Tensor pad_back(const Tensor& grad, const Shape& shape, const char* name, ViewOf view_of) {
  Tensor out = zeros_for(grad, shape);
  kernels::copy(current_stream(out.device()), no_grad([&] { return view_of(out); }), grad);
  if (recording(grad))
    record(out, name, {grad}, [view_of](const Tensor& g, Needs) { return view_of(g); });
  return out;
}

/// The gradient of slice (and of select and narrow); also correct for steps above 1.
Tensor slice_back(const Tensor& grad, const Shape& shape, int dim, std::int64_t start,
                  std::int64_t end, std::int64_t step) {
  return pad_back(grad, shape, "slice_backward",
                  [=](const Tensor& g) { return g.slice(dim, start, end, step); });
}

/// The gradient of unfold: overlapping windows are added in a fixed order.
Tensor unfold_back(const Tensor& grad, const Shape& shape, int dim, std::int64_t size,
                   std::int64_t step) {
  if (size <= step)
    return pad_back(grad, shape, "unfold_backward",
                    [=](const Tensor& g) { return g.unfold(dim, size, step); });
  Tensor out = zeros_for(grad, shape);
  {
    NoGradGuard guard;
    const Stream stream = current_stream(out.device());
    const Tensor windows = out.unfold(dim, size, step);
    for (std::int64_t k = 0; k < size; ++k) {
      // Elements at one position in all windows are distinct.
      const Tensor at = windows.select(-1, k);
      kernels::binary(stream, kernels::BinaryOp::add, at, at, grad.select(-1, k));
    }
  }
  if (recording(grad))
    record(out, "unfold_backward", {grad},
           [=](const Tensor& g, Needs) { return g.unfold(dim, size, step); });
  return out;
}

/// Zeros [size], with `part` added at the places of the view `at`.
Tensor add_back(const Tensor& part, std::int64_t size, const geometry::View& at) {
  Tensor out = zeros_for(part, {size});
  no_grad([&] { autograd::add_into_zeros(geometry::apply(out, at), part); });
  if (recording(part))
    record(out, "as_strided_backward", {part}, [at](const Tensor& grad, Needs) {
      const Tensor flat = grad.contiguous();
      return as_strided(flat, at.shape, at.strides, at.offset + flat.storage_offset());
    });
  return out;
}

/// The gradient of as_strided: in memory laid out as that of both tensors, the base's part of what
/// the view's elements add up to.
Tensor as_strided_back(const Tensor& grad, geometry::View base, geometry::View view,
                       bool overlaps) {
  const auto end = [](const geometry::View& v) {
    std::int64_t last = v.offset;
    for (int d = 0; d < v.shape.size(); ++d) last += (v.shape[d] - 1) * v.strides[d];
    return last + 1;
  };
  if (grad.numel() == 0 || base.shape.numel() == 0) return zeros_for(grad, base.shape);
  const std::int64_t first = std::min(base.offset, view.offset);
  base.offset -= first;
  view.offset -= first;
  const std::int64_t size = std::max(end(base), end(view));
  const auto of_base = [&](const Tensor& flat) {
    return as_strided(flat, base.shape, base.strides, base.offset);
  };
  const Tensor out = of_base(add_back(grad, size, view));
  if (!overlaps) return out;
  // Elements of the base that share memory, as those of an expanded tensor, share the gradient.
  const Tensor one = ones(base.shape, {.dtype = grad.dtype(), .device = grad.device()});
  return out / no_grad([&] { return of_base(add_back(one, size, base)); });
}

auto reshape_back(const Tensor& t) {
  return [shape = t.shape()](const Tensor& grad, Needs) { return grad.reshape(shape); };
}

}  // namespace

// ---- Any sizes and strides

Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::optional<std::int64_t> storage_offset) {
  const profiler::OpRange range("as_strided", base);
  check_defined(base, "as_strided");
  const geometry::View view{shape, strides, storage_offset.value_or(base.storage_offset())};
  return make_view(
      base, view, "as_strided",
      [from = geometry::of(base), view, overlaps = geometry::overlaps_itself(base)](
          const Tensor& grad, Needs) { return as_strided_back(grad, from, view, overlaps); });
}

Tensor Tensor::as_strided(const Shape& shape, const Strides& strides,
                          std::optional<std::int64_t> storage_offset) const {
  return ferrite::as_strided(*this, shape, strides, storage_offset);
}

// ---- Other sizes for the same elements

Tensor Tensor::view(const Shape& shape) const {
  if (tracing::on())
    return tracing::op("reshape", {*this}, {{"shape", tracing::sizes(shape)}},
                       [&] { return view(shape); });
  const profiler::OpRange range("view", *this);
  check_defined(*this, "view");
  const Shape full = geometry::infer_shape(shape, numel(), "view");
  const auto v = geometry::view(*this, full);
  FERRITE_CHECK(v, ShapeError, "view",
                "shape {} with strides {} cannot be seen as {} without a copy; use reshape()",
                this->shape(), strides(), full);
  return make_view(*this, *v, "view", reshape_back(*this));
}

Tensor Tensor::view(DType dtype) const {
  if (tracing::on())
    return tracing::op("view_dtype", {*this}, {{"dtype", std::string(name(dtype))}},
                       [&] { return view(dtype); });
  const profiler::OpRange range("view", *this);
  check_defined(*this, "view");
  const auto from = static_cast<std::int64_t>(ferrite::itemsize(this->dtype())),
             to = static_cast<std::int64_t>(ferrite::itemsize(dtype));
  Shape shape = this->shape();
  Strides strides = this->strides();
  std::int64_t offset = storage_offset();
  // In elements of `dtype`; false if they are no whole numbers.
  const auto scale = [&](std::int64_t& count) {
    const bool whole = from >= to || count % (to / from) == 0;
    count = from >= to ? count * (from / to) : count / (to / from);
    return whole;
  };
  if (from != to) {
    const int last = dim() - 1;
    FERRITE_CHECK(last >= 0 && strides[last] == 1, ShapeError, "view",
                  "elements of {} become ones of {} along a last dimension of stride 1, got {} of "
                  "strides {}",
                  this->dtype(), dtype, describe(), strides);
    bool whole = scale(shape[last]) && scale(offset);
    for (int d = 0; d < last; ++d) whole = scale(strides[d]) && whole;
    FERRITE_CHECK(whole, ShapeError, "view",
                  "{} of strides {} and offset {} does not consist of whole elements of {}",
                  describe(), this->strides(), storage_offset(), dtype);
  }
  return ferrite::as_strided(*this, shape, strides, offset, dtype);
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (tracing::on())
    return tracing::op("reshape", {*this}, {{"shape", tracing::sizes(shape)}},
                       [&] { return reshape(shape); });
  const profiler::OpRange range("reshape", *this);
  check_defined(*this, "reshape");
  const Shape full = geometry::infer_shape(shape, numel(), "reshape");
  if (const auto v = geometry::view(*this, full))
    return make_view(*this, *v, "reshape", reshape_back(*this));
  Tensor copy = contiguous().view(full);
  copy.impl()->is_view = false;  // it has its storage for itself
  return copy;
}

Tensor Tensor::flatten(int start_dim, int end_dim) const {
  if (tracing::on())
    return tracing::op("flatten", {*this},
                       {{"start_dim", std::int64_t{start_dim}}, {"end_dim", std::int64_t{end_dim}}},
                       [&] { return flatten(start_dim, end_dim); });
  const profiler::OpRange range("flatten", *this);
  check_defined(*this, "flatten");
  const int first = normalize_dim(start_dim, dim(), "flatten");
  const int last = normalize_dim(end_dim, dim(), "flatten");
  FERRITE_CHECK(first <= last, ValueError, "flatten",
                "start_dim {} comes after end_dim {} in a tensor of {} dimensions", start_dim,
                end_dim, dim());
  if (dim() == 0) return reshape({1});
  if (first == last) return *this;
  Shape flat;
  std::int64_t run = 1;
  for (int d = 0; d < dim(); ++d) {
    run = d > first && d <= last ? run * shape()[d] : shape()[d];
    if (d < first || d >= last) flat.push_back(run);
  }
  return reshape(flat);
}

Tensor Tensor::squeeze() const {
  if (tracing::on()) {
    tracing::Sizes dims;
    for (int d = 0; d < dim(); ++d)
      if (size(d) == 1) dims.push_back(d);
    return tracing::op("squeeze", {*this}, {{"dims", dims}}, [&] { return squeeze(); });
  }
  const profiler::OpRange range("squeeze", *this);
  check_defined(*this, "squeeze");
  return make_view(*this, geometry::squeeze(*this), "squeeze", reshape_back(*this));
}

Tensor Tensor::squeeze(int dim) const {
  if (tracing::on())
    return tracing::op("squeeze", {*this}, {{"dims", tracing::Sizes{dim}}},
                       [&] { return squeeze(dim); });
  const profiler::OpRange range("squeeze", *this);
  check_defined(*this, "squeeze");
  return make_view(*this, geometry::squeeze(*this, dim), "squeeze", reshape_back(*this));
}

Tensor Tensor::squeeze(const Dims& dims) const {
  check_defined(*this, "squeeze");
  std::vector<int> sorted;
  for (const std::int64_t d : dims) sorted.push_back(normalize_dim(d, dim(), "squeeze"));
  std::ranges::sort(sorted, std::greater());
  FERRITE_CHECK(std::ranges::adjacent_find(sorted) == sorted.end(), ValueError, "squeeze",
                "expected each dimension once, got {}", dims);
  Tensor out = *this;
  for (const int d : sorted) out = out.squeeze(d);
  return out;
}

Tensor Tensor::unsqueeze(int dim) const {
  if (tracing::on())
    return tracing::op("unsqueeze", {*this}, {{"dim", std::int64_t{dim}}},
                       [&] { return unsqueeze(dim); });
  const profiler::OpRange range("unsqueeze", *this);
  check_defined(*this, "unsqueeze");
  const int d = normalize_dim(dim, this->dim() + 1, "unsqueeze");
  return make_view(*this, geometry::unsqueeze(*this, d), "unsqueeze",
                   [d](const Tensor& grad, Needs) { return grad.squeeze(d); });
}

Tensor unflatten(const Tensor& x, int dim, const Shape& sizes) {
  const profiler::OpRange range("unflatten", x);
  check_defined(x, "unflatten");
  FERRITE_CHECK(x.dim() > 0, IndexError, "unflatten", "a 0-dimensional tensor has no dimension");
  const int d = normalize_dim(dim, x.dim(), "unflatten");
  const Shape inner = geometry::infer_shape(sizes, x.shape()[d], "unflatten");
  Shape shape;
  for (int i = 0; i < x.dim(); ++i) {
    if (i != d) shape.push_back(x.shape()[i]);
    if (i == d)
      for (std::int64_t s : inner) shape.push_back(s);
  }
  return x.view(shape);
}

// ---- Other orders of dimensions

Tensor Tensor::transpose(int dim0, int dim1) const {
  if (tracing::on())
    return tracing::op("transpose", {*this},
                       {{"dim0", std::int64_t{dim0}}, {"dim1", std::int64_t{dim1}}},
                       [&] { return transpose(dim0, dim1); });
  const profiler::OpRange range("transpose", *this);
  check_defined(*this, "transpose");
  return make_view(*this, geometry::transpose(*this, dim0, dim1), "transpose",
                   [dim0, dim1](const Tensor& grad, Needs) { return grad.transpose(dim0, dim1); });
}

Tensor Tensor::t() const {
  const profiler::OpRange range("t", *this);
  check_defined(*this, "t");
  FERRITE_CHECK(dim() <= 2, ShapeError, "t", "needs at most 2 dimensions, got {}; use transpose()",
                shape());
  if (dim() == 2) return transpose(0, 1);
  return make_view(*this, geometry::of(*this), "t", [](const Tensor& grad, Needs) { return grad; });
}

Tensor Tensor::permute(const Dims& dims) const {
  if (tracing::on())
    return tracing::op("permute", {*this}, {{"dims", tracing::sizes(dims)}},
                       [&] { return permute(dims); });
  const profiler::OpRange range("permute", *this);
  check_defined(*this, "permute");
  const geometry::View v = geometry::permute(*this, dims);
  Shape inverse = dims;
  for (int i = 0; i < dims.size(); ++i) inverse[normalize_dim(dims[i], dim(), "permute")] = i;
  return make_view(*this, v, "permute",
                   [inverse](const Tensor& grad, Needs) { return grad.permute(inverse); });
}

Tensor movedim(const Tensor& x, const Shape& source, const Shape& destination) {
  const profiler::OpRange range("movedim", x);
  check_defined(x, "movedim");
  FERRITE_CHECK(source.size() == destination.size(), ShapeError, "movedim",
                "{} sources for {} destinations", source.size(), destination.size());
  Shape order = Shape::filled(x.dim(), -1);
  unsigned moved = 0;
  for (int i = 0; i < source.size(); ++i) {
    const int from = normalize_dim(source[i], x.dim(), "movedim");
    const int to = normalize_dim(destination[i], x.dim(), "movedim");
    FERRITE_CHECK(!(moved >> from & 1u) && (x.dim() == 0 || order[to] < 0), ValueError, "movedim",
                  "a dimension appears twice in {} or {}", source, destination);
    moved |= 1u << from;
    if (x.dim() > 0) order[to] = from;
  }
  int next = 0;
  for (std::int64_t& d : order) {
    if (d >= 0) continue;
    while (moved >> next & 1u) ++next;
    d = next++;
  }
  return x.permute(order);
}

Tensor movedim(const Tensor& x, int source, int destination) {
  return movedim(x, Shape{source}, Shape{destination});
}

// ---- Parts

Tensor Tensor::select(int dim, std::int64_t index) const {
  if (tracing::on())
    return tracing::op("select", {*this}, {{"dim", std::int64_t{dim}}, {"index", index}},
                       [&] { return select(dim, index); });
  const profiler::OpRange range("select", *this);
  check_defined(*this, "select");
  const geometry::View v = geometry::select(*this, dim, index);
  const int d = normalize_dim(dim, this->dim(), "select");
  const std::int64_t at = index < 0 ? index + shape()[d] : index;
  return make_view(*this, v, "select", [shape = shape(), d, at](const Tensor& grad, Needs) {
    return slice_back(grad.unsqueeze(d), shape, d, at, at + 1, 1);
  });
}

Tensor Tensor::slice(int dim, std::int64_t start, std::int64_t end, std::int64_t step) const {
  if (tracing::on())
    return tracing::op(
        "slice", {*this},
        {{"dim", std::int64_t{dim}}, {"range", tracing::Sizes{start, end}}, {"step", step}},
        [&] { return slice(dim, start, end, step); });
  const profiler::OpRange range("slice", *this);
  check_defined(*this, "slice");
  return make_view(*this, geometry::slice(*this, dim, start, end, step), "slice",
                   [=, shape = shape()](const Tensor& grad, Needs) {
                     return slice_back(grad, shape, dim, start, end, step);
                   });
}

Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length) const {
  if (tracing::on()) {
    const std::int64_t from = start < 0 && defined() && dim >= -this->dim() && dim < this->dim()
                                  ? start + size(dim)
                                  : start;
    return tracing::op("slice", {*this},
                       {{"dim", std::int64_t{dim}},
                        {"range", tracing::Sizes{from, from + length}},
                        {"step", std::int64_t{1}}},
                       [&] { return narrow(dim, start, length); });
  }
  const profiler::OpRange range("narrow", *this);
  check_defined(*this, "narrow");
  const geometry::View v = geometry::narrow(*this, dim, start, length);
  const std::int64_t first = start < 0 ? start + size(dim) : start;
  return make_view(*this, v, "narrow", [=, shape = shape()](const Tensor& grad, Needs) {
    return slice_back(grad, shape, dim, first, first + length, 1);
  });
}

Tensor Tensor::unfold(int dim, std::int64_t size, std::int64_t step) const {
  const profiler::OpRange range("unfold", *this);
  check_defined(*this, "unfold");
  const geometry::View v = geometry::unfold(*this, dim, size, step);
  const int d = normalize_dim(dim, this->dim(), "unfold");
  return make_view(*this, v, "unfold", [=, shape = shape()](const Tensor& grad, Needs) {
    return unfold_back(grad, shape, d, size, step);
  });
}

Tensor diagonal(const Tensor& x, std::int64_t offset, int dim1, int dim2) {
  const profiler::OpRange range("diagonal", x);
  check_defined(x, "diagonal");
  const int a = normalize_dim(dim1, x.dim(), "diagonal");
  const int b = normalize_dim(dim2, x.dim(), "diagonal");
  FERRITE_CHECK(x.dim() >= 2 && a != b, ValueError, "diagonal",
                "needs two different dimensions of {}, got {} and {}", x.shape(), dim1, dim2);
  geometry::View v = geometry::of(x);
  const std::int64_t rows = x.shape()[a], cols = x.shape()[b];
  const std::int64_t length = offset >= 0 ? std::min(rows, cols - std::min(offset, cols))
                                          : std::min(rows + std::max(offset, -rows), cols);
  if (length > 0) v.offset += offset >= 0 ? offset * v.strides[b] : -offset * v.strides[a];
  const std::int64_t stride = v.strides[a] + v.strides[b];
  for (Shape* s : {&v.shape, &v.strides}) {
    s->erase(std::max(a, b));
    s->erase(std::min(a, b));
  }
  v.shape.push_back(length);
  v.strides.push_back(stride);
  return make_view(x, v, "diagonal", [=, shape = x.shape()](const Tensor& grad, Needs) {
    return pad_back(grad, shape, "diagonal_backward",
                    [=](const Tensor& g) { return diagonal(g, offset, a, b); });
  });
}

// ---- Repetition without memory

Tensor Tensor::expand(const Shape& shape) const {
  if (tracing::on())
    return tracing::op("expand", {*this}, {{"shape", tracing::sizes(shape)}},
                       [&] { return expand(shape); });
  const profiler::OpRange range("expand", *this);
  check_defined(*this, "expand");
  return make_view(
      *this, geometry::expand(*this, shape), "expand",
      [shape = this->shape()](const Tensor& grad, Needs) { return sum_to(grad, shape); });
}

}  // namespace ferrite
