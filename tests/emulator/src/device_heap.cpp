#include "ferrite/tests/emulator/src/device_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/sanitizer.h"

namespace emulator {

namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every floating-point type
constexpr std::size_t kCommitStep = std::size_t{64} << 20;
// Freed memory is quarantined for a while, so that a use of it can be told from one of its new
// owner.
constexpr std::size_t kQuarantine = std::size_t{64} << 20;
constexpr std::size_t kLarge = std::size_t{8} << 20;
std::uint64_t serial = 0;

unsigned char* bytes_at(std::uintptr_t address) {
  return reinterpret_cast<unsigned char*>(address);
}

}  // namespace

void DeviceHeap::open(std::uintptr_t base, int device) {
  base_ = top_ = base;
  device_ = device;
}

bool DeviceHeap::commit(std::uintptr_t end) {
  const std::size_t needed = end - base_;
  if (needed <= committed_) return true;
  const std::size_t size =
      std::min<std::size_t>((needed + kCommitStep - 1) / kCommitStep * kCommitStep, kDeviceRange);
  if (needed > size) return false;
  if (mprotect(bytes_at(base_ + committed_), size - committed_, PROT_READ | PROT_WRITE) != 0)
    return false;
  forbid(bytes_at(base_ + committed_), size - committed_);
  committed_ = size;
  return true;
}

std::uintptr_t DeviceHeap::take(std::size_t footprint) {
  const auto fit = free_by_size_.lower_bound({footprint, 0});
  if (fit != free_by_size_.end()) {
    const auto [size, address] = *fit;
    free_by_size_.erase(fit);
    free_by_address_.erase(address);
    if (size > footprint) give_back(address + footprint, size - footprint);
    return address;
  }
  if (!commit(top_ + footprint)) return 0;
  const std::uintptr_t address = top_;
  top_ += footprint;
  return address;
}

Allocation* DeviceHeap::allocate(std::size_t bytes) {
  const std::size_t footprint = (bytes + kGuard + kGranule - 1) / kGranule * kGranule;
  std::uintptr_t address = take(footprint);
  if (!address) {
    drain_quarantine(0);
    address = take(footprint);
  }
  if (!address) return nullptr;
  permit(bytes_at(address), footprint);
  std::memset(bytes_at(address + bytes), kPoison, footprint - bytes);
  if (current_settings.poison) std::memset(bytes_at(address), kPoison, bytes);
  forbid(bytes_at(address + bytes), footprint - bytes);
  race_forget(bytes_at(address), footprint);
  Allocation& a = allocations_[address];
  a = {address, bytes, device_, Allocation::Kind::device, true, ++serial, 0, footprint};
  live_bytes_ += bytes;
  ++live_count_;
  return &a;
}

Allocation* DeviceHeap::find(std::uintptr_t address) {
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return nullptr;
  --it;
  return address - it->first < it->second.footprint ? &it->second : nullptr;
}

bool DeviceHeap::is_intact(const Allocation& a) const {
  // Large blocks were returned to the system, and read as zeros.
  const bool whole = !a.live && a.bytes < kLarge && current_settings.poison;
  const unsigned char* const start = bytes_at(whole ? a.address : a.address + a.bytes);
  const unsigned char* const end = bytes_at(a.address + a.footprint);
  return std::all_of(start, end, [](unsigned char byte) { return byte == kPoison; });
}

void DeviceHeap::release(Allocation& a) {
  a.live = false;
  live_bytes_ -= a.bytes;
  --live_count_;
  permit(bytes_at(a.address), a.footprint);
  if (a.bytes >= kLarge)
    madvise(bytes_at((a.address + 4095) & ~std::uintptr_t{4095}), a.bytes - 4096, MADV_DONTNEED);
  else if (current_settings.poison)
    std::memset(bytes_at(a.address), kPoison, a.bytes);
  forbid(bytes_at(a.address), a.footprint);
  quarantine_.push_back(a.address);
  quarantine_bytes_ += a.footprint;
  drain_quarantine(kQuarantine);
}

void DeviceHeap::drain_quarantine(std::size_t bytes_left) {
  while (quarantine_bytes_ > bytes_left) {
    const std::uintptr_t address = quarantine_.front();
    quarantine_.pop_front();
    const Allocation& freed = allocations_[address];
    check_intact(*this, freed);
    const std::size_t footprint = freed.footprint;
    quarantine_bytes_ -= footprint;
    allocations_.erase(address);
    give_back(address, footprint);
  }
}

void DeviceHeap::give_back(std::uintptr_t address, std::size_t footprint) {
  auto next = free_by_address_.lower_bound(address);
  if (next != free_by_address_.end() && next->first == address + footprint) {
    footprint += next->second;
    free_by_size_.erase({next->second, next->first});
    next = free_by_address_.erase(next);
  }
  if (next != free_by_address_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      address = before->first;
      footprint += before->second;
      free_by_size_.erase({before->second, before->first});
      free_by_address_.erase(before);
    }
  }
  free_by_address_[address] = footprint;
  free_by_size_.insert({footprint, address});
}

}  // namespace emulator
