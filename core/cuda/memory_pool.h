// Private memory pools of CUDA devices, for graphs: memory allocated while a stream is captured
// belongs to the graph, and is not reused elsewhere until the pool is released.
//
//   cuda::MemoryPool pool(device);
//   {
//     cuda::PoolGuard use(pool, [&](const Stream& s) { return s == stream; });
//     cudaStreamBeginCapture(...); ... cudaStreamEndCapture(...);
//   }                  // freed blocks of the pool go back to the pool
//   replays...         // the pool must outlive them
//
// Create the guard before the capture begins and destroy it after the capture has ended. Graphs
// that share a pool must be replayed one at a time, because they share memory.
#pragma once

#include <cstdint>
#include <functional>

#include "ferrite/core/stream.h"

namespace ferrite::cuda {

using PoolId = std::uint64_t;
/// Selects the streams whose allocations go to a pool. Called within an allocation, so it must not
/// itself allocate there.
using StreamFilter = std::function<bool(const Stream&)>;

PoolId create_pool(const Device& device);
/// From here to end_pool(), allocations on any thread for streams of `device` that `filter` accepts
/// come from the pool.
void begin_pool(const Device& device, PoolId pool, StreamFilter filter);
void end_pool(const Device& device, PoolId pool);
/// Returns the pool's memory to the device after the work queued so far; blocks still in use follow
/// when they are freed and the cache is released.
void release_pool(const Device& device, PoolId pool) noexcept;

/// Owns a pool.
class MemoryPool {
 public:
  explicit MemoryPool(const Device& device) : device_(device), id_(create_pool(device)) {}
  ~MemoryPool() { release_pool(device_, id_); }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  const Device& device() const { return device_; }
  PoolId id() const { return id_; }
  /// Bytes the pool holds from the device.
  std::size_t reserved() const;

 private:
  Device device_;
  PoolId id_;
};

/// Uses a pool until the end of the scope.
class PoolGuard {
 public:
  PoolGuard(const MemoryPool& pool, StreamFilter filter) : pool_(pool) {
    begin_pool(pool.device(), pool.id(), std::move(filter));
  }
  ~PoolGuard() { end_pool(pool_.device(), pool_.id()); }
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;

 private:
  const MemoryPool& pool_;
};

}  // namespace ferrite::cuda
