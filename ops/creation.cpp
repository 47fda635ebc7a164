#include "ferrite/ops/creation.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/arange.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/transfer.h"

namespace ferrite {

// ---- Constants

Tensor detail::blank(const Shape& shape, TensorOptions options) {
  options.requires_grad = false;
  return empty(shape, options);
}

Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  const profiler::OpRange range("full");
  ops::check_storable(value, options.dtype, "full");
  Tensor out = detail::blank(shape, options);
  kernels::fill(current_stream(out.device()), out, value);
  return detail::with_grad(std::move(out), options);
}
Tensor zeros(const Shape& shape, const TensorOptions& options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, const TensorOptions& options) { return full(shape, 1, options); }

Tensor full_like(const Tensor& like, Scalar value) {
  const profiler::OpRange range("full_like", like);
  FERRITE_CHECK(like.defined(), ValueError, "full_like", "the tensor is undefined");
  ops::check_storable(value, like.dtype(), "full_like");
  Tensor out = empty_like(like);
  kernels::fill(current_stream(out.device()), out, value);
  return out;
}
Tensor zeros_like(const Tensor& like) { return full_like(like, 0); }
Tensor ones_like(const Tensor& like) { return full_like(like, 1); }

const Tensor& Tensor::fill_(Scalar value) const {
  const profiler::OpRange range("fill_", *this);
  FERRITE_CHECK(defined(), ValueError, "fill_", "the tensor is undefined");
  ops::check_storable(value, dtype(), "fill_");
  autograd::check_inplace(*this, "fill_");
  kernels::fill(current_stream(device()), *this, value);
  autograd::changed_inplace(*this, "fill_");
  if (autograd::recording(*this))
    autograd::record_inplace(*this, "fill_", {*this},
                             [](const Tensor&, autograd::Needs) { return Tensor(); });
  return *this;
}
const Tensor& Tensor::zero_() const { return fill_(0); }
const Tensor& Tensor::fill_(const Tensor& value) const {
  FERRITE_CHECK(value.defined() && value.dim() == 0, ShapeError, "fill_",
                "expected a value without dimensions, got {}", value.describe());
  return copy_(value);
}

// ---- Sequences

namespace {

bool all_integers(Scalar a, Scalar b, Scalar c) {
  return !a.is_floating() && !b.is_floating() && !c.is_floating();
}

std::int64_t arange_length(Scalar start, Scalar end, Scalar step) {
  const double a = start.to<double>(), b = end.to<double>(), s = step.to<double>();
  FERRITE_CHECK(s != 0, ValueError, "arange", "step must not be 0");
  FERRITE_CHECK(std::isfinite(a) && std::isfinite(b) && std::isfinite(s), ValueError, "arange",
                "expected finite bounds and step, got {}, {} and {}", a, b, s);
  FERRITE_CHECK(a == b || (s > 0) == (b > a), ValueError, "arange",
                "a step of {} does not lead from {} to {}", s, a, b);
  if (all_integers(start, end, step)) {
    // Unsigned differences do not overflow.
    const auto from = static_cast<std::uint64_t>(start.to<std::int64_t>()),
               to = static_cast<std::uint64_t>(end.to<std::int64_t>()),
               by = static_cast<std::uint64_t>(step.to<std::int64_t>());
    const std::uint64_t distance = s > 0 ? to - from : from - to, stride = s > 0 ? by : 0 - by;
    return static_cast<std::int64_t>(distance / stride + (distance % stride != 0));
  }
  const double length = std::ceil((b - a) / s);
  FERRITE_CHECK(length < 9e18, ValueError, "arange", "{} to {} by {} has too many elements", a, b,
                s);
  return static_cast<std::int64_t>(length);
}

/// Calls fill(a contiguous tensor), then applies the layout of the options.
template <class Fill>
Tensor made(const Shape& shape, const TensorOptions& options, Fill&& fill) {
  Tensor out = empty(shape, {.dtype = options.dtype, .device = options.device});
  fill(current_stream(out.device()), out);
  if (options.memory_format == kChannelsLast) out = out.contiguous(kChannelsLast);
  return detail::with_grad(std::move(out), options);
}

}  // namespace

DType detail::arange_dtype(Scalar start, Scalar end, Scalar step) {
  return all_integers(start, end, step) ? kInt64 : get_default_dtype();
}

Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options) {
  const profiler::OpRange range("arange");
  const std::int64_t length = arange_length(start, end, step);
  const TensorOptions all = detail::or_dtype(options, detail::arange_dtype(start, end, step));
  return made({length}, all, [&](const Stream& stream, const Tensor& out) {
    // As in PyTorch the elements of an integer dtype are sums of integers.
    if (is_integral(out.dtype())) start = start.to<std::int64_t>(), step = step.to<std::int64_t>();
    kernels::arange(stream, out, start, step);
  });
}
Tensor arange(Scalar start, Scalar end, Scalar step) {
  return arange(start, end, step, TensorOptions());
}
Tensor arange(Scalar start, Scalar end, const TensorOptions& options) {
  return arange(start, end, 1, options);
}
Tensor arange(Scalar end) { return arange(0, end); }
Tensor arange(Scalar end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  const profiler::OpRange range("linspace");
  FERRITE_CHECK(steps >= 0, ValueError, "linspace", "expected 0 steps or more, got {}", steps);
  return made({steps}, options, [&](const Stream& stream, const Tensor& out) {
    kernels::linspace(stream, out, start, end);
  });
}

Tensor logspace(double start, double end, std::int64_t steps, double base,
                const TensorOptions& options) {
  const profiler::OpRange range("logspace");
  FERRITE_CHECK(steps >= 0, ValueError, "logspace", "expected 0 steps or more, got {}", steps);
  Tensor out = no_grad([&] {
    const TensorOptions wide{.dtype = kFloat64, .device = options.device};
    return pow(base, linspace(start, end, steps, wide)).to(options.dtype);
  });
  return detail::with_grad(std::move(out), options);
}

Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options) {
  const profiler::OpRange range("eye");
  FERRITE_CHECK(n >= 0 && m >= 0, ValueError, "eye", "expected sizes of 0 or more, got {} and {}",
                n, m);
  TensorOptions plain = options;
  plain.requires_grad = false;
  Tensor out = zeros({n, m}, plain);
  const std::int64_t length = std::min(n, m);
  const Tensor diagonal = geometry::as_strided(out, {length}, {length > 0 ? m + 1 : 1}, 0);
  kernels::fill(current_stream(out.device()), diagonal, 1);
  return detail::with_grad(std::move(out), options);
}
Tensor eye(std::int64_t n, const TensorOptions& options) { return eye(n, n, options); }

// ---- Values from C++

namespace {

/// ValueError unless an integer type holds all of these values. Floating types take any: as in
/// PyTorch, values of a list beyond their range become infinite.
void check_literals(const Tensor& host, DType dtype) {
  if (!is_integral(dtype) || host.dtype() == dtype || host.dtype() == kBool) return;
  if (!host.device().is_host() || host.is_complex() || host.numel() == 0) return;
  dispatch_numeric(host.dtype(), "tensor", [&]<class T>() {
    const std::span<const T> values(host.data<T>(), static_cast<std::size_t>(host.numel()));
    Compute<T> least = values[0], most = values[0];
    for (const Compute<T> v : values) {
      if (std::isnan(static_cast<double>(v))) least = v;  // which min() keeps from then on
      least = std::min(least, v), most = std::max(most, v);
    }
    if constexpr (is_floating_type<T>) most = std::floor(most);  // 255.9 is a uint8, -0.5 is none
    ops::check_storable(least, dtype, "tensor");
    ops::check_storable(most, dtype, "tensor");
  });
}

}  // namespace

Tensor detail::place(const Tensor& host, const TensorOptions& options) {
  Tensor out = host;
  check_literals(host, options.dtype);
  if (host.device() != options.device || host.dtype() != options.dtype) {
    out = empty(host.shape(), {.dtype = options.dtype, .device = options.device});
    ops::transfer(out, host, false, "tensor");
  }
  if (options.memory_format == kChannelsLast) out = out.contiguous(kChannelsLast);
  return with_grad(std::move(out), options);
}

std::int64_t detail::common_length(std::int64_t first, std::int64_t other) {
  FERRITE_CHECK(first == other, ShapeError, "tensor",
                "all rows must have the same length, got {} and {}", first, other);
  return first;
}

DType detail::literal_dtype(Scalar value) {
  switch (value.kind()) {
    case Scalar::Kind::boolean:
      return kBool;
    case Scalar::Kind::integer:
      return kInt64;
    case Scalar::Kind::complex:
      return complex_type(get_default_dtype());
    case Scalar::Kind::floating:
      break;
  }
  return get_default_dtype();
}

Tensor tensor(Scalar value, const TensorOptions& options) {
  const profiler::OpRange range("tensor");
  return full({}, value, detail::or_dtype(options, detail::literal_dtype(value)));
}
Tensor tensor(Scalar value) { return tensor(value, TensorOptions()); }

}  // namespace ferrite
