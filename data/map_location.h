// Target devices of loaded tensors, like map_location of torch.load.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ferrite/core/device.h"

namespace ferrite::data {

/// A device, a table of devices, or a function from the device a tensor was saved on (by name,
/// since that device may not exist here) to its target:
///
///   {.map_location = "cuda:1"}
///   {.map_location = {{"cuda:0", "cuda:1"}, {"cuda:1", "cuda:0"}}}
///   {.map_location = [](std::string_view saved) { return Device("cpu"); }}
///
/// Unlike in PyTorch, the default is the host: a file that was saved on a GPU can be read anywhere,
/// and load_state_dict() takes values from any device.
class MapLocation {
 public:
  MapLocation() = default;
  MapLocation(const Device& device);
  /// DeviceError if there is no such device.
  MapLocation(const char* device) : MapLocation(Device(device)) {}
  MapLocation(const std::string& device) : MapLocation(Device(device)) {}
  /// Pairs of saved device and target. Tensors of devices that are not listed return to theirs.
  MapLocation(std::initializer_list<std::pair<std::string, std::string>> table);
  template <class F>
  requires std::is_invocable_r_v<Device, const F&, std::string_view> MapLocation(F f)
      : target_(std::move(f)) {}

  /// Every tensor goes to the device it was saved on: the default of torch.load.
  static MapLocation as_saved();

  /// The target of the tensor `name`, saved on the device called `saved`; DeviceError, naming the
  /// tensor, if that device does not exist.
  Device target(std::string_view name, std::string_view saved) const;

 private:
  std::function<Device(std::string_view)> target_;  // none: the host
};

}  // namespace ferrite::data
