#include "ferrite/core/cuda/device_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/red_zone.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/range.h"

namespace ferrite::cuda::detail {

using ferrite::detail::Chunk;
using ferrite::detail::readable_bytes;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kUnit = 512;  // blocks are multiples of this
constexpr std::size_t kLargestSmall = kMiB;
constexpr std::size_t kSmallSegment = 2 * kMiB;
constexpr std::size_t kMediumSegment = 20 * kMiB;  // for requests of up to half its size
constexpr std::size_t kSegmentUnit = 2 * kMiB;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

constexpr bool is_large(std::size_t bytes) { return bytes > kLargestSmall; }

/// Segment sizes to request from the driver; the second is the fallback if the first fails.
constexpr std::array<std::size_t, 2> segment_sizes(std::size_t bytes) {
  if (!is_large(bytes)) return {kSmallSegment, round_up(bytes, kUnit)};
  const std::size_t least = round_up(bytes, kSegmentUnit);
  return {bytes <= kMediumSegment / 2 ? kMediumSegment : least, least};
}

}  // namespace

DeviceAllocator::DeviceAllocator(int device) : device_(DeviceType::cuda, device) {
  pools_.emplace_back();
}

// ---- Handing out

DeviceAllocator::Pool& DeviceAllocator::pool_of(PoolId id) {
  const auto found = std::ranges::find(pools_, id, &Pool::id);
  FERRITE_CHECK(found != pools_.end() && !found->released, ValueError, "memory_pool",
                "there is no pool {} on {}, or it was released", id, device_);
  return *found;
}

DeviceAllocator::Pool& DeviceAllocator::pool_for(const Stream& stream) {
  for (const Active& active : active_)
    if (active.filter(stream)) return pool_of(active.id);
  return pools_.front();
}

DeviceAllocator::StreamArena& DeviceAllocator::arena_for(const Stream& stream, std::size_t bytes) {
  auto& arenas = pool_for(stream).arenas;
  const std::pair key(stream.id(), is_large(bytes));
  const auto found = arenas.find(key);
  if (found != arenas.end()) return found->second;
  return arenas.try_emplace(key, stream, is_large(bytes) ? kLargestSmall : kUnit).first->second;
}

Allocator::Block DeviceAllocator::allocate(std::size_t bytes, const Stream& stream) {
  FERRITE_CHECK(bytes <= ferrite::detail::kLargestRequest, OutOfMemoryError, "allocate",
                "{} asked for on {}: more than any machine has", readable_bytes(bytes), device_);
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1) + kRedZone, kUnit);
  Lock lock(mutex_);
  if (!pending_.empty() && active_.empty()) reclaim_pending();
  Chunk* chunk = arena_for(stream, size).arena.take(size);
  if (!chunk) chunk = grow(arena_for(stream, size), size);
  if (!chunk) {
    ++stats_.retries;
    give_back_cache(lock);
    StreamArena& arena = arena_for(stream, size);
    chunk = arena.arena.take(size);  // another thread may have freed some in the meantime
    if (!chunk) chunk = grow(arena, size);
    if (!chunk) fail_out_of_memory(lock, bytes);
  }
  ++stats_.allocations;
  stats_.allocated += chunk->bytes;
  stats_.max_allocated = std::max(stats_.max_allocated, stats_.allocated);
  const bool poison = poison_;
  if (profiler::detail::on()) [[unlikely]]
    profiler::detail::note_memory(device_, static_cast<std::int64_t>(chunk->bytes),
                                  stats_.allocated, stats_.reserved);
  lock.unlock();

  allow(stream, chunk->data, bytes);
  if (poison && bytes > 0) {
    const DeviceGuard guard(device_);
    FERRITE_CUDA_CHECK(cudaMemsetAsync(chunk->data, 0xff, bytes, native_stream(stream)));
  }
  return {.data = chunk->data, .bytes = chunk->bytes, .stream = stream.id(), .handle = chunk};
}

Chunk* DeviceAllocator::grow(StreamArena& arena, std::size_t bytes) {
  for (const std::size_t size : segment_sizes(bytes)) {
    char* data = acquire(size);
    if (!data) continue;
    forbid_now(data, size);
    arena.arena.add_segment(data, size);
    return arena.arena.take(bytes);
  }
  return nullptr;
}

char* DeviceAllocator::acquire(std::size_t bytes) {
  if (stats_.reserved > limit_ || bytes > limit_ - stats_.reserved) return nullptr;
  const DeviceGuard guard(device_);
  const CaptureRelaxed relaxed;
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  if (status != cudaSuccess) fail_call(status, "cudaMalloc");
  ++stats_.system_requests;
  stats_.reserved += bytes;
  stats_.max_reserved = std::max(stats_.max_reserved, stats_.reserved);
  return static_cast<char*>(data);
}

void DeviceAllocator::fail_out_of_memory(Lock& lock, std::size_t bytes) {
  std::size_t largest = 0;
  for (const Pool& pool : pools_)
    for (const auto& [key, entry] : pool.arenas)
      largest = std::max(largest, entry.arena.largest_free());
  std::string text = fmt::format(
      "out of memory on {}: {} asked for, {} in use, {} reserved (largest free block {})", device_,
      readable_bytes(bytes), readable_bytes(stats_.allocated), readable_bytes(stats_.reserved),
      readable_bytes(largest));
  if (limit_ != SIZE_MAX) text += fmt::format(", limit {}", readable_bytes(limit_));
  if (captures_underway())
    text += ", the cache cannot be given back while a graph is being captured";
  lock.unlock();
  const MemoryInfo device = memory_info(device_.index());
  ferrite::fail<OutOfMemoryError>("allocate", "{}; the device has {} free of {}", text,
                                  readable_bytes(device.free), readable_bytes(device.total));
}

// ---- Taking back

void DeviceAllocator::free(const Block& block, std::span<const Stream> also_used_by) noexcept {
  auto* chunk = static_cast<Chunk*>(block.handle);
  std::lock_guard lock(mutex_);
  stats_.allocated -= chunk->bytes;
  if (profiler::detail::on()) [[unlikely]]
    profiler::detail::note_memory(device_, -static_cast<std::int64_t>(chunk->bytes),
                                  stats_.allocated, stats_.reserved);
  retire(chunk, also_used_by);
}

void DeviceAllocator::retire(Chunk* chunk, std::span<const Stream> also_used_by) {
  Pending pending{.chunk = chunk, .marks = {}};
  try {
    if (std::ranges::any_of(also_used_by, ferrite::detail::cuda::is_capturing)) {
      deferred_.push_back({chunk, {also_used_by.begin(), also_used_by.end()}});
      return;
    }
    for (const Stream& stream : also_used_by)
      pending.marks.push_back(stream.impl()->record(Timing::none));
  } catch (const CudaError&) {  // the device is lost: no work runs there any more
  }
  if (pending.marks.empty()) return recycle(chunk);
  stats_.pending += chunk->bytes;
  pending_.push_back(std::move(pending));
}

void DeviceAllocator::recycle(Chunk* chunk) {
  // A graph goes on using memory allocated for it, freed or not: only the remainder is forbidden.
  if constexpr (kRedZone > 0)
    for (const auto& [key, entry] : pools_.front().arenas)
      if (&entry.arena == chunk->arena) forbid(entry.stream, chunk->data, chunk->bytes);
  chunk->arena->give_back(chunk);
}

void DeviceAllocator::reclaim_pending() {
  std::erase_if(pending_, [this](Pending& p) {
    if (!std::ranges::all_of(p.marks, [](auto& mark) { return mark->passed(); })) return false;
    stats_.pending -= p.chunk->bytes;
    recycle(p.chunk);
    return true;
  });
}

void DeviceAllocator::release_segments(Pool& pool) {
  const DeviceGuard guard(device_);
  const CaptureRelaxed relaxed;
  for (auto& [key, entry] : pool.arenas)
    for (const auto& segment : entry.arena.remove_free_segments()) {
      allow_now(segment.data, segment.bytes);
      stats_.reserved -= segment.bytes;
      FERRITE_CUDA_CHECK(cudaFree(segment.data));
    }
}

bool DeviceAllocator::captures_underway() const {
  return !active_.empty() ||
         std::ranges::any_of(context(device_.index()).streams(), &CudaStream::is_capturing);
}

void DeviceAllocator::give_back_cache(Lock& lock) {
  // Neither waiting nor cudaFree is possible during a capture.
  if (captures_underway()) return;
  const bool may_wait = !ferrite::detail::on_worker_thread();
  lock.unlock();
  std::unique_lock turn(release_turn_, std::defer_lock);
  if (may_wait) turn.lock();
  std::list<Pending> pending;
  if (may_wait) {
    lock.lock();
    pending.swap(pending_);
    lock.unlock();
    // Unlocked, because the work waited for may itself allocate and free.
    for (const Pending& p : pending)
      for (const auto& mark : p.marks) mark->wait();
  }
  ferrite::detail::cuda::drain(device_.index());
  lock.lock();
  for (const Pending& p : pending) {
    stats_.pending -= p.chunk->bytes;
    recycle(p.chunk);
  }
  if (captures_underway()) return;
  // Blocks freed since the wait may still be in use by queued work; cudaFree waits for that.
  for (Pool& pool : pools_)
    if (pool.id == 0 || pool.released) release_segments(pool);
  std::erase_if(pools_, [](const Pool& pool) {
    return pool.released &&
           std::ranges::all_of(pool.arenas, [](auto& entry) { return entry.second.arena.empty(); });
  });
}

void DeviceAllocator::empty_cache() {
  Lock lock(mutex_);
  give_back_cache(lock);
}

// ---- Private pools

PoolId DeviceAllocator::create_pool() {
  std::lock_guard lock(mutex_);
  pools_.emplace_back().id = ++last_pool_;
  return last_pool_;
}

void DeviceAllocator::begin_pool(PoolId id, StreamFilter filter) {
  std::lock_guard lock(mutex_);
  pool_of(id);
  FERRITE_CHECK(std::ranges::find(active_, id, &Active::id) == active_.end(), ValueError,
                "begin_pool", "pool {} of {} is in use already", id, device_);
  // Reclaim pending blocks now: events cannot be queried while a graph is captured.
  reclaim_pending();
  active_.push_back({id, std::move(filter)});
}

void DeviceAllocator::end_pool(PoolId id) {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(active_, id, &Active::id);
  FERRITE_CHECK(found != active_.end(), ValueError, "end_pool", "pool {} of {} is not in use", id,
                device_);
  active_.erase(found);
  if (!active_.empty()) return;
  for (const Deferred& d : std::exchange(deferred_, {})) retire(d.chunk, d.also_used_by);
}

void DeviceAllocator::release_pool(PoolId id) noexcept {
  Lock lock(mutex_);
  const auto found = std::ranges::find(pools_, id, &Pool::id);
  if (id == 0 || found == pools_.end()) return;
  found->released = true;
  try {
    give_back_cache(lock);
  } catch (const Error&) {  // the device is lost
  }
}

std::size_t DeviceAllocator::pool_reserved(PoolId id) const {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(pools_, id, &Pool::id);
  std::size_t bytes = 0;
  if (found != pools_.end())
    for (const auto& [key, entry] : found->arenas) bytes += entry.arena.reserved();
  return bytes;
}

// ---- Statistics

MemoryStats DeviceAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void DeviceAllocator::reset_peak_stats() {
  std::lock_guard lock(mutex_);
  stats_.max_allocated = stats_.allocated;
  stats_.max_reserved = stats_.reserved;
}

void DeviceAllocator::set_limit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void DeviceAllocator::set_poison(bool on) {
  std::lock_guard lock(mutex_);
  poison_ = on;
}

std::string DeviceAllocator::summary() const {
  const MemoryInfo device = memory_info(device_.index());
  std::lock_guard lock(mutex_);
  std::string text = ferrite::detail::summarise(device_.str(), stats_);
  std::size_t largest = 0, pools = 0;
  for (const Pool& pool : pools_)
    for (const auto& [key, entry] : pool.arenas) {
      largest = std::max(largest, entry.arena.largest_free());
      if (pool.id != 0) pools += entry.arena.reserved();
    }
  return text + fmt::format(
                    "  pending    {:>12}  (freed, in use by other streams)\n"
                    "  free block {:>12}  (the largest in the cache)\n"
                    "  graphs     {:>12}  (reserved by {} private pools)\n"
                    "  device     {:>12}  free of {}\n",
                    readable_bytes(stats_.pending), readable_bytes(largest), readable_bytes(pools),
                    pools_.size() - 1, readable_bytes(device.free), readable_bytes(device.total));
}

// ---- One allocator per device

namespace {

/// Never destroyed: tensors in static variables may outlive every other static.
DeviceAllocator& allocator_of(int device) {
  struct Slots {
    std::array<std::once_flag, Device::kMaxIndex + 1> once;
    std::array<DeviceAllocator*, Device::kMaxIndex + 1> allocators{};
  };
  static Slots& slots = *new Slots;
  const auto slot = static_cast<std::size_t>(device);
  std::call_once(slots.once[slot], [&] { slots.allocators[slot] = new DeviceAllocator(device); });
  return *slots.allocators[slot];
}

DeviceAllocator& allocator_of(const Device& device) {
  FERRITE_CHECK(device.is_cuda(), DeviceError, "memory_pool", "{} has no private pools", device);
  return allocator_of(device.index());
}

}  // namespace

}  // namespace ferrite::cuda::detail

ferrite::Allocator& ferrite::detail::cuda::allocator(int device) {
  return ferrite::cuda::detail::allocator_of(device);
}

namespace ferrite::cuda {

PoolId create_pool(const Device& device) { return detail::allocator_of(device).create_pool(); }
void begin_pool(const Device& device, PoolId pool, StreamFilter filter) {
  detail::allocator_of(device).begin_pool(pool, std::move(filter));
}
void end_pool(const Device& device, PoolId pool) { detail::allocator_of(device).end_pool(pool); }
void release_pool(const Device& device, PoolId pool) noexcept {
  detail::allocator_of(device).release_pool(pool);
}
std::size_t MemoryPool::reserved() const {
  return detail::allocator_of(device_).pool_reserved(id_);
}

}  // namespace ferrite::cuda
