// Where loaded tensors go, as torch.load's map_location says it.
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

/// A device, a table of devices, or a function from the device a tensor was saved on (its name,
/// since that device need not be here) to the one it is to be on:
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
  /// DeviceError where there is no such device.
  MapLocation(const char* device) : MapLocation(Device(device)) {}
  MapLocation(const std::string& device) : MapLocation(Device(device)) {}
  /// Pairs of saved device and target. Tensors of devices that are not listed go where they were.
  MapLocation(std::initializer_list<std::pair<std::string, std::string>> table);
  template <class F>
  requires std::is_invocable_r_v<Device, const F&, std::string_view> MapLocation(F f)
      : target_(std::move(f)) {}

  /// Every tensor goes where it was saved: torch.load's default.
  static MapLocation as_saved();

  /// Where the tensor `name`, saved on the device called `saved`, is to go; DeviceError, naming the
  /// tensor, where that device is not there.
  Device target(std::string_view name, std::string_view saved) const;

 private:
  std::function<Device(std::string_view)> target_;  // none: the host
};

}  // namespace ferrite::data
