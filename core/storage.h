// Storage: the memory behind one or more tensors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "ferrite/core/allocator.h"
#include "ferrite/core/device.h"
#include "ferrite/core/intrusive_ptr.h"

namespace ferrite {

class Storage final : public RefCounted {
 public:
  /// `bytes` from the device's caching allocator, on its current stream; contents undefined.
  static IntrusivePtr<Storage> allocate(std::size_t bytes, const Device& device);
  /// Page-locked memory of the host; DeviceError where there is no CUDA device.
  static IntrusivePtr<Storage> allocate_pinned(std::size_t bytes);
  /// Memory of somebody else. `deleter` runs when the last tensor has let go and the streams that
  /// use the memory have passed that point: those recorded and, on a CUDA device, the one that is
  /// current then. Where that is not yet so, it runs while a later call waits for a stream. What it
  /// throws is printed, and goes no further.
  static IntrusivePtr<Storage> wrap(void* data, std::size_t bytes, const Device& device,
                                    std::function<void()> deleter);
  ~Storage();

  void* data() const { return block_.data; }
  std::size_t nbytes() const { return nbytes_; }
  const Device& device() const { return device_; }
  bool is_pinned() const;

  /// Tells the allocator that queued work of `stream` uses this memory too.
  void record_stream(const Stream& stream);
  /// Whether any was recorded besides the one that it was allocated on: its queued work may still
  /// read what nobody holds any more.
  bool has_other_streams() const;

  /// Counts in-place changes, so that the tape notices when a saved tensor was overwritten.
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  /// `op` must be a string literal: errors name it.
  void bump_version(const char* op) {
    version_.fetch_add(1, std::memory_order_relaxed);
    last_writer_.store(op, std::memory_order_relaxed);
  }
  /// Bumps the version past `other`, so that the two cannot be taken for one another.
  void advance_version(std::uint32_t other, const char* op) {
    version_.store(std::max(version(), other) + 1, std::memory_order_relaxed);
    last_writer_.store(op, std::memory_order_relaxed);
  }
  const char* last_writer() const { return last_writer_.load(std::memory_order_relaxed); }

 private:
  Storage(const Device& device, std::size_t bytes) : nbytes_(bytes), device_(device) {}

  Allocator::Block block_;
  std::size_t nbytes_;
  Device device_;
  std::atomic<std::uint32_t> version_{0};
  std::atomic<const char*> last_writer_{""};
  Allocator* allocator_ = nullptr;  // null: wrapped memory
  struct Extra;
  Extra* extra_ = nullptr;  // what few storages need
};

}  // namespace ferrite
