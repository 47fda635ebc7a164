#include "ferrite/ops/rearrange.h"

#include <algorithm>
#include <iterator>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/index.h"
#include "ferrite/kernels/pad.h"
#include "ferrite/ops/complex_parts.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/promotion.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;

// ---- pad

namespace {

struct Amounts {
  Shape before, after;  // one per dimension
};

Amounts parse_amounts(const Tensor& x, const std::vector<std::int64_t>& amounts) {
  FERRITE_CHECK(x.defined(), ValueError, "pad", "the tensor is undefined");
  FERRITE_CHECK(amounts.size() % 2 == 0, ValueError, "pad",
                "expected pairs of amounts (before, after), got {} amounts", amounts.size());
  FERRITE_CHECK(static_cast<int>(amounts.size() / 2) <= x.dim(), ShapeError, "pad",
                "{} pairs of amounts for the {} dimensions of {}", amounts.size() / 2, x.dim(),
                x.shape());
  Amounts a{Shape::filled(x.dim(), 0), Shape::filled(x.dim(), 0)};
  constexpr std::int64_t kMost = INT64_MAX / 4;  // so that sums of a size and two amounts fit
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

Tensor padded(const Tensor& x, const Amounts& a, PadMode mode, Scalar value) {
  Shape shape = x.shape();
  for (int d = 0; d < x.dim(); ++d) shape[d] += a.before[d] + a.after[d];
  Tensor out =
      empty(shape, {.dtype = x.dtype(),
                    .device = x.device(),
                    .memory_format = shape.size() == 4 ? x.suggest_memory_format() : kContiguous});
  kernels::pad(current_stream(out.device()), out, x, a.before, mode, value);
  return out;
}

/// Removes the padding: a view if nothing was cropped, else padding with negated amounts.
Tensor unpadded(const Tensor& grad, const Amounts& a) {
  const bool crops = std::ranges::any_of(a.before, [](std::int64_t n) { return n < 0; }) ||
                     std::ranges::any_of(a.after, [](std::int64_t n) { return n < 0; });
  if (crops) {
    std::vector<std::int64_t> back;
    for (int d = grad.dim() - 1; d >= 0; --d) {
      back.push_back(-a.before[d]);
      back.push_back(-a.after[d]);
    }
    return pad(grad, back);
  }
  Tensor out = grad;
  for (int d = 0; d < grad.dim(); ++d)
    if (a.before[d] + a.after[d] > 0)
      out = out.narrow(d, a.before[d], grad.shape()[d] - a.before[d] - a.after[d]);
  return out;
}

Tensor pad_constant(const Tensor& x, const Amounts& a, Scalar value) {
  ops::check_storable(value, x.dtype(), "pad");
  Tensor out = padded(x, a, PadMode::constant, value);
  if (recording(x))
    record(out, "pad", {x}, [a](const Tensor& grad, Needs) { return unpadded(grad, a); });
  return out;
}

Tensor pad_with_own(const Tensor& x, const Amounts& a, PadMode mode);

/// The gradient of pad_with_own: for one dimension after the other, adds the elements that read the
/// same one.
Tensor fold(const Tensor& grad, const Amounts& a, PadMode mode) {
  Tensor out = grad;
  for (int d = 0; d < grad.dim(); ++d) {
    if (a.before[d] + a.after[d] == 0) continue;
    Shape shape = out.shape();
    shape[d] -= a.before[d] + a.after[d];
    const Tensor folded = empty(
        shape, {.dtype = grad.dtype(),
                .device = grad.device(),
                .memory_format = shape.size() == 4 ? grad.suggest_memory_format() : kContiguous});
    kernels::pad_backward(current_stream(grad.device()), folded, out, d, a.before[d], mode);
    out = folded;
  }
  if (recording(grad))
    record(out, "pad_backward", {grad},
           [a, mode](const Tensor& g, Needs) { return pad_with_own(g, a, mode); });
  return out;
}

Tensor pad_with_own(const Tensor& x, const Amounts& a, PadMode mode) {
  Tensor out = padded(x, a, mode, 0);
  if (recording(x))
    record(out, "pad", {x}, [a, mode](const Tensor& grad, Needs) { return fold(grad, a, mode); });
  return out;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& amounts, Choice<PadMode> mode,
           Scalar value) {
  if (tracing::on())
    return tracing::op("pad", {x},
                       {{"amounts", amounts}, {"mode", std::string(mode.name())}, {"value", value}},
                       [&] { return pad(x, amounts, mode, value); });
  const profiler::OpRange range("pad", x);
  const Amounts a = parse_amounts(x, amounts);
  if (x.is_complex()) {
    const auto z = value.to<std::complex<double>>();
    if (z != 0.0 && mode == PadMode::constant)
      return complex(pad(real(x), amounts, mode, z.real()), pad(imag(x), amounts, mode, z.imag()));
    std::vector<std::int64_t> parts(2, 0);
    parts.insert(parts.end(), amounts.begin(), amounts.end());
    return ops::by_parts(x, [&](const Tensor& t) { return pad(t, parts, mode); });
  }
  if (mode == PadMode::constant) return pad_constant(x, a, value);
  bool pads = false;
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t n = x.shape()[d];
    if (a.before[d] == 0 && a.after[d] == 0) continue;
    pads = true;
    const std::int64_t most = mode == PadMode::reflect    ? n - 1
                              : mode == PadMode::circular ? n
                                                          : INT64_MAX;
    FERRITE_CHECK(n > 0 && std::min(a.before[d], a.after[d]) >= 0 &&
                      std::max(a.before[d], a.after[d]) <= most,
                  ValueError, "pad",
                  "amounts {} and {} do not suit dimension {} of size {}: they must be 0 or more, "
                  "below the size for reflect and at most the size for circular",
                  a.before[d], a.after[d], d, n);
  }
  return pads ? pad_with_own(x, a, mode) : x.clone();
}

// ---- flip, roll

Tensor flip(const Tensor& x, const Dims& dims) {
  if (tracing::on())
    return tracing::op("flip", {x}, {{"dims", tracing::sizes(dims)}},
                       [&] { return flip(x, dims); });
  const profiler::OpRange range("flip", x);
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

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  if (tracing::on() && !dims.empty())
    return tracing::op("roll", {x},
                       {{"shifts", tracing::sizes(shifts)}, {"dims", tracing::sizes(dims)}},
                       [&] { return roll(x, shifts, dims); });
  const profiler::OpRange range("roll", x);
  FERRITE_CHECK(x.defined(), ValueError, "roll", "the tensor is undefined");
  if (dims.empty()) {
    FERRITE_CHECK(shifts.size() == 1, ValueError, "roll",
                  "expected one shift where no dimensions are given, got {}", shifts);
    return roll(x.reshape({x.numel()}), shifts, {0}).reshape(x.shape());
  }
  FERRITE_CHECK(shifts.size() == dims.size(), ValueError, "roll", "{} shifts for {} dimensions",
                shifts.size(), dims.size());
  FERRITE_CHECK(x.dim() > 0, IndexError, "roll", "a 0-dimensional tensor has no dimension");
  if (x.is_complex()) {
    Dims counted = dims;
    for (std::int64_t& d : counted) d = normalize_dim(d, x.dim(), "roll");
    return ops::by_parts(x, [&](const Tensor& t) { return roll(t, shifts, counted); });
  }
  Shape total = Shape::filled(x.dim(), 0);  // from 0 to size - 1
  for (int i = 0; i < dims.size(); ++i) {
    const int d = normalize_dim(dims[i], x.dim(), "roll");
    const std::int64_t n = std::max<std::int64_t>(x.shape()[d], 1);
    total[d] = (total[d] + (shifts[i] % n + n) % n) % n;
  }
  Tensor out = empty_like(x);
  kernels::pad(current_stream(x.device()), out, x, total, PadMode::circular, 0);
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
  if (tracing::on())
    return tracing::op("tril", {x}, {{"diagonal", diagonal}}, [&] { return tril(x, diagonal); });
  const profiler::OpRange range("tril", x);
  return triangle(x, kernels::Triangle::lower, diagonal, "tril");
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  if (tracing::on())
    return tracing::op("triu", {x}, {{"diagonal", diagonal}}, [&] { return triu(x, diagonal); });
  const profiler::OpRange range("triu", x);
  return triangle(x, kernels::Triangle::upper, diagonal, "triu");
}

}  // namespace ferrite
