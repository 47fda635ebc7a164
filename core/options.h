// How a new tensor is made: its type, its device, its layout.
//
//   zeros({2, 3}, {.dtype = kInt64, .device = "cpu:0"})
//   zeros({2, 3}, kInt64)
//   zeros({2, 3}, dtype(kInt64).device("cpu:0"))
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"

namespace ferrite {

/// The order of a 4-dimensional tensor's elements in memory: NCHW or NHWC. `preserve` keeps that of
/// the input.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last, preserve };
/// The elements of a row lie next to each other: NCHW.
inline constexpr MemoryFormat kContiguous = MemoryFormat::contiguous;
/// The channels of a pixel lie next to each other: NHWC.
inline constexpr MemoryFormat kChannelsLast = MemoryFormat::channels_last;

/// The dtype in TensorOptions: a DType, and whether it was given. Functions whose results are not
/// always of the default dtype, such as tensor(), arange() and randint(), choose it if it was not:
/// arange(5, {.device = "cuda"}) is int64, as arange(5) is.
class DTypeOption {
 public:
  DTypeOption() = default;
  DTypeOption(DType dtype) : dtype_(dtype), given_(true) {}
  /// The dtype; the default one if none was given.
  operator DType() const { return dtype_; }
  /// Whether a dtype was given.
  bool given() const { return given_; }
  /// The dtype, or `other` if none was given.
  DType value_or(DType other) const { return given_ ? dtype_ : other; }

 private:
  DType dtype_ = get_default_dtype();
  bool given_ = false;
};

struct TensorOptions {
  DTypeOption dtype = {};  ///< the default dtype, unless given
  Device device = get_default_device();
  MemoryFormat memory_format = kContiguous;
  bool pinned = false;         ///< page-locked memory, host only
  bool requires_grad = false;  ///< floating and complex types; AutogradError for empty()
};

/// The same by methods, where what is not given is left to the function: x.options().dtype(kLong),
/// tensor({1, 2}, device("cpu:0")). Converts to TensorOptions, with their defaults.
class TensorOptionsBuilder {
 public:
  TensorOptionsBuilder() = default;
  TensorOptionsBuilder(const TensorOptions& o)
      : device_(o.device),
        memory_format_(o.memory_format),
        pinned_(o.pinned),
        requires_grad_(o.requires_grad) {
    if (o.dtype.given()) dtype_ = o.dtype;
  }

  TensorOptionsBuilder dtype(DType dtype) const {
    return with(&TensorOptionsBuilder::dtype_, dtype);
  }
  TensorOptionsBuilder device(const Device& device) const {
    return with(&TensorOptionsBuilder::device_, device);
  }
  TensorOptionsBuilder device(DeviceType type, int index) const {
    return device(Device(type, index));
  }
  TensorOptionsBuilder memory_format(MemoryFormat f) const {
    return with(&TensorOptionsBuilder::memory_format_, f);
  }
  TensorOptionsBuilder pinned_memory(bool on = true) const {
    return with(&TensorOptionsBuilder::pinned_, on);
  }
  TensorOptionsBuilder requires_grad(bool on) const {
    return with(&TensorOptionsBuilder::requires_grad_, on);
  }

  DType dtype() const { return over({}).dtype; }
  Device device() const { return over({}).device; }
  bool requires_grad() const { return requires_grad_; }
  /// The options.
  operator TensorOptions() const { return over({}); }
  /// `base` with what is given here.
  TensorOptions over(const TensorOptions& base) const {
    return {.dtype = dtype_ ? DTypeOption(*dtype_) : base.dtype,
            .device = device_.value_or(base.device),
            .memory_format = memory_format_.value_or(base.memory_format),
            .pinned = pinned_ || base.pinned,
            .requires_grad = requires_grad_ || base.requires_grad};
  }

 private:
  template <class Field, class T>
  TensorOptionsBuilder with(Field TensorOptionsBuilder::*field, const T& value) const {
    TensorOptionsBuilder changed = *this;
    changed.*field = value;
    return changed;
  }

  std::optional<DType> dtype_;
  std::optional<Device> device_;
  std::optional<MemoryFormat> memory_format_;
  bool pinned_ = false, requires_grad_ = false;
};

inline TensorOptionsBuilder dtype(DType dtype) { return TensorOptionsBuilder().dtype(dtype); }
inline TensorOptionsBuilder device(const Device& device) {
  return TensorOptionsBuilder().device(device);
}
inline TensorOptionsBuilder device(DeviceType type, int index) {
  return TensorOptionsBuilder().device(type, index);
}
inline TensorOptionsBuilder requires_grad(bool on = true) {
  return TensorOptionsBuilder().requires_grad(on);
}
inline TensorOptionsBuilder pinned_memory(bool on = true) {
  return TensorOptionsBuilder().pinned_memory(on);
}
inline TensorOptionsBuilder memory_format(MemoryFormat format) {
  return TensorOptionsBuilder().memory_format(format);
}

/// One option, or TensorOptionsBuilder, where a function takes TensorOptions. (TensorOptions itself
/// converts from no type: it is an aggregate, for the sake of {.dtype = ...}.)
template <class T>
concept Option = std::same_as<T, TensorOptionsBuilder> || std::same_as<T, DType> ||
    (std::convertible_to<const T&, Device> && !std::same_as<T, std::nullptr_t>);

/// `base` with that option.
template <Option T>
TensorOptions options_of(const T& option, const TensorOptions& base = {}) {
  if constexpr (std::same_as<T, TensorOptionsBuilder>)
    return option.over(base);
  else if constexpr (std::same_as<T, DType>)
    return dtype(option).over(base);
  else
    return device(option).over(base);
}

}  // namespace ferrite

template <>
struct fmt::formatter<ferrite::DTypeOption> : fmt::formatter<ferrite::DType> {};
