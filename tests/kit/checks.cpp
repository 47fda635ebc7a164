// The checks of a case, and their messages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ferrite/core/dtype.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/kit/memory.h"

namespace ferrite::kit {

namespace {

/// Can represent every float64 and every int64.
using Value = long double;
static_assert(std::numeric_limits<Value>::digits >= 64);

std::vector<unsigned char> bytes_of(const Tensor& host) {
  std::vector<unsigned char> bytes(host.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), host.data_ptr(), bytes.size());
  return bytes;
}

Value value_of(DType dtype, const unsigned char* bytes) {
  return dispatch_all(dtype, "kit", [&]<class T>() -> Value {
    if constexpr (std::is_same_v<T, bool>) {
      return *bytes;  // values other than 0 and 1 must be visible
    } else {
      T value;
      std::memcpy(&value, bytes, sizeof(T));
      return static_cast<Value>(static_cast<Compute<T>>(value));
    }
  });
}

/// The elements of an operand, row-major.
struct Elements {
  std::vector<Value> values;
  /// Whether they are unchanged since before the run. Unknown for one-byte types.
  std::vector<bool> unwritten;
};

/// `base` holds the tensor's first element.
Elements elements_of(const Tensor& t, const unsigned char* base) {
  Elements all;
  const std::size_t item = t.itemsize();
  for_each_offset(t, [&](std::int64_t offset) {
    const unsigned char* at = base + offset * static_cast<std::int64_t>(item);
    all.values.push_back(value_of(t.dtype(), at));
    all.unwritten.push_back(item > 1 && is_poison(at, t.dtype()));
  });
  return all;
}

std::string index_of(std::size_t element, const Shape& shape) {
  std::string text;
  auto rest = static_cast<std::int64_t>(element);
  for (int d = shape.size() - 1; d >= 0; --d) {
    text = fmt::format("{}{}{}", rest % shape[d], text.empty() ? "" : ", ", text);
    rest /= shape[d];
  }
  return "[" + text + "]";
}

/// With enough digits to distinguish values of `dtype`; all NaN are the same.
std::string text_of(Value value, DType dtype) {
  if (std::isnan(value)) return "nan";
  const int digits = dtype == kFloat32 ? 9 : is_floating(dtype) && dtype != kFloat64 ? 5 : 17;
  return fmt::format("{:.{}g}", static_cast<double>(value), digits);
}

struct Limits {
  double rtol, atol, largest;
};

Limits limits_of(DType dtype, const Tolerance& tolerance, bool same_dtypes) {
  struct Format {
    double rounding, smallest, largest;
  };
  const Format format = dtype == kFloat64   ? Format{1e-12, 0x1p-1074, 0x1.fffffffffffffp+1023}
                        : dtype == kFloat32 ? Format{1e-5, 0x1p-149, 0x1.fffffep+127}
                        : dtype == kFloat16 ? Format{1e-3, 0x1p-24, 65504}
                        : dtype == kBFloat16
                            ? Format{8e-3, 0x1p-133, 0x1.fep+127}
                            : Format{0, 0, std::numeric_limits<double>::infinity()};
  if (tolerance.rtol >= 0) return {tolerance.rtol, tolerance.atol, format.largest};
  if (same_dtypes) return {0, tolerance.atol, format.largest};
  return {format.rounding, std::max(tolerance.atol, format.smallest), format.largest};
}

/// The error of `got`; 0 if it is within the limits, infinity if it cannot be expressed as a
/// number.
Value error_of(Value got, Value expected, const Limits& limits) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const Value error = std::abs(got - expected);
  const Value allowed = limits.atol + limits.rtol * std::abs(expected);
  if (std::isfinite(error)) return error <= allowed ? 0 : error;
  if (std::isinf(got) && std::isfinite(expected) && (got > 0) == (expected > 0) &&
      std::abs(expected) + allowed >= limits.largest)
    return 0;
  return std::numeric_limits<Value>::infinity();
}

const char* role_name(int role) {
  constexpr const char* names[] = {"in", "out", "inout"};
  return names[role];
}

}  // namespace

void KernelCase::fail(const std::string& problem) const {
  if (!problems_) throw Failure(problem + "\n" + describe());
  problems_->push_back(problem);
}

void KernelCase::check_surroundings(const Held& held) const {
  const std::vector<unsigned char> now = bytes_of(held.buffer.to(Device("cpu")));
  const std::vector<unsigned char> before = bytes_of(held.before);
  const std::size_t item = held.before.itemsize();
  const auto first = static_cast<std::size_t>(held.tested.storage_offset());

  std::vector<std::int64_t> element(now.size() / item, -1);  // its position, row-major
  std::int64_t count = 0;
  for_each_offset(held.tested, [&](std::int64_t offset) {
    element[first + static_cast<std::size_t>(offset)] = count++;
  });
  std::size_t changed = 0, worst = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (held.role != Role::input && element[i] >= 0) continue;
    if (std::memcmp(&now[i * item], &before[i * item], item) == 0) continue;
    if (changed++ == 0) worst = i;
  }
  if (changed == 0) return;

  const auto span = static_cast<std::size_t>(span_of(held.tested.shape(), held.tested.strides()));
  std::string where;
  if (worst < first)
    where = fmt::format("{} before its first element", first - worst);
  else if (worst >= first + span)
    where = fmt::format("{} past its last element", worst - first - span + 1);
  else if (element[worst] < 0)
    where = fmt::format("in a gap, {} from its first element", worst - first);
  else
    where = fmt::format("at {}",
                        index_of(static_cast<std::size_t>(element[worst]), held.tested.shape()));
  const DType dtype = held.tested.dtype();
  fail(fmt::format("{} was changed {}: {} places, the first {}, from {} to {}", describe(held),
                   element[worst] >= 0 ? "although it is an input" : "outside of its elements",
                   changed, where, text_of(value_of(dtype, &before[worst * item]), dtype),
                   text_of(value_of(dtype, &now[worst * item]), dtype)));
}

void KernelCase::check_repeats(const Kernel& kernel, const std::vector<Tensor>& start) {
  std::vector<std::vector<unsigned char>> once;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    once.push_back(bytes_of(operands_[i].buffer.to(Device("cpu"))));
    operands_[i].buffer.copy_(start[i]);
  }
  run_tested(kernel);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Held& held = operands_[i];
    const std::vector<unsigned char> again = bytes_of(held.buffer.to(Device("cpu")));
    const std::size_t item = held.buffer.itemsize();
    const auto base = static_cast<std::size_t>(held.tested.storage_offset()) * item;
    std::size_t element = 0, differ = 0, worst = 0;
    for_each_offset(held.tested, [&](std::int64_t offset) {
      const std::size_t at = base + static_cast<std::size_t>(offset) * item;
      if (std::memcmp(&once[i][at], &again[at], item) != 0 && differ++ == 0) worst = element;
      ++element;
    });
    if (differ > 0)
      fail(fmt::format(
          "{}: {} of {} elements have other bits when the kernel runs again, the first {}",
          describe(held), differ, element, index_of(worst, held.tested.shape())));
  }
}

void KernelCase::check(const Operand& output, const Tolerance& tolerance) {
  const Held& h = held(output);
  const Elements expected =
      elements_of(h.reference, static_cast<const unsigned char*>(h.reference.data_ptr()));
  compare(output, expected.values, expected.unwritten, tolerance);
}

void KernelCase::check_values(const Operand& output, const std::vector<double>& expected,
                              const Tolerance& tolerance) {
  const std::vector<Value> wide(expected.begin(), expected.end());
  // An element that must not be written is expected to be NaN.
  std::vector<bool> unwritten;
  for (double value : expected) unwritten.push_back(std::isnan(value));
  compare(output, wide, unwritten, tolerance);
}

void KernelCase::compare(const Operand& output, const std::vector<long double>& expected,
                         const std::vector<bool>& expected_unwritten,
                         const Tolerance& tolerance) const {
  const Held& h = held(output);
  const Tensor host = h.buffer.to(Device("cpu"));
  const DType dtype = h.tested.dtype();
  const Elements got = elements_of(
      h.tested, static_cast<const unsigned char*>(host.data_ptr()) +
                    static_cast<std::size_t>(h.tested.storage_offset()) * host.itemsize());
  if (got.values.size() != expected.size())
    return fail(fmt::format("{}: {} values are expected", describe(h), expected.size()));

  const Limits limits = limits_of(dtype, tolerance, same_dtypes_);
  std::size_t bad = 0, unwritten = 0, first = 0, worst = 0, last = 0;
  Value largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool forgotten = got.unwritten[i] && !expected_unwritten[i];
    const Value error = forgotten ? std::numeric_limits<Value>::infinity()
                                  : error_of(got.values[i], expected[i], limits);
    if (error == 0) continue;
    if (bad++ == 0) first = i;
    if (forgotten) ++unwritten;
    if (error > largest) largest = error, worst = i;
    last = i;
  }
  if (bad == 0) return;

  std::string text = fmt::format("{}: {} of {} elements differ by more than rtol {} and atol {}",
                                 describe(h), bad, expected.size(), limits.rtol, limits.atol);
  if (unwritten > 0) text += fmt::format("; {} were never written", unwritten);
  const auto line = [&](const char* what, std::size_t i) {
    text += fmt::format("\n    {} {} got {}, expected {}, off by {:.3g}", what,
                        index_of(i, h.tested.shape()), text_of(got.values[i], dtype),
                        text_of(expected[i], h.reference.dtype()),
                        static_cast<double>(std::abs(got.values[i] - expected[i])));
    if (got.unwritten[i] && !expected_unwritten[i]) text += " (never written)";
    if (dtype == kBool && got.values[i] > 1) text += " (no bool)";
  };
  line("first", first);
  if (worst != first) line("worst", worst);
  if (last != first && last != worst) line("last ", last);
  fail(text);
}

std::string KernelCase::describe(const Held& held) const {
  return fmt::format("operand {} ({} {} {})", &held - operands_.data(),
                     role_name(static_cast<int>(held.role)), held.tested.dtype(),
                     held.tested.shape());
}

std::string KernelCase::describe() const {
  std::string text = fmt::format("on {}, FERRITE_KIT_SEED={}:", device_, seed_);
  for (const Held& h : operands_)
    text += fmt::format("\n  {}, strides {}, misaligned by {}", describe(h), h.tested.strides(),
                        h.options.misalignment);
  return text;
}

}  // namespace ferrite::kit
