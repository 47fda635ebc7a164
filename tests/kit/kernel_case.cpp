#include "ferrite/tests/kit/kernel_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "ferrite/core/stream.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/copy.h"
#include "ferrite/tests/kit/memory.h"

namespace ferrite::kit {

namespace {

#if !defined(FERRITE_KIT_EMULATED)
#error "the build tells the kit whether CUDA devices are emulated"
#endif
/// Whether memory of CUDA devices is host memory.
constexpr bool kHostMemory = FERRITE_KIT_EMULATED != 0;

/// Copies to the host, row-major, converted.
Tensor to_host(const Tensor& t, DType dtype) {
  const Tensor near = t.to(Device("cpu"));
  Tensor out = empty(t.shape(), {.dtype = dtype});
  kernels::copy(Stream(), out, near);
  return out;
}

}  // namespace

kernels::View Side::operator()(const Operand& operand) const {
  if (operand.number < 0) return {};
  return reference_ ? owner_.held(operand).reference : owner_.held(operand).tested;
}

DType Side::dtype(DType dtype) const { return reference_ ? owner_.reference_dtype(dtype) : dtype; }

KernelCase::KernelCase(const Device& device, std::uint64_t seed)
    : device_(device), seed_(seed), random_(seed) {}

const KernelCase::Held& KernelCase::held(const Operand& operand) const {
  FERRITE_CHECK(operand.number >= 0 && operand.number < static_cast<int>(operands_.size()),
                ValueError, "kit", "operand {} is none of the {} of this case", operand.number,
                operands_.size());
  return operands_[static_cast<std::size_t>(operand.number)];
}

DType KernelCase::reference_dtype(DType dtype) const {
  return is_floating(dtype) && !same_dtypes_ ? kFloat64 : dtype;
}

std::int64_t KernelCase::integer(std::int64_t low, std::int64_t high) {
  // Unsigned, because the range may be wider than int64.
  const auto first = static_cast<std::uint64_t>(low);
  return static_cast<std::int64_t>(
      first + random_.next_below(static_cast<std::uint64_t>(high) - first + 1));
}

std::int64_t KernelCase::size(std::int64_t max, std::int64_t min) {
  const std::int64_t special[] = {0, 1, 2, 31, 32, 33, 255, 256, 257, max - 1, max};
  const std::int64_t drawn = coin() ? special[integer(0, 10)] : integer(min, max);
  return std::clamp(drawn, min, max);
}

Shape KernelCase::shape(int max_dims, std::int64_t max_numel) {
  Shape shape;
  const auto ndim = static_cast<int>(integer(0, max_dims));
  std::int64_t left = max_numel;
  for (int d = 0; d < ndim; ++d) {
    shape.push_back(std::min(left, size(std::min<std::int64_t>(left, 300), 1)));
    left /= shape[d];
  }
  if (ndim > 1 && coin()) std::swap(shape[0], shape[ndim - 1]);
  if (ndim > 0 && integer(0, 19) == 0) shape[static_cast<int>(integer(0, ndim - 1))] = 0;
  return shape;
}

Strides KernelCase::draw_strides(const Shape& shape, Layout layout) {
  if (layout == Layout::channels_last && shape.size() == 4)
    return strides_of(shape, MemoryFormat::channels_last);
  std::vector<int> order(static_cast<std::size_t>(shape.size()));  // innermost first
  std::iota(order.rbegin(), order.rend(), 0);
  if (layout == Layout::permuted)
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random_.next_below(i)]);
  Strides strides = Shape::filled(shape.size(), 0);
  std::int64_t step = layout == Layout::gaps && coin() ? integer(2, 3) : 1;
  for (int d : order) {
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
    if (layout == Layout::gaps) step += integer(0, 2);
  }
  if (layout == Layout::expanded)
    for (std::int64_t& stride : strides)
      if (coin()) stride = 0;
  return strides;
}

double KernelCase::special_value(DType dtype) {
  const double smallest = dtype == kFloat16    ? 0x1p-24
                          : dtype == kBFloat16 ? 0x1p-133
                          : dtype == kFloat32  ? 0x1p-149
                                               : 0x1p-1074;
  const double values[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, smallest};
  return values[integer(0, 5)];
}

Tensor KernelCase::values(const Shape& shape, DType dtype, const OperandOptions& options) {
  Tensor values = empty(shape, {.dtype = is_floating(dtype) ? kFloat64 : kInt64});
  const double lowest = dtype == kUInt8 ? std::max(options.low, 0.0) : options.low;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const bool special = options.special > 0 && random_.next_double() < options.special;
    if (is_floating(dtype))
      values.data<double>()[i] =
          special ? special_value(dtype)
                  : options.low + (options.high - options.low) * random_.next_double();
    else if (dtype == kBool)
      values.data<std::int64_t>()[i] = integer(0, 1);
    else if (special)
      values.data<std::int64_t>()[i] = dtype == kUInt8 ? pick<std::int64_t>({0, 255})
                                       : dtype == kInt32
                                           ? pick<std::int64_t>({INT32_MIN, INT32_MAX})
                                           : pick<std::int64_t>({INT64_MIN, INT64_MAX});
    else
      values.data<std::int64_t>()[i] =
          integer(static_cast<std::int64_t>(lowest), static_cast<std::int64_t>(options.high));
  }
  return values;
}

Operand KernelCase::add(Role role, const Shape& shape, DType dtype, const Tensor& values,
                        OperandOptions options) {
  if (options.layout == Layout::any) {
    const auto kinds = static_cast<std::int64_t>(role == Role::input ? 4 : 3);
    constexpr Layout drawn[] = {Layout::contiguous, Layout::channels_last, Layout::permuted,
                                Layout::gaps, Layout::expanded};
    options.layout = drawn[integer(0, kinds)];
  }
  FERRITE_CHECK(role == Role::input || options.layout != Layout::expanded, ValueError, "kit",
                "elements of an output that is expanded overlap");
  if (options.misalignment < 0) options.misalignment = coin() ? 0 : static_cast<int>(integer(0, 7));
  const Strides strides = draw_strides(shape, options.layout);
  const std::int64_t guard = kGuardBytes / static_cast<std::int64_t>(ferrite::itemsize(dtype));
  const std::int64_t first = guard + options.misalignment;
  const Shape flat{first + span_of(shape, strides) + guard};

  Held held;
  held.role = role;
  held.options = options;
  held.before = empty(flat, {.dtype = dtype});
  poison(held.before.data_ptr(), held.before.nbytes(), dtype);
  const Tensor image = geometry::as_strided(held.before, shape, strides, first);
  // Expanded elements are written several times; the last one counts, also for the reference.
  if (values.defined() && values.numel() > 0) kernels::copy(Stream(), image, values);

  held.buffer = empty(flat, {.dtype = dtype, .device = device_});
  held.buffer.copy_(held.before);
  held.tested = geometry::as_strided(held.buffer, shape, strides, first);
  const DType wide = reference_dtype(dtype);
  held.reference = empty_strided(shape, role == Role::output ? contiguous_strides(shape) : strides,
                                 {.dtype = wide});
  if (held.reference.storage()->nbytes() > 0)
    poison(held.reference.storage()->data(), held.reference.storage()->nbytes(), wide);
  if (role != Role::output) kernels::copy(Stream(), held.reference, image);
  operands_.push_back(std::move(held));
  return {static_cast<int>(operands_.size()) - 1};
}

Operand KernelCase::input(const Shape& shape, DType dtype, const OperandOptions& options) {
  return add(Role::input, shape, dtype, values(shape, dtype, options), options);
}
Operand KernelCase::input(const Tensor& values, DType dtype, const OperandOptions& options) {
  return add(Role::input, values.shape(), dtype, values, options);
}
Operand KernelCase::output(const Shape& shape, DType dtype, const OperandOptions& options) {
  return add(Role::output, shape, dtype, {}, options);
}
Operand KernelCase::inout(const Shape& shape, DType dtype, const OperandOptions& options) {
  return add(Role::inout, shape, dtype, values(shape, dtype, options), options);
}
Operand KernelCase::inout(const Tensor& values, DType dtype, const OperandOptions& options) {
  return add(Role::inout, values.shape(), dtype, values, options);
}

Tensor KernelCase::result(const Operand& operand) const {
  const Held& h = held(operand);
  return to_host(h.tested, h.tested.dtype());
}

Tensor KernelCase::expected(const Operand& operand) const {
  const Held& h = held(operand);
  return to_host(h.reference, h.reference.dtype());
}

void KernelCase::run(const Kernel& kernel, const Kernel& reference) {
  for (const Held& h : operands_)
    FERRITE_CHECK(reinterpret_cast<std::uintptr_t>(h.buffer.data_ptr()) % 64 == 0, ValueError,
                  "kit", "memory of {} is not aligned", device_);
  const bool twice = std::getenv("FERRITE_KIT_REPEAT") != nullptr;
  std::vector<Tensor> start;
  if (twice)
    for (const Held& h : operands_) start.push_back(h.buffer.clone());
  run_tested(kernel);
  if (twice) check_repeats(kernel, start);
  (reference ? reference : kernel)(Stream(), Side(*this, true));
  for (const Held& h : operands_) check_surroundings(h);
}

void KernelCase::run_tested(const Kernel& kernel) {
  // Operands were created on the default stream; some cases run on another.
  current_stream(device_).synchronize();
  const bool other = device_.is_cuda() && seed_ % 2 == 1;
  const Stream stream = other ? Stream::create(device_) : current_stream(device_);
  const StreamGuard guard(stream);
  std::vector<Unreadable> guards;
  if (kHostMemory || device_.is_cpu())
    for (const Held& h : operands_) {
      const std::size_t item = h.buffer.itemsize();
      const auto first = static_cast<std::size_t>(h.tested.storage_offset()) * item;
      const auto size =
          static_cast<std::size_t>(span_of(h.tested.shape(), h.tested.strides())) * item;
      const auto* data = static_cast<const char*>(h.buffer.data_ptr());
      guards.emplace_back(data, first);
      guards.emplace_back(data + first + size, h.buffer.nbytes() - first - size);
    }
  if (problems_) set_last_words(running_case());
  kernel(stream, Side(*this, false));
  stream.synchronize();
}

}  // namespace ferrite::kit
