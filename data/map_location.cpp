#include "ferrite/data/map_location.h"

#include <map>

#include "ferrite/core/error.h"

namespace ferrite::data {

MapLocation::MapLocation(const Device& device)
    : target_([device](std::string_view) { return device; }) {}

MapLocation::MapLocation(std::initializer_list<std::pair<std::string, std::string>> table)
    : target_([devices = std::map<std::string, std::string, std::less<>>(
                   table.begin(), table.end())](std::string_view saved) {
        const auto found = devices.find(saved);
        return Device(found == devices.end() ? saved : std::string_view(found->second));
      }) {}

MapLocation MapLocation::as_saved() {
  return MapLocation([](std::string_view saved) { return Device(saved); });
}

Device MapLocation::target(std::string_view name, std::string_view saved) const {
  if (!target_) return Device();
  try {
    return target_(saved);
  } catch (const DeviceError& error) {
    fail<DeviceError>("load",
                      "tensor '{}' was saved on {} and cannot go where .map_location sends it: {}. "
                      "Leave .map_location out to have it on the host, or name devices that are "
                      "here: {{{{\"{}\", \"cpu\"}}}}",
                      name, saved, error.what(), saved);
  }
}

}  // namespace ferrite::data
