// Device memory: a separate address range for each device, so that a pointer identifies its device;
// and the host memory that devices can access.
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
  int device = 0;  // for a host allocation, the current device at that time
  Kind kind = Kind::device;
  bool live = false;
  std::uint64_t serial = 0;
  unsigned flags = 0;
  std::size_t footprint = 0;  // including guards

  bool contains(std::uintptr_t at, std::size_t n) const {
    return at >= address && at - address <= bytes && n <= bytes - (at - address);
  }
};

/// Start of the address range of device 0; the others follow.
extern std::uintptr_t device_base;

inline bool in_device_range(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) - device_base < kMaxDevices * kDeviceRange;
}

// The following require the runtime's lock.

/// Null if the device has not enough left.
void* allocate_device(int device, std::size_t bytes);
void* allocate_host(std::size_t bytes, int device, Allocation::Kind kind, unsigned flags);
bool register_host(void* address, std::size_t bytes, int device, unsigned flags);

/// False if `address` is not the start of a live allocation.
bool free_device(void* address);
bool free_host(void* address);  // pinned or managed
bool unregister_host(void* address);

/// The allocation whose block contains `address`, live or freed, or null.
const Allocation* find_device(const void* address);
/// The host allocation that contains `address`, or null.
const Allocation* find_host(const void* address);
/// Either of the two; live ones only.
const Allocation* find_live(const void* address);

std::size_t memory_total(int device);
std::size_t live_bytes(int device);
void free_all_of(int device);

/// Whether kernels of device `from` can reach the memory of device `to`.
bool peer_enabled(int from, int to);

/// Device memory may be accessed while one of these lives, if settings protect it.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Reports writes past the ends of live allocations.
void check_all_guards();

// emulator::poison and unpoison, with the lock held.
void forbid_device(const void* address, std::size_t bytes);
void permit_device(const void* address, std::size_t bytes);

/// Prints the allocation an address belongs to, or the nearest one.
void describe_address(std::FILE* out, const void* address);

}  // namespace emulator
