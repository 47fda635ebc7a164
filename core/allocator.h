// Caching allocators: one per device, ordered by stream, with statistics.
//
// A freed block goes back to the stream it was allocated on and is handed out again only to work on
// that stream, so freeing never waits. A block that other streams used as well is returned once
// those streams have passed the point of the free.
//
// CachingAllocator serves the CPU devices and page-locked memory from lists of size classes;
// core/cuda/device_allocator.h serves CUDA devices from large segments that are split and merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ferrite/core/stream.h"

namespace ferrite {

/// Byte counts of blocks handed out, rounded up to their size class.
struct MemoryStats {
  std::size_t allocated = 0;          ///< in use now
  std::size_t max_allocated = 0;      ///< peak of `allocated` since the last reset
  std::size_t reserved = 0;           ///< held from the system: in use or cached
  std::size_t max_reserved = 0;       ///< the most bytes that were held
  std::size_t pending = 0;            ///< freed, but other streams have not passed the free yet
  std::uint64_t allocations = 0;      ///< requests served
  std::uint64_t system_requests = 0;  ///< requests that went to the system, not the cache
  std::uint64_t retries = 0;          ///< times the cache was released because memory ran out
};

/// Where an allocator's memory comes from.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Null if no memory is left.
  virtual void* acquire(std::size_t bytes) noexcept = 0;
  /// Gives memory back to the driver.
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
};

/// The interface of a device's memory: blocks for work on a stream, with statistics.
class Allocator {
 public:
  /// A piece of memory.
  struct Block {
    void* data = nullptr;   ///< the address of its first byte
    std::size_t bytes = 0;  ///< at least the bytes requested
    std::uint32_t stream = 0;
    void* handle = nullptr;  ///< private to the allocator
  };

  Allocator() = default;
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// At least `bytes`, aligned to 64, for work on `stream`. If the system has no memory left, the
  /// cache is released and the request retried once; then OutOfMemoryError names the bytes
  /// requested, the device and the bytes held.
  virtual Block allocate(std::size_t bytes, const Stream& stream) = 0;
  /// Gives a block back, which work of its stream may still use. `also_used_by`: other streams
  /// whose queued work touches the block.
  virtual void free(const Block& block, std::span<const Stream> also_used_by) noexcept = 0;
  void free(const Block& block) noexcept { free(block, {}); }

  /// Returns every cached block to the system, waiting for streams that still use one. Work on a
  /// worker stream must not wait for queues; called from there, this releases only the host's
  /// blocks.
  virtual void empty_cache() = 0;
  virtual MemoryStats stats() const = 0;
  virtual void reset_peak_stats() = 0;
  /// Requests that would raise `reserved` above `bytes` fail as if memory had run out.
  virtual void set_limit(std::size_t bytes) = 0;
  /// Fills every block handed out with 0xff bytes (NaN in all floating types), for tests.
  virtual void set_poison(bool on) = 0;
  /// A human-readable table of the statistics.
  virtual std::string summary() const = 0;
};

namespace detail {
/// "1.50 MiB".
std::string readable_bytes(std::size_t bytes);
/// The part of summary() that all allocators share.
std::string summarise(std::string_view of, const MemoryStats& stats);
inline constexpr std::size_t kLargestRequest = std::size_t{1} << 50;
}  // namespace detail

/// Keeps freed blocks of a device for the next tensor.
class CachingAllocator final : public Allocator {
 public:
  /// `of`: the label used in messages, such as "cpu:0".
  CachingAllocator(Device device, std::unique_ptr<MemorySource> source, std::string of = {});
  ~CachingAllocator() override;

  using Allocator::free;
  Block allocate(std::size_t bytes, const Stream& stream) override;
  void free(const Block& block, std::span<const Stream> also_used_by) noexcept override;
  /// Gives cached blocks back to the driver.
  void empty_cache() override;
  MemoryStats stats() const override;
  void reset_peak_stats() override;
  void set_limit(std::size_t bytes) override;
  void set_poison(bool on) override;
  std::string summary() const override;

 private:
  struct Pending {
    Block block;
    std::vector<std::shared_ptr<detail::Mark>> marks;
  };
  using FreeList = std::vector<void*>;

  void* take_cached(std::size_t size_class, std::uint32_t stream);
  void* acquire(std::size_t bytes);
  void reclaim_pending();
  /// Unlocks `lock`, which holds mutex_, while it waits: queued work may itself allocate and free.
  void release_cached(std::unique_lock<std::mutex>& lock);
  void cache(const Block& block);
  void retire(const Block& block, std::span<const Stream> also_used_by);

  const Device device_;
  const std::string of_;
  const std::unique_ptr<MemorySource> source_;
  mutable std::mutex mutex_;
  std::mutex release_turn_;  // serializes releases of the cache; taken before mutex_
  std::unordered_map<std::uint32_t, std::vector<FreeList>> cached_;  // indexed by stream, then by
                                                                     // size class
  std::vector<FreeList>* host_lists_;                                // cached_[0], the hot path
  std::list<Pending> pending_;
  MemoryStats stats_;
  std::size_t limit_ = SIZE_MAX;
  bool poison_ = false;
};

/// The allocator of `device`; never destroyed.
Allocator& allocator(const Device& device);
/// The allocator of page-locked host memory, which CUDA devices copy from and to asynchronously.
/// DeviceError if there is no CUDA device.
Allocator& pinned_allocator();

std::size_t memory_allocated(const Device& device);
std::size_t max_memory_allocated(const Device& device);
std::size_t memory_reserved(const Device& device);
void reset_peak_memory_stats(const Device& device);
/// Gives cached blocks back to the driver.
void empty_cache(const Device& device);
/// The allocator's figures as a table.
std::string memory_summary(const Device& device);

}  // namespace ferrite
