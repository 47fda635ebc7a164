#include "ferrite/tests/emulator/src/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "ferrite/tests/emulator/src/device_heap.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/runtime.h"
#include "ferrite/tests/emulator/src/sanitizer.h"

namespace emulator {

std::uintptr_t device_base = 0;

namespace {

struct Memory {
  DeviceHeap heaps[kMaxDevices];
  std::size_t total[kMaxDevices];
  std::map<std::uintptr_t, Allocation> host;
  int accesses = 0;  // DeviceAccess objects alive

  Memory() {
    constexpr std::size_t kAll = kMaxDevices * kDeviceRange;
    void* const range = mmap(nullptr, kAll + kDeviceRange, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
      std::perror("emulator: no address range for device memory");
      std::abort();
    }
    device_base = (reinterpret_cast<std::uintptr_t>(range) + 4095) & ~std::uintptr_t{4095};
    for (int d = 0; d < kMaxDevices; ++d) {
      heaps[d].open(device_base + static_cast<std::uintptr_t>(d) * kDeviceRange, d);
      total[d] = current_settings.memory;
    }
  }
};

/// Never destroyed: other code's statics are freed later.
Memory& memory() {
  static Memory& the = *new Memory;
  return the;
}
[[maybe_unused]] const bool opened = (memory(), true);

void protect_all(int protection) {
  for (DeviceHeap& heap : memory().heaps)
    if (heap.extent()) mprotect(reinterpret_cast<void*>(heap.base()), heap.extent(), protection);
}

DeviceHeap& heap_of(const void* address) {
  return memory().heaps[(reinterpret_cast<std::uintptr_t>(address) - device_base) / kDeviceRange];
}

}  // namespace

void check_intact(const DeviceHeap& heap, const Allocation& a) {
  if (heap.is_intact(a)) return;
  std::fprintf(stderr, "emulator: something wrote %s allocation #%llu of %zu bytes on device %d\n",
               a.live ? "behind the end of" : "into the freed",
               static_cast<unsigned long long>(a.serial), a.bytes, a.device);
  count_finding();
}

DeviceAccess::DeviceAccess() {
  if (current_settings.protect && memory().accesses++ == 0) protect_all(PROT_READ | PROT_WRITE);
}
DeviceAccess::~DeviceAccess() {
  if (current_settings.protect && --memory().accesses == 0) {
    protect_all(PROT_NONE);
    explain_faults();
  }
}

void* allocate_device(int device, std::size_t bytes) {
  Memory& m = memory();
  DeviceHeap& heap = m.heaps[device];
  if (bytes > m.total[device] || heap.live_bytes() > m.total[device] - bytes) return nullptr;
  const DeviceAccess access;
  const Allocation* const a = heap.allocate(bytes);
  return a ? reinterpret_cast<void*>(a->address) : nullptr;
}

bool free_device(void* address) {
  if (!in_device_range(address)) return false;
  DeviceHeap& heap = heap_of(address);
  Allocation* const a = heap.find(reinterpret_cast<std::uintptr_t>(address));
  if (!a || !a->live || a->address != reinterpret_cast<std::uintptr_t>(address)) return false;
  const DeviceAccess access;
  check_intact(heap, *a);
  heap.release(*a);
  return true;
}

void free_all_of(int device) {
  DeviceHeap& heap = memory().heaps[device];
  const DeviceAccess access;
  heap.for_each_live([&](Allocation& a) { free_device(reinterpret_cast<void*>(a.address)); });
}

void* allocate_host(std::size_t bytes, int device, Allocation::Kind kind, unsigned flags) {
  void* p = nullptr;
  if (posix_memalign(&p, 512, bytes ? bytes : 1) != 0) return nullptr;
  if (current_settings.poison) std::memset(p, 0xff, bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  memory().host[address] = {address, bytes, device, kind, true, 0, flags, bytes};
  return p;
}

bool free_host(void* address) {
  auto& host = memory().host;
  const auto it = host.find(reinterpret_cast<std::uintptr_t>(address));
  if (it == host.end() || it->second.kind == Allocation::Kind::registered) return false;
  host.erase(it);
  std::free(address);
  return true;
}

bool register_host(void* address, std::size_t bytes, int device, unsigned flags) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  for (const auto& [begin, a] : memory().host)
    if (start < begin + a.bytes && begin < start + bytes) return false;
  memory().host[start] = {start, bytes, device, Allocation::Kind::registered,
                          true,  0,     flags,  bytes};
  return true;
}

bool unregister_host(void* address) {
  auto& host = memory().host;
  const auto it = host.find(reinterpret_cast<std::uintptr_t>(address));
  if (it == host.end() || it->second.kind != Allocation::Kind::registered) return false;
  host.erase(it);
  return true;
}

const Allocation* find_device(const void* address) {
  if (!in_device_range(address)) return nullptr;
  return heap_of(address).find(reinterpret_cast<std::uintptr_t>(address));
}

const Allocation* find_host(const void* address) {
  auto& host = memory().host;
  auto it = host.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  if (it == host.begin()) return nullptr;
  --it;
  return it->second.contains(reinterpret_cast<std::uintptr_t>(address), 0) ? &it->second : nullptr;
}

const Allocation* find_live(const void* address) {
  const Allocation* const a = in_device_range(address) ? find_device(address) : find_host(address);
  return a && a->live && a->contains(reinterpret_cast<std::uintptr_t>(address), 0) ? a : nullptr;
}

std::size_t memory_total(int device) { return memory().total[device]; }

std::size_t live_bytes(int device) { return memory().heaps[device].live_bytes(); }

void set_memory(int device, std::size_t bytes) {
  const Lock lock;
  memory().total[device] = bytes;
}

LiveMemory live_memory(int device) {
  const Lock lock;
  const DeviceHeap& heap = memory().heaps[device];
  return {heap.live_count(), heap.live_bytes()};
}

void forbid_device(const void* address, std::size_t bytes) {
  if (in_device_range(address)) forbid(address, bytes);
}
void permit_device(const void* address, std::size_t bytes) {
  if (!in_device_range(address)) return;
  permit(address, bytes);
  const DeviceAccess access;
  if (current_settings.poison) std::memset(const_cast<void*>(address), 0xff, bytes);
}

void poison(const void* address, std::size_t bytes) {
  const Lock lock;
  forbid_device(address, bytes);
}
void unpoison(const void* address, std::size_t bytes) {
  const Lock lock;
  permit_device(address, bytes);
}

void check_all_guards() {
  const DeviceAccess access;
  for (DeviceHeap& heap : memory().heaps)
    heap.for_each([&](const Allocation& a) { check_intact(heap, a); });
}

void describe_address(std::FILE* out, const void* address) {
  if (!in_device_range(address)) return;
  const Allocation* const a = find_device(address);
  if (!a) {
    std::fprintf(out, "emulator: %p is in the address range of device %zu, in no allocation\n",
                 address, (reinterpret_cast<std::uintptr_t>(address) - device_base) / kDeviceRange);
    return;
  }
  std::fprintf(out, "emulator: %p is at byte %zu of %sallocation #%llu of %zu bytes on device %d\n",
               address, reinterpret_cast<std::uintptr_t>(address) - a->address,
               a->live ? "" : "the freed ", static_cast<unsigned long long>(a->serial), a->bytes,
               a->device);
}

}  // namespace emulator
