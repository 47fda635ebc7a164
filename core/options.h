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
inline constexpr MemoryFormat kContiguous = MemoryFormat::contiguous;
inline constexpr MemoryFormat kChannelsLast = MemoryFormat::channels_last;

struct TensorOptions {
  DType dtype = get_default_dtype();
  Device device = {};
  MemoryFormat memory_format = kContiguous;
  bool pinned = false;         ///< page-locked memory, host only
  bool requires_grad = false;  ///< floating types only (AutogradError)
};

/// The same by methods, where what is not given is left to the function: x.options().dtype(kLong),
/// tensor({1, 2}, device("cpu:0")). Converts to TensorOptions, with their defaults.
class Options {
 public:
  Options() = default;
  Options(const TensorOptions& o)
      : dtype_(o.dtype),
        device_(o.device),
        memory_format_(o.memory_format),
        pinned_(o.pinned),
        requires_grad_(o.requires_grad) {}

  Options dtype(DType dtype) const { return with(&Options::dtype_, dtype); }
  Options device(const Device& device) const { return with(&Options::device_, device); }
  Options device(DeviceType type, int index) const { return device(Device(type, index)); }
  Options memory_format(MemoryFormat f) const { return with(&Options::memory_format_, f); }
  Options pinned_memory(bool on = true) const { return with(&Options::pinned_, on); }
  Options requires_grad(bool on) const { return with(&Options::requires_grad_, on); }

  DType dtype() const { return over({}).dtype; }
  Device device() const { return over({}).device; }
  bool requires_grad() const { return requires_grad_; }
  operator TensorOptions() const { return over({}); }
  /// `base` with what is given here.
  TensorOptions over(const TensorOptions& base) const {
    return {.dtype = dtype_.value_or(base.dtype),
            .device = device_.value_or(base.device),
            .memory_format = memory_format_.value_or(base.memory_format),
            .pinned = pinned_ || base.pinned,
            .requires_grad = requires_grad_ || base.requires_grad};
  }

 private:
  template <class Field, class T>
  Options with(Field Options::*field, const T& value) const {
    Options changed = *this;
    changed.*field = value;
    return changed;
  }

  std::optional<DType> dtype_;
  std::optional<Device> device_;
  std::optional<MemoryFormat> memory_format_;
  bool pinned_ = false, requires_grad_ = false;
};

inline Options dtype(DType dtype) { return Options().dtype(dtype); }
inline Options device(const Device& device) { return Options().device(device); }
inline Options device(DeviceType type, int index) { return Options().device(type, index); }
inline Options requires_grad(bool on = true) { return Options().requires_grad(on); }
inline Options pinned_memory(bool on = true) { return Options().pinned_memory(on); }
inline Options memory_format(MemoryFormat format) { return Options().memory_format(format); }

/// One option, or Options, where a function takes TensorOptions. (TensorOptions itself converts
/// from no type: it is an aggregate, for the sake of {.dtype = ...}.)
template <class T>
concept Option =
    std::same_as<T, Options> || std::same_as<T, DType> || std::convertible_to<const T&, Device>;

/// `base` with that option.
template <Option T>
TensorOptions options_of(const T& option, const TensorOptions& base = {}) {
  if constexpr (std::same_as<T, Options>)
    return option.over(base);
  else if constexpr (std::same_as<T, DType>)
    return dtype(option).over(base);
  else
    return device(option).over(base);
}

}  // namespace ferrite
