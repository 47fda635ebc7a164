#include "ops/rearrange.h"

#include <algorithm>
#include <cstring>

#include "autograd/record.h"
#include "core/views.h"
#include "kernels/copy.h"
#include "kernels/index.h"
#include "ops/copy.h"
#include "ops/index.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;

// ---- pad

namespace {

struct Amounts {
  Shape before, after;  // one a dimension
};

Amounts parse_amounts(const Tensor& x, const std::vector<std::int64_t>& amounts) {
  FERRITE_CHECK(x.defined(), ValueError, "pad", "the tensor is undefined");
  FERRITE_CHECK(amounts.size() % 2 == 0, ValueError, "pad",
                "expected pairs of amounts (before, after), got {} amounts", amounts.size());
  FERRITE_CHECK(static_cast<int>(amounts.size() / 2) <= x.dim(), ShapeError, "pad",
                "{} pairs of amounts for the {} dimensions of {}", amounts.size() / 2, x.dim(),
                x.shape());
  Amounts a{Shape::filled(x.dim(), 0), Shape::filled(x.dim(), 0)};
  constexpr std::int64_t kMost = INT64_MAX / 4;  // sums of a size and two amounts fit
  for (std::int64_t amount : amounts)
    FERRITE_CHECK(amount >= -kMost && amount <= kMost, ValueError, "pad",
                  "an amount of {} is beyond every size", amount);
  for (std::size_t i = 0; i < amounts.size(); i += 2) {
    const int d = x.dim() - 1 - static_cast<int>(i / 2);
    a.before[d] = amounts[i];
    a.after[d] = amounts[i + 1];
    FERRITE_CHECK(x.shape()[d] + a.before[d] + a.after[d] >= 0, ShapeError, "pad",
                  "amounts {} and {} leave less than nothing of dimension {} of size {}",
                  a.before[d], a.after[d], d, x.shape()[d]);
  }
  return a;
}

/// `x` without what negative amounts take away.
Tensor crop(const Tensor& x, Amounts& a) {
  Tensor out = x;
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t first = std::min(-std::min<std::int64_t>(a.before[d], 0), x.shape()[d]);
    const std::int64_t last = x.shape()[d] + std::min<std::int64_t>(a.after[d], 0);
    if (first == 0 && last == x.shape()[d]) continue;
    out = out.narrow(d, first, std::max<std::int64_t>(last - first, 0));
  }
  return out;
}

Tensor pad_constant(const Tensor& whole, Amounts a, Scalar value) {
  const Tensor x = crop(whole, a);
  Shape shape = whole.shape();
  for (int d = 0; d < x.dim(); ++d) shape[d] += a.before[d] + a.after[d];
  Tensor out = empty(
      shape, {.dtype = x.dtype(),
              .device = x.device(),
              .memory_format = shape.size() == 4 ? whole.suggest_memory_format() : kContiguous});
  const Stream stream = current_stream(out.device());
  kernels::fill(stream, out, value);
  geometry::View inside = geometry::of(out);
  inside.shape = x.shape();
  if (x.numel() > 0) {
    for (int d = 0; d < x.dim(); ++d)
      inside.offset += std::max<std::int64_t>(a.before[d], 0) * inside.strides[d];
    kernels::copy(stream, geometry::apply(out, inside), x);
  }
  if (recording(x))
    record(out, "pad", {x}, [a, shape = x.shape()](const Tensor& grad, Needs) {
      Tensor g = grad;
      for (int d = 0; d < shape.size(); ++d)
        if (g.shape()[d] != shape[d])
          g = g.narrow(d, std::max<std::int64_t>(a.before[d], 0), shape[d]);
      return g;
    });
  return out;
}

/// Where position `i` of a padded dimension reads in one of size `n`; `i` counts from -before.
std::int64_t source_of(std::int64_t i, std::int64_t n, PadMode mode) {
  switch (mode) {
    case PadMode::reflect:
      return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    case PadMode::circular:
      return i < 0 ? i + n : i >= n ? i - n : i;
    default:
      return std::clamp<std::int64_t>(i, 0, n - 1);
  }
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& amounts, PadMode mode, Scalar value) {
  const Amounts a = parse_amounts(x, amounts);
  if (mode == PadMode::constant) return pad_constant(x, a, value);
  Tensor out = x;
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t n = x.shape()[d];
    if (a.before[d] == 0 && a.after[d] == 0) continue;
    const std::int64_t most = mode == PadMode::reflect    ? n - 1
                              : mode == PadMode::circular ? n
                                                          : INT64_MAX;
    FERRITE_CHECK(n > 0 && std::min(a.before[d], a.after[d]) >= 0 &&
                      std::max(a.before[d], a.after[d]) <= most,
                  ValueError, "pad",
                  "amounts {} and {} do not suit dimension {} of size {}: they must be 0 or more, "
                  "below the size for reflect and at most the size for circular",
                  a.before[d], a.after[d], d, n);
    const Tensor from = empty({a.before[d] + n + a.after[d]}, {.dtype = kInt64});
    std::int64_t* next = from.data<std::int64_t>();
    for (std::int64_t i = -a.before[d]; i < n + a.after[d]; ++i) *next++ = source_of(i, n, mode);
    out = out.index_select(d, from.to(x.device(), non_blocking));
  }
  return out.is_same(x) ? x.clone() : out;
}

// ---- flip, roll

Tensor flip(const Tensor& x, const Dims& dims) {
  FERRITE_CHECK(x.defined(), ValueError, "flip", "the tensor is undefined");
  // Kernels may be given negative strides, which tensors do not have.
  kernels::View backwards = x;
  char* start = static_cast<char*>(backwards.data);
  unsigned seen = 0;
  for (std::int64_t dim : dims) {
    const int d = normalize_dim(dim, x.dim(), "flip");
    FERRITE_CHECK(!(seen >> d & 1u), ValueError, "flip", "dimension {} appears twice in {}", d,
                  dims);
    seen |= 1u << d;
    if (x.dim() == 0 || x.numel() == 0) continue;
    start += (x.shape()[d] - 1) * x.strides()[d] * static_cast<std::int64_t>(x.itemsize());
    backwards.strides[d] = -x.strides()[d];
  }
  backwards.data = start;
  Tensor out = empty_like(x);
  kernels::copy(current_stream(x.device()), out, backwards);
  if (recording(x))
    record(out, "flip", {x}, [dims](const Tensor& grad, Needs) { return flip(grad, dims); });
  return out;
}

namespace {

Tensor roll_one(const Tensor& x, std::int64_t shift, int dim) {
  const std::int64_t n = x.shape()[dim];
  Tensor out = empty_like(x);
  if (n == 0) return out;
  const std::int64_t head = (shift % n + n) % n;  // how much of the end comes first
  const Stream stream = current_stream(x.device());
  const auto part = [dim](const Tensor& t, std::int64_t start, std::int64_t length) {
    return geometry::apply(t, geometry::narrow(t, dim, start, length));
  };
  kernels::copy(stream, part(out, 0, head), part(x, n - head, head));
  kernels::copy(stream, part(out, head, n - head), part(x, 0, n - head));
  return out;
}

}  // namespace

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  FERRITE_CHECK(x.defined(), ValueError, "roll", "the tensor is undefined");
  if (dims.empty()) {
    FERRITE_CHECK(shifts.size() == 1, ValueError, "roll",
                  "expected one shift where no dimensions are given, got {}", shifts);
    return roll(x.reshape({x.numel()}), shifts, {0}).reshape(x.shape());
  }
  FERRITE_CHECK(shifts.size() == dims.size(), ValueError, "roll", "{} shifts for {} dimensions",
                shifts.size(), dims.size());
  FERRITE_CHECK(x.dim() > 0, IndexError, "roll", "a 0-dimensional tensor has no dimension");
  Tensor out = x;
  for (int i = 0; i < dims.size(); ++i)
    out = roll_one(out, shifts[i], normalize_dim(dims[i], x.dim(), "roll"));
  if (recording(x)) {
    Shape back = shifts;
    for (int i = 0; i < dims.size(); ++i)
      back[i] = -(shifts[i] % std::max<std::int64_t>(x.size(static_cast<int>(dims[i])), 1));
    record(out, "roll", {x},
           [back, dims](const Tensor& grad, Needs) { return roll(grad, back, dims); });
  }
  return out;
}

// ---- Triangles

namespace {

Tensor triangle(const Tensor& x, kernels::Triangle part, std::int64_t diagonal, const char* op) {
  FERRITE_CHECK(x.defined(), ValueError, op, "the tensor is undefined");
  FERRITE_CHECK(x.dim() >= 2, ShapeError, op, "expected a tensor of 2 dimensions or more, got {}",
                x.describe());
  const Tensor dense = no_grad([&] { return x.contiguous(); });
  Tensor out = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  kernels::triangle(current_stream(x.device()), out, dense, part, diagonal);
  if (recording(x))
    record(out, op, {x}, [part, diagonal, op](const Tensor& grad, Needs) {
      return triangle(grad, part, diagonal, op);
    });
  return out;
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return triangle(x, kernels::Triangle::lower, diagonal, "tril");
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return triangle(x, kernels::Triangle::upper, diagonal, "triu");
}

}  // namespace ferrite
