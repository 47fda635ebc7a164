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

class Storage;

namespace detail {
IntrusivePtr<Storage> part_of(const IntrusivePtr<Storage>& whole);  // core/storage_part.h
/// Whether InferenceMode is on in this thread (autograd/grad_mode.h).
inline thread_local bool inference_mode = false;
}  // namespace detail

class Storage final : public RefCounted {
 public:
  /// `bytes` from the device's caching allocator, on its current stream; contents undefined.
  static IntrusivePtr<Storage> allocate(std::size_t bytes, const Device& device);
  /// Page-locked host memory; DeviceError if there is no CUDA device.
  static IntrusivePtr<Storage> allocate_pinned(std::size_t bytes);
  /// Memory owned by the caller. `deleter` runs when the last tensor has released it and the
  /// streams that use the memory have passed that point: the recorded streams and, on a CUDA
  /// device, the current one at that time. If they have not, it runs during a later call that waits
  /// for a stream. An exception of `deleter` is printed and dropped.
  static IntrusivePtr<Storage> wrap(void* data, std::size_t bytes, const Device& device,
                                    std::function<void()> deleter);
  ~Storage();

  /// The first byte.
  void* data() const { return block_.data; }
  std::size_t nbytes() const { return nbytes_; }
  const Device& device() const { return device_; }
  /// Whether it is page-locked.
  bool is_pinned() const;
  /// Whether it was made under InferenceMode: its tensors are inference tensors.
  bool is_inference() const { return is_inference_; }

  /// Tells the allocator that queued work of `stream` uses this memory too.
  void record_stream(const Stream& stream);
  /// Whether a stream other than the one of the allocation was recorded: its queued work may still
  /// read the memory after the last handle is gone.
  bool has_other_streams() const;

  /// Counts in-place changes, so that the tape detects that a saved tensor was overwritten.
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  /// `op` must be a string literal: errors name it.
  void bump_version(const char* op) {
    version_.fetch_add(1, std::memory_order_relaxed);
    last_writer_.store(op, std::memory_order_relaxed);
  }
  /// Raises the version above `other`, so that the two can be told apart.
  void advance_version(std::uint32_t other, const char* op) {
    version_.store(std::max(version(), other) + 1, std::memory_order_relaxed);
    last_writer_.store(op, std::memory_order_relaxed);
  }
  /// After bump_version(): the values were scaled or clipped, but are those of the same backward().
  void count_rescaling() { rescalings_.fetch_add(1, std::memory_order_relaxed); }
  /// version() without the changes that count_rescaling() followed.
  std::uint32_t version_of_values() const {
    return version() - rescalings_.load(std::memory_order_relaxed);
  }
  /// The op that last changed it in place, for errors; "" if none did.
  const char* last_writer() const { return last_writer_.load(std::memory_order_relaxed); }

 private:
  friend IntrusivePtr<Storage> detail::part_of(const IntrusivePtr<Storage>& whole);

  Storage(const Device& device, std::size_t bytes) : nbytes_(bytes), device_(device) {}

  Allocator::Block block_;
  std::size_t nbytes_;
  Device device_;
  bool is_inference_ = detail::inference_mode;
  std::atomic<std::uint32_t> version_{0}, rescalings_{0};
  std::atomic<const char*> last_writer_{""};
  Allocator* allocator_ = nullptr;  // null: wrapped memory
  struct Extra;
  Extra* extra_ = nullptr;  // state that few storages need
};

}  // namespace ferrite
