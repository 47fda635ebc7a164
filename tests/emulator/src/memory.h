// Device memory: an address range of its own for each device, so that a pointer tells where it
// belongs; and the host memory that devices can reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "ferrite/emulator/emulator.h"
#include "ferrite/tests/emulator/src/settings.h"

namespace emulator {

constexpr std::uintptr_t kDeviceRange = std::uintptr_t{16} << 30;  // addresses of one device

struct Allocation {
  enum class Kind { device, pinned, registered, managed };
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  int device = 0;  // of a host allocation, the one that was current
  Kind kind = Kind::device;
  bool live = false;
  std::uint64_t serial = 0;
  unsigned flags = 0;
  std::size_t footprint = 0;  // guards and all

  bool contains(std::uintptr_t at, std::size_t n) const {
    return at >= address && at - address <= bytes && n <= bytes - (at - address);
  }
};

/// Start of the address range of device 0; the others follow.
extern std::uintptr_t device_base;

inline bool in_device_range(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) - device_base < kMaxDevices * kDeviceRange;
}

// All of the following under the runtime's lock.

/// Null where the device has not as much left.
void* allocate_device(int device, std::size_t bytes);
void* allocate_host(std::size_t bytes, int device, Allocation::Kind kind, unsigned flags);
bool register_host(void* address, std::size_t bytes, int device, unsigned flags);

/// False for what is not the start of a live allocation.
bool free_device(void* address);
bool free_host(void* address);  // pinned or managed
bool unregister_host(void* address);

/// The allocation whose block `address` lies in, live or freed, or null.
const Allocation* find_device(const void* address);
/// The host allocation that contains `address`, or null.
const Allocation* find_host(const void* address);
/// Whichever of the two; live ones only.
const Allocation* find_live(const void* address);

std::size_t memory_total(int device);
std::size_t live_bytes(int device);
void free_all_of(int device);

/// Whether kernels of device `from` can reach the memory of device `to`.
bool peer_enabled(int from, int to);

/// Device memory may be touched while one of these lives, where settings protect it.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Reports writes behind the ends of live allocations.
void check_all_guards();

// emulator::poison and unpoison under the lock.
void forbid_device(const void* address, std::size_t bytes);
void permit_device(const void* address, std::size_t bytes);

/// Says which allocation an address belongs to, or which is the nearest.
void describe_address(std::FILE* out, const void* address);

}  // namespace emulator
