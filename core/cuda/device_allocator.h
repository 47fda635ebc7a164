// The caching allocator of a CUDA device.
//
// Memory comes from the driver in segments: 2 MiB for requests of up to 1 MiB, 20 MiB for requests
// of up to 10 MiB, whole multiples of 2 MiB above. Each segment belongs to one stream and is cut
// into blocks of multiples of 512 bytes by best fit; freed blocks merge with their free neighbours.
// These are the sizes that PyTorch's allocator uses.
//
// A private pool keeps its allocations apart: a captured graph goes on using the addresses it was
// captured with, so they must not be reused until the graph is gone.
//
// Under the emulator, blocks are followed by a red zone, and the emulator's detectors are told
// which memory is not handed out. Both change in stream order, so queued work is checked against
// the state at the time it runs.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ferrite/core/allocator.h"
#include "ferrite/core/arena.h"
#include "ferrite/core/cuda/memory_pool.h"

namespace ferrite::cuda::detail {

class DeviceAllocator final : public Allocator {
 public:
  explicit DeviceAllocator(int device);

  Block allocate(std::size_t bytes, const Stream& stream) override;
  void free(const Block& block, std::span<const Stream> also_used_by) noexcept override;
  void empty_cache() override;
  MemoryStats stats() const override;
  void reset_peak_stats() override;
  void set_limit(std::size_t bytes) override;
  void set_poison(bool on) override;
  std::string summary() const override;

  // Private pools; see core/cuda/memory_pool.h.
  PoolId create_pool();
  void begin_pool(PoolId id, StreamFilter filter);
  void end_pool(PoolId id);
  void release_pool(PoolId id) noexcept;
  std::size_t pool_reserved(PoolId id) const;

 private:
  /// The small or the large blocks of one stream in one pool.
  struct StreamArena final {
    StreamArena(const Stream& stream, std::size_t smallest_rest)
        : stream(stream), arena(smallest_rest) {}
    Stream stream;
    ferrite::detail::Arena arena;
  };
  struct Pool {
    PoolId id = 0;
    bool released = false;
    std::map<std::pair<std::uint32_t, bool>, StreamArena> arenas;  // keyed by stream and whether
                                                                   // large
  };
  struct Active {
    PoolId id;
    StreamFilter filter;
  };
  struct Pending {
    ferrite::detail::Chunk* chunk;
    std::vector<std::shared_ptr<ferrite::detail::Mark>> marks;
  };
  struct Deferred {
    ferrite::detail::Chunk* chunk;
    std::vector<Stream> also_used_by;
  };
  using Lock = std::unique_lock<std::mutex>;

  Pool& pool_for(const Stream& stream);
  Pool& pool_of(PoolId id);
  StreamArena& arena_for(const Stream& stream, std::size_t bytes);
  ferrite::detail::Chunk* grow(StreamArena& arena, std::size_t bytes);
  char* acquire(std::size_t bytes);
  void release_segments(Pool& pool);
  void retire(ferrite::detail::Chunk* chunk, std::span<const Stream> also_used_by);
  void recycle(ferrite::detail::Chunk* chunk);
  void reclaim_pending();
  bool captures_underway() const;
  void give_back_cache(Lock& lock);
  [[noreturn]] void fail_out_of_memory(Lock& lock, std::size_t bytes);

  const Device device_;
  mutable std::mutex mutex_;
  std::mutex release_turn_;  // serializes releases of the cache; taken before mutex_
  std::list<Pool> pools_;    // the general one first
  std::vector<Active> active_;
  std::list<Pending> pending_;
  std::vector<Deferred> deferred_;  // freed while a stream that uses them was being captured
  PoolId last_pool_ = 0;
  MemoryStats stats_;
  std::size_t limit_ = SIZE_MAX;
  bool poison_ = false;
};

}  // namespace ferrite::cuda::detail
