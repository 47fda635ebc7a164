// Where a tensor is stored: "cpu", "cpu:0".."cpu:63" (virtual devices with a worker thread each,
// see core/stream.h), "cuda:0"...
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace ferrite {

/// The kind of a device.
enum class DeviceType : std::uint8_t { cpu, cuda };
/// The kind of the host and of its virtual devices.
inline constexpr DeviceType kCPU = DeviceType::cpu;
inline constexpr DeviceType kCUDA = DeviceType::cuda;  ///< the kind of GPUs

/// Where tensors are: the host "cpu", a virtual device "cpu:0", or a GPU "cuda:0".
class Device {
 public:
  static constexpr int kMaxIndex = 63;  ///< the highest number of a device

  /// The host.
  constexpr Device() = default;
  /// `index` -1 is the host for cpu, the current device for cuda. DeviceError for a CUDA device
  /// that is not there, also where it would not be used: ask cuda::is_available() first.
  Device(DeviceType type, int index = -1);
  /// Parses "cpu", "cpu:1", "cuda", "cuda:0"; throws DeviceError naming the accepted forms, or as
  /// above.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}

  /// Its kind.
  DeviceType type() const { return type_; }
  /// Its number; -1 for the host.
  int index() const { return index_; }
  /// Whether it is the host, or a virtual device of it.
  bool is_cpu() const { return type_ == DeviceType::cpu; }
  bool is_cuda() const { return type_ == DeviceType::cuda; }
  /// The plain host device, where ops run in the calling thread.
  bool is_host() const { return is_cpu() && index_ < 0; }
  /// "cuda:0".
  std::string str() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  DeviceType type_ = DeviceType::cpu;
  std::int8_t index_ = -1;
};

std::ostream& operator<<(std::ostream& out, const Device& device);

namespace detail {
inline thread_local constinit Device default_device;
}

/// Where this thread's zeros({2}), randn, tensor(...), layers and so on are made if their options
/// name no device: the host until set, as torch.set_default_device. Data sets, loaders and files
/// make their tensors on the host all the same. kCUDA and "cuda" without an index mean the current
/// CUDA device (core/cuda_control.h) whatever the default is.
inline const Device& get_default_device() { return detail::default_device; }
/// Where new tensors are made if no option says otherwise.
inline void set_default_device(const Device& device) { detail::default_device = device; }

/// The default device from here to the end of the scope: `with torch.device(...)`.
class DefaultDeviceScope {
 public:
  explicit DefaultDeviceScope(const Device& device) : before_(get_default_device()) {
    set_default_device(device);
  }
  ~DefaultDeviceScope() { set_default_device(before_); }
  DefaultDeviceScope(const DefaultDeviceScope&) = delete;
  DefaultDeviceScope& operator=(const DefaultDeviceScope&) = delete;

 private:
  const Device before_;
};

namespace cuda {
/// Whether this build has CUDA and a usable device is present. More in core/cuda.h.
bool is_available();
/// How many CUDA devices there are; 0 without a driver.
int device_count();
}  // namespace cuda

}  // namespace ferrite

template <>
struct fmt::formatter<ferrite::Device> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::format_context::iterator format(const ferrite::Device& value,
                                       fmt::format_context& context) const;
};
