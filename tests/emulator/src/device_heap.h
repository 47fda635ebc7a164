// The positions of allocations in a device's address range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "ferrite/tests/emulator/src/memory.h"

namespace emulator {

class DeviceHeap {
 public:
  static constexpr std::size_t kGranule = 512;  // cudaMalloc aligns to at least 256
  static constexpr std::size_t kGuard = 64;     // minimum size after each allocation

  void open(std::uintptr_t base, int device);

  Allocation* allocate(std::size_t bytes);
  Allocation* find(std::uintptr_t address);
  void release(Allocation& allocation);

  std::size_t live_bytes() const { return live_bytes_; }
  std::size_t live_count() const { return live_count_; }
  /// The part of the range used so far; nothing beyond it is mapped.
  std::size_t extent() const { return committed_; }
  std::uintptr_t base() const { return base_; }

  template <class F>
  void for_each_live(F f) {
    for (auto& [address, allocation] : allocations_)
      if (allocation.live) f(allocation);
  }

  /// False if something wrote past the end of a live allocation, or into a freed one.
  bool is_intact(const Allocation& allocation) const;

  template <class F>
  void for_each(F f) {
    for (auto& [address, allocation] : allocations_) f(allocation);
  }

 private:
  std::uintptr_t take(std::size_t footprint);
  bool commit(std::uintptr_t end);
  void give_back(std::uintptr_t address, std::size_t footprint);
  void drain_quarantine(std::size_t bytes_left);

  std::uintptr_t base_ = 0, top_ = 0;
  int device_ = 0;
  std::size_t committed_ = 0;
  std::size_t live_bytes_ = 0, live_count_ = 0;
  std::map<std::uintptr_t, Allocation> allocations_;  // live and quarantined
  std::deque<std::uintptr_t> quarantine_;
  std::size_t quarantine_bytes_ = 0;
  std::map<std::uintptr_t, std::size_t> free_by_address_;
  std::set<std::pair<std::size_t, std::uintptr_t>> free_by_size_;
};

/// Reports an allocation that is not intact.
void check_intact(const DeviceHeap& heap, const Allocation& allocation);

}  // namespace emulator
