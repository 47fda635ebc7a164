// Tensor::index, index_put_ and assignment to parts: Python's x[...].
//
// Numbers, slices and None make a view. Tensors of positions then select from it: the dimensions
// that have one are combined to a single one, of which index_select, index_add_ and scatter_ take
// the elements.
#include "ferrite/core/tensor_index.h"

#include <algorithm>
#include <concepts>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/index.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/indexing.h"
#include "ferrite/ops/renamed.h"
#include "ferrite/ops/views.h"

namespace ferrite {

/// A view, and for each of its first dimensions the positions asked for, undefined for all.
struct detail::IndexedPart {
  Tensor base;
  std::vector<Tensor> at;
  Tensor mask;  // if it was the only index

  bool is_view() const {
    return std::ranges::none_of(at, [](const Tensor& t) { return t.defined(); });
  }
};

namespace {

using detail::IndexedPart;

void check_mask(const Tensor& mask, const Tensor& x, int first, const char* op) {
  bool fits = first + mask.dim() <= x.dim();
  for (int d = 0; fits && d < mask.dim(); ++d) fits = mask.shape()[d] == x.shape()[first + d];
  FERRITE_CHECK(fits, IndexError, op, "a mask of {} does not fit {} from dimension {} on",
                mask.shape(), x.describe(), first);
}

/// Negative positions counted from the end. Those out of range stay, for the kernel to refuse.
Tensor from_start(const Tensor& index, std::int64_t size) {
  return where(logical_and(index < 0, index >= -size), index + size, index);
}

class Resolver {
 public:
  Resolver(const Tensor& x, std::span<const TensorIndex> indices, const char* op)
      : op_(op), part_{.base = x} {
    FERRITE_CHECK(x.defined(), ValueError, op_, "the tensor is undefined");
    for (const TensorIndex& i : indices) taken_ += std::visit(Taken{op}, i.value());
    FERRITE_CHECK(taken_ <= x.dim(), IndexError, op_, "{} dimensions are indexed in {}", taken_,
                  x.describe());
    left_ = x.dim() - taken_;
    for (const TensorIndex& i : indices) std::visit(*this, i.value());
  }

  IndexedPart result() && { return std::move(part_); }

  void operator()(std::int64_t position) {
    const std::int64_t size = part_.base.size(next());
    FERRITE_CHECK(position >= -size && position < size, IndexError, op_,
                  "index {} is out of range for dimension {} of size {}", position, next(), size);
    part_.base = part_.base.select(next(), position);
  }
  void operator()(const Slice& s) {
    if (s.start != 0 || s.stop != INT64_MAX || s.step != 1)
      part_.base = part_.base.slice(next(), s.start, s.stop, s.step);
    part_.at.emplace_back();
  }
  void operator()(std::nullopt_t) {
    part_.base = part_.base.unsqueeze(next());
    part_.at.emplace_back();
  }
  void operator()(EllipsisType) {
    FERRITE_CHECK(!ellipsis_, IndexError, op_, "only one ellipsis can be expanded");
    ellipsis_ = true;
    part_.at.resize(part_.at.size() + static_cast<std::size_t>(left_));
  }
  void operator()(bool on) {
    part_.base = part_.base.unsqueeze(next());
    part_.at.push_back(ops::zeros({on ? 1 : 0}, kInt64, part_.base.device()));
  }
  void operator()(const Tensor& t) {
    FERRITE_CHECK(t.dtype() == kBool || t.dtype() == kInt64 || t.dtype() == kInt32, DTypeError, op_,
                  "expected positions of int64 or int32, or a bool mask, got {}", t.describe());
    if (t.dim() == 0)
      return t.dtype() == kBool ? (*this)(t.item<bool>()) : (*this)(t.item<std::int64_t>());
    const Tensor here = no_grad([&] { return t.to(part_.base.device()); });
    if (here.dtype() == kBool) return add_mask(here);
    part_.at.push_back(from_start(here.to(kInt64), part_.base.size(next())));
  }

 private:
  /// How many dimensions an index stands for.
  struct Taken {
    const char* op;
    int operator()(std::int64_t) const { return 1; }
    int operator()(const Slice&) const { return 1; }
    int operator()(const Tensor& t) const {
      FERRITE_CHECK(t.defined(), ValueError, op, "an index is an undefined tensor");
      return t.dtype() == kBool ? t.dim() : 1;
    }
    template <class T>
    int operator()(const T&) const {
      return 0;
    }
  };

  int next() const { return static_cast<int>(part_.at.size()); }

  void add_mask(const Tensor& mask) {
    check_mask(mask, part_.base, next(), op_);
    const Tensor positions = nonzero(mask);
    for (int d = 0; d < mask.dim(); ++d) part_.at.push_back(positions.select(1, d));
  }

  const char* const op_;
  IndexedPart part_;
  int taken_ = 0, left_ = 0;
  bool ellipsis_ = false;
};

/// The dimensions that have positions, in front of the others and as a single one.
struct Rows {
  Rows(const IndexedPart& part, const char* op);

  /// `base` (its shape, or one that begins like it) with those dimensions in front.
  Tensor in_front(const Tensor& base) const { return base.permute(order); }

  int single = -1;     // the dimension with positions, if there is only one
  Shape positions;     // the shape of the positions, broadcast to each other
  Shape rest;          // the sizes of the other dimensions
  Shape flat;          // the number of elements of the combined dimensions, then the rest
  Shape order;         // of the dimensions of the base: those with positions, then the others
  Shape result;        // the shape of what is read
  Shape result_order;  // of the result's dimensions: those of the positions, then the others
  Tensor index;        // one dimension, int64
};

/// Throws IndexError, from the kernel, for a position outside `size`.
void check_positions(const Tensor& index, std::int64_t size, const char* op) {
  const Tensor none = ops::zeros({1}, kInt64, index.device());
  const Tensor all = empty(index.shape(), {.dtype = kInt64, .device = index.device()});
  if (index.numel() > 0)
    kernels::index_select(current_stream(index.device()), op, all,
                          geometry::apply(none, geometry::expand(none, {size})), index, 0);
}

Rows::Rows(const IndexedPart& part, const char* op) {
  const Tensor& base = part.base;
  std::vector<int> with, without;
  for (int d = 0; d < base.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    (i < part.at.size() && part.at[i].defined() ? with : without).push_back(d);
  }
  if (with.size() == 1) single = with[0];
  std::int64_t combined = 1;
  for (const int d : with) {
    positions = broadcast_shapes(positions, part.at[static_cast<std::size_t>(d)].shape(), op);
    combined *= base.shape()[d];
    order.push_back(d);
  }
  flat.push_back(combined);
  for (const int d : without) {
    order.push_back(d);
    rest.push_back(base.shape()[d]);
    flat.push_back(base.shape()[d]);
  }

  // Side by side, they are replaced where they are; else their dimensions come first.
  const bool adjacent = with.back() - with.front() + 1 == static_cast<int>(with.size());
  const int before = adjacent ? with.front() : 0;
  for (int d = 0; d < before; ++d) result.push_back(rest[d]);
  for (const std::int64_t size : positions) {
    result_order.push_back(result.size());
    result.push_back(size);
  }
  for (int d = before; d < rest.size(); ++d) result.push_back(rest[d]);
  for (int d = 0; d < result.size(); ++d)
    if (d < before || d >= before + positions.size()) result_order.push_back(d);

  for (const int d : with) {
    const Tensor& at = part.at[static_cast<std::size_t>(d)];
    const Tensor wide = at.shape() == positions ? at : at.expand(positions);
    index = index.defined() ? index * base.shape()[d] + wide : wide;
  }
  if (index.dim() != 1) index = index.reshape({positions.numel()});
}

/// check_positions for each dimension that has positions.
void check_all_positions(const IndexedPart& part, const char* op) {
  for (std::size_t d = 0; d < part.at.size(); ++d)
    if (part.at[d].defined())
      check_positions(part.at[d].reshape({-1}), part.base.shape()[static_cast<int>(d)], op);
}

/// `x` with its dimensions in an order that `order` undoes.
Tensor put_back(const Tensor& x, const Shape& order) {
  Shape inverse = order;
  for (int d = 0; d < order.size(); ++d) inverse[static_cast<int>(order[d])] = d;
  return x.permute(Dims(inverse));
}

Tensor read(const IndexedPart& part) {
  const Rows rows(part, "index");
  if (rows.single >= 0) {
    const Tensor found = tracing::on()
                             ? part.base.index_select(rows.single, rows.index)
                             : ops::index_select(part.base, rows.single, rows.index, "index");
    return rows.positions.size() == 1 ? found : found.reshape(rows.result);
  }
  check_all_positions(part, "index");
  Shape shape = rows.positions;
  for (const std::int64_t size : rows.rest) shape.push_back(size);
  const Tensor found = rows.in_front(part.base).reshape(rows.flat).index_select(0, rows.index);
  return put_back(found.shape() == shape ? found : found.reshape(shape), rows.result_order);
}

/// `values` as a source for `rows`: [number of positions, rest...].
Tensor source(const Rows& rows, const Tensor& values) {
  FERRITE_CHECK(broadcast_shapes(rows.result, values.shape(), "index_put_") == rows.result,
                ShapeError, "index_put_", "values of {} do not broadcast to the part of {}",
                values.shape(), rows.result);
  Shape shape = rows.flat;
  shape[0] = rows.positions.numel();
  return values.expand(rows.result).permute(Dims(rows.result_order)).reshape(shape);
}

void write(const IndexedPart& part, const Tensor& values, bool accumulate) {
  if (values.is_complex())
    return write({.base = view_as_real(part.base), .at = part.at, .mask = {}}, view_as_real(values),
                 accumulate);
  const Rows rows(part, "index_put_");
  const Tensor from = source(rows, values);
  check_all_positions(part, "index_put_");  // last: an error of shapes leaves nothing queued
  Shape column = Shape::filled(rows.flat.size(), 1);
  column[0] = rows.index.numel();
  const Tensor moved = rows.in_front(part.base);
  const Tensor ids = accumulate ? rows.index : rows.index.reshape(column).expand(from.shape());
  if (geometry::view(moved, rows.flat)) {
    const Tensor to = moved.view(rows.flat);
    accumulate ? index_add_(to, 0, ids, from) : scatter_(to, 0, ids, from);
    return;
  }
  const Tensor to = moved.reshape(rows.flat);
  const Tensor changed = accumulate ? index_add(to, 0, ids, from) : scatter(to, 0, ids, from);
  moved.copy_(changed.reshape(moved.shape()));
}

void put(const IndexedPart& part, const Tensor& given, bool accumulate) {
  FERRITE_CHECK(given.defined(), ValueError, "index_put_", "the values are undefined");
  const Tensor& base = part.base;
  Tensor values = given;
  if (given.dim() == 0 && (given.dtype() != base.dtype() || given.device() != base.device()))
    values = given.to(base);
  if (part.is_view()) {
    FERRITE_CHECK(broadcast_shapes(base.shape(), values.shape(), "index_put_") == base.shape(),
                  ShapeError, "index_put_", "values of {} do not broadcast to the part of {}",
                  values.shape(), base.shape());
    accumulate ? base.add_(values) : base.copy_(values);
    return;
  }
  FERRITE_CHECK(values.dtype() == base.dtype(), DTypeError, "index_put_",
                "the tensor is {}, the values {}; convert one with to(dtype)", base.dtype(),
                values.dtype());
  FERRITE_CHECK(values.device() == base.device(), DeviceError, "index_put_",
                "the tensor is on {}, the values on {}; move one with to(device)", base.device(),
                values.device());
  write(part, values, accumulate);
}

void fill_where(const Tensor& x, const Tensor& mask, Scalar value) {
  Shape shape = mask.shape();
  while (shape.size() < x.dim()) shape.push_back(1);
  x.masked_fill_(mask.to(x.device()).reshape(shape), value);
}

/// The index, if it is the only one and a mask; else undefined.
Tensor single_mask(std::span<const TensorIndex> indices) {
  const auto* t = indices.size() == 1 ? std::get_if<Tensor>(&indices[0].value()) : nullptr;
  return t && t->defined() && t->dtype() == kBool && t->dim() > 0 ? *t : Tensor();
}

void put(const IndexedPart& part, Scalar value) {
  if (part.is_view()) {
    part.base.fill_(value);
  } else if (part.mask.defined()) {
    fill_where(part.base, part.mask, value);
  } else {
    const Tensor& base = part.base;
    write(part, full({}, value, {.dtype = base.dtype(), .device = base.device()}), false);
  }
}

/// The range of an op of these tensors. Who records a computation learns the positions, too.
template <std::same_as<Tensor>... Tensors>
profiler::OpRange range_of(const char* op, std::span<const TensorIndex> indices,
                           const Tensors&... tensors) {
  if (!tracing::on()) return profiler::OpRange(op, tensors...);
  std::vector<Tensor> inputs{tensors...};
  for (const TensorIndex& i : indices)
    if (const auto* const t = std::get_if<Tensor>(&i.value())) inputs.push_back(*t);
  return {op, std::span<const Tensor>(inputs)};
}

}  // namespace

TensorView Tensor::index(std::span<const TensorIndex> indices) const {
  const profiler::OpRange range = range_of("index", indices, *this);
  IndexedPart part = Resolver(*this, indices, "index").result();
  if (part.is_view()) {
    // All of it is a view, too, whose hooks and requires_grad are its own.
    if (part.base.is_same(*this) && !tracing::on()) part.base = view(shape());
    return {part.base, nullptr};
  }
  part.mask = single_mask(indices);
  Tensor values = read(part);
  return {std::move(values), std::make_shared<const IndexedPart>(std::move(part))};
}

const Tensor& Tensor::index_put_(std::span<const TensorIndex> indices, const Tensor& values,
                                 bool accumulate) const {
  const profiler::OpRange range = range_of("index_put_", indices, *this, values);
  ops::renamed("index_put_",
               [&] { put(Resolver(*this, indices, "index_put_").result(), values, accumulate); });
  return *this;
}

const Tensor& Tensor::index_put_(std::span<const TensorIndex> indices, Scalar value) const {
  const profiler::OpRange range = range_of("index_put_", indices, *this);
  FERRITE_CHECK(defined(), ValueError, "index_put_", "the tensor is undefined");
  ops::renamed("index_put_", [&] {
    if (const Tensor mask = single_mask(indices); mask.defined()) {
      check_mask(mask, *this, 0, "index_put_");
      fill_where(*this, mask, value);
    } else {
      put(Resolver(*this, indices, "index_put_").result(), value);
    }
  });
  return *this;
}

// ---- Assignment to temporaries

namespace {

void check_part(const Tensor& part) {
  FERRITE_CHECK(part.defined() && part.impl()->is_view, ValueError, "operator=",
                "{} is a temporary and no part of another tensor, so that assigning to it would "
                "change nothing",
                part.describe());
}

/// `values` without leading dimensions of size 1 above `dims`, which assignment drops in Python.
Tensor without_leading_ones(Tensor values, int dims) {
  while (values.defined() && values.dim() > dims && values.size(0) == 1) values = values[0];
  return values;
}

}  // namespace

Tensor Tensor::operator=(const Tensor& values) && {
  check_part(*this);
  return copy_(without_leading_ones(values, dim()));
}

Tensor Tensor::operator=(Scalar value) && {
  check_part(*this);
  return fill_(value);
}

Tensor TensorView::operator=(const Tensor& values) && {
  if (!from_) return copy_(without_leading_ones(values, dim()));
  ops::renamed("index_put_", [&] { put(*from_, without_leading_ones(values, 1), false); });
  return *this;
}

Tensor TensorView::operator=(Scalar value) && {
  if (!from_) return fill_(value);
  ops::renamed("index_put_", [&] { put(*from_, value); });
  return *this;
}

}  // namespace ferrite
