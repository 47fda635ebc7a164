#include "tests/kit/kernel_case.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "kernels/copy.h"
#include "tests/support/close.h"

namespace ferrite::kit {

namespace {

constexpr std::int64_t kGuardBytes = 256;  // on either side, and what buffers are aligned to

/// The distance from the first to one past the last element.
std::int64_t span_of(const Shape& shape, const Strides& strides) {
  std::int64_t span = 1;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    span += (shape[d] - 1) * strides[d];
  }
  return span;
}

std::vector<unsigned char> bytes_of(const Tensor& host) {
  std::vector<unsigned char> bytes(host.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), host.data_ptr(), bytes.size());
  return bytes;
}

/// Calls f(offset from the first element) on every element.
template <class F>
void for_each_offset(const Tensor& t, F&& f) {
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int d = t.dim() - 1; d >= 0; --d) {
      offset += rest % t.shape()[d] * t.strides()[d];
      rest /= t.shape()[d];
    }
    f(offset);
  }
}

/// On the host, row-major, converted.
Tensor to_host(const Tensor& t, DType dtype) {
  const Tensor near = t.to(Device("cpu"));
  Tensor out = empty(t.shape(), {.dtype = dtype});
  kernels::copy(Stream(), out, near);
  return out;
}

}  // namespace

std::vector<Device> test_devices() {
  std::vector<Device> devices = {Device("cpu")};
  if (cuda::is_available()) devices.emplace_back("cuda:0");
  return devices;
}

kernels::View Side::operator()(const Operand& operand) const {
  if (operand.number < 0) return {};
  const auto& held = owner_.operands_.at(static_cast<std::size_t>(operand.number));
  return reference_ ? held.reference : held.tested;
}

DType Side::dtype(DType dtype) const { return reference_ ? owner_.reference_dtype(dtype) : dtype; }

KernelCase::KernelCase(const Device& device, std::uint64_t seed)
    : device_(device), seed_(seed), random_(seed) {}

DType KernelCase::reference_dtype(DType dtype) const {
  return is_floating(dtype) && !same_dtypes_ ? kFloat64 : dtype;
}

std::int64_t KernelCase::integer(std::int64_t low, std::int64_t high) {
  return low +
         static_cast<std::int64_t>(random_.next_below(static_cast<std::uint64_t>(high - low + 1)));
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

Tensor KernelCase::values(const Shape& shape, DType dtype, const OperandOptions& options) {
  Tensor values = empty(shape, {.dtype = is_floating(dtype) ? kFloat64 : kInt64});
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    if (is_floating(dtype))
      values.data<double>()[i] = options.low + (options.high - options.low) * random_.next_double();
    else
      values.data<std::int64_t>()[i] =
          dtype == kBool ? integer(0, 1)
                         : integer(static_cast<std::int64_t>(
                                       dtype == kUInt8 ? std::max(options.low, 0.0) : options.low),
                                   static_cast<std::int64_t>(options.high));
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
  if (options.misalignment < 0) options.misalignment = coin() ? 0 : static_cast<int>(integer(0, 7));
  const Strides strides = draw_strides(shape, options.layout);
  const std::int64_t guard = kGuardBytes / static_cast<std::int64_t>(ferrite::itemsize(dtype));
  const std::int64_t first = guard + options.misalignment;
  const Shape flat{first + span_of(shape, strides) + guard};

  Held held;
  held.role = role;
  held.options = options;
  held.before = empty(flat, {.dtype = dtype});
  std::memset(held.before.data_ptr(), 0xff, held.before.nbytes());
  const Tensor image = as_strided(held.before, shape, strides, first);
  const DType wide = reference_dtype(dtype);
  if (values.defined() && values.numel() > 0) {
    // Expanded elements are written several times; the last one counts, for the reference too.
    kernels::copy(Stream(), image, values);
  }
  held.buffer = held.before.to(device_);
  if (held.buffer.storage() == held.before.storage()) {
    held.buffer = empty(flat, {.dtype = dtype});
    std::memcpy(held.buffer.data_ptr(), held.before.data_ptr(), held.before.nbytes());
  }
  held.tested = as_strided(held.buffer, shape, strides, first);
  held.reference = empty_strided(shape, role == Role::output ? contiguous_strides(shape) : strides,
                                 {.dtype = wide});
  if (role == Role::output)
    std::memset(held.reference.data_ptr(), 0xff, held.reference.nbytes());
  else
    kernels::copy(Stream(), held.reference, image);
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

void KernelCase::run(const Kernel& kernel, const Kernel& reference) {
  kernel(current_stream(device_), Side(*this, false));
  current_stream(device_).synchronize();
  (reference ? reference : kernel)(Stream(), Side(*this, true));
  for (std::size_t i = 0; i < operands_.size(); ++i)
    check_surroundings(operands_[i], static_cast<int>(i));
}

void KernelCase::check_surroundings(const Held& held, int number) const {
  std::vector<unsigned char> now = bytes_of(held.buffer.to(Device("cpu")));
  const std::vector<unsigned char> before = bytes_of(held.before);
  const std::size_t item = held.before.itemsize();
  const auto first = static_cast<std::int64_t>(held.tested.storage_offset());
  if (held.role != Role::input)
    for_each_offset(held.tested, [&](std::int64_t offset) {
      const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first + offset) * item);
      std::copy_n(before.begin() + at, item, now.begin() + at);
    });
  const auto [mine, theirs] = std::mismatch(now.begin(), now.end(), before.begin());
  if (mine == now.end()) return;
  const auto at = (mine - now.begin()) / static_cast<std::ptrdiff_t>(item) - first;
  FAIL_CHECK(fmt::format(
      "operand {} was changed {}, {} elements from its first", number,
      held.role == Role::input ? "although it is an input" : "outside of its elements", at));
}

Tensor KernelCase::result(const Operand& operand) const {
  const Held& held = operands_.at(static_cast<std::size_t>(operand.number));
  return to_host(held.tested, held.tested.dtype());
}

Tensor KernelCase::expected(const Operand& operand) const {
  const Held& held = operands_.at(static_cast<std::size_t>(operand.number));
  return to_host(held.reference, held.reference.dtype());
}

void KernelCase::check(const Operand& output, const Tolerance& tolerance) {
  check_values(output, expected(output).to_vector<double>(), tolerance);
}

void KernelCase::check_values(const Operand& output, const std::vector<double>& expected,
                              const Tolerance& tolerance) {
  const Tensor got = result(output);
  double rtol = tolerance.rtol;
  if (rtol < 0) rtol = same_dtypes_ ? 0 : test::rounding_of(got.dtype());
  const std::string text = test::difference(got, expected, rtol, tolerance.atol);
  if (!text.empty()) FAIL_CHECK(fmt::format("operand {}: {}", output.number, text));
}

std::string KernelCase::describe() const {
  constexpr const char* roles[] = {"in", "out", "inout"};
  std::string text = fmt::format("on {}, FERRITE_KIT_SEED={}:", device_, seed_);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Held& held = operands_[i];
    text += fmt::format("\n  operand {}: {} {} {}, strides {}, misaligned by {}", i,
                        roles[static_cast<int>(held.role)], held.tested.dtype(),
                        held.tested.shape(), held.tested.strides(), held.options.misalignment);
  }
  return text;
}

void for_each_case(const char* name, int count, const std::function<void(KernelCase&)>& body) {
  std::uint64_t first = 0;
  if (const char* text = std::getenv("FERRITE_KIT_SEED")) first = std::strtoull(text, nullptr, 10);
  for (const Device& device : test_devices()) {
    for (int i = 0; i < count; ++i) {
      KernelCase c(device, first + static_cast<std::uint64_t>(i));
      INFO(name, " ", c.describe());
      body(c);
    }
  }
}

}  // namespace ferrite::kit
