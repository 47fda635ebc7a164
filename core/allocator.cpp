#include "ferrite/core/allocator.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/range.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace ferrite {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Size classes: multiples of 64 up to 512, then eight per power of two, so at most an eighth is
// lost.
constexpr std::size_t kLinearClasses = 8;

std::size_t class_of(std::size_t bytes) {
  if (bytes <= kLinearClasses * kAlignment) return bytes == 0 ? 0 : (bytes - 1) / kAlignment;
  const int log2 = std::bit_width(bytes - 1) - 1;  // 2^log2 <= bytes - 1
  return kLinearClasses + static_cast<std::size_t>(log2 - 9) * 8 +
         (((bytes - 1) >> (log2 - 3)) & 7);
}

std::size_t class_bytes(std::size_t size_class) {
  if (size_class < kLinearClasses) return (size_class + 1) * kAlignment;
  const std::size_t k = size_class - kLinearClasses;
  return (8 + k % 8 + 1) << (9 + k / 8 - 3);
}

/// Page-locked memory is counted separately from ordinary host memory.
bool is_cpu_device(std::string_view of) { return of.starts_with("cpu"); }

class HostMemory final : public MemorySource {
 public:
  void* acquire(std::size_t bytes) noexcept override {
    const bool huge = bytes >= 2 * kHugePage;
    void* data = std::aligned_alloc(huge ? kHugePage : kAlignment,
                                    huge ? (bytes + kHugePage - 1) / kHugePage * kHugePage : bytes);
    if (data && huge) madvise(data, bytes, MADV_HUGEPAGE);
    return data;
  }
  void release(void* data, std::size_t) noexcept override { std::free(data); }
};

}  // namespace

std::string detail::readable_bytes(std::size_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

std::string detail::summarise(std::string_view of, const MemoryStats& s) {
  return fmt::format(
      "memory of {}\n"
      "  allocated  {:>12}  (peak {})\n"
      "  reserved   {:>12}  (peak {})\n"
      "  requests   {:>12}  ({} from the system, {} retried after giving back the cache)\n",
      of, readable_bytes(s.allocated), readable_bytes(s.max_allocated), readable_bytes(s.reserved),
      readable_bytes(s.max_reserved), s.allocations, s.system_requests, s.retries);
}

using detail::readable_bytes;

CachingAllocator::CachingAllocator(Device device, std::unique_ptr<MemorySource> source,
                                   std::string of)
    : device_(device),
      of_(of.empty() ? device.str() : std::move(of)),
      source_(std::move(source)),
      host_lists_(&cached_[0]) {}

CachingAllocator::~CachingAllocator() { empty_cache(); }

void* CachingAllocator::take_cached(std::size_t size_class, std::uint32_t stream) {
  std::vector<FreeList>& lists = stream == 0 ? *host_lists_ : cached_[stream];
  if (size_class >= lists.size() || lists[size_class].empty()) return nullptr;
  void* data = lists[size_class].back();
  lists[size_class].pop_back();
  return data;
}

Allocator::Block CachingAllocator::allocate(std::size_t bytes, const Stream& stream) {
  FERRITE_CHECK(bytes <= detail::kLargestRequest, OutOfMemoryError, "allocate",
                "{} asked for on {}: more than any machine has", readable_bytes(bytes), of_);
  const std::size_t size_class = class_of(bytes);
  Block block{.bytes = class_bytes(size_class), .stream = stream.id()};
  std::unique_lock lock(mutex_);
  if (!pending_.empty()) reclaim_pending();
  block.data = take_cached(size_class, block.stream);
  if (!block.data) {
    block.data = acquire(block.bytes);
    if (!block.data) {
      ++stats_.retries;
      release_cached(lock);
      block.data = acquire(block.bytes);
    }
    FERRITE_CHECK(block.data, OutOfMemoryError, "allocate",
                  "out of memory on {}: {} asked for, {} in use, {} reserved{}", of_,
                  readable_bytes(bytes), readable_bytes(stats_.allocated),
                  readable_bytes(stats_.reserved),
                  limit_ == SIZE_MAX ? "" : fmt::format(", limit {}", readable_bytes(limit_)));
  }
  ++stats_.allocations;
  stats_.allocated += block.bytes;
  stats_.max_allocated = std::max(stats_.max_allocated, stats_.allocated);
  const bool poison = poison_;
  if (profiler::detail::on() && is_cpu_device(of_)) [[unlikely]]
    profiler::detail::note_memory(device_, static_cast<std::int64_t>(block.bytes), stats_.allocated,
                                  stats_.reserved);
  lock.unlock();

  if (poison) {
    // The block may still be written by earlier work of its stream: poison in stream order.
    stream.enqueue([block, bytes] {
      ASAN_UNPOISON_MEMORY_REGION(block.data, block.bytes);
      std::memset(block.data, 0xff, bytes);
      ASAN_POISON_MEMORY_REGION(static_cast<char*>(block.data) + bytes, block.bytes - bytes);
    });
  } else {
    ASAN_UNPOISON_MEMORY_REGION(block.data, bytes);
  }
  return block;
}

void* CachingAllocator::acquire(std::size_t bytes) {
  if (stats_.reserved > limit_ || bytes > limit_ - stats_.reserved) return nullptr;
  void* data = source_->acquire(bytes);
  if (!data) return nullptr;
  ++stats_.system_requests;
  stats_.reserved += bytes;
  stats_.max_reserved = std::max(stats_.max_reserved, stats_.reserved);
  return data;
}

void CachingAllocator::cache(const Block& block) {
  // Queued work may legally still touch a block of a worker stream, so only blocks of the host's
  // own stream are poisoned.
  if (block.stream == 0) ASAN_POISON_MEMORY_REGION(block.data, block.bytes);
  std::vector<FreeList>& lists = block.stream == 0 ? *host_lists_ : cached_[block.stream];
  const std::size_t size_class = class_of(block.bytes);
  if (size_class >= lists.size()) lists.resize(size_class + 1);
  lists[size_class].push_back(block.data);
}

void CachingAllocator::free(const Block& block, std::span<const Stream> also_used_by) noexcept {
  std::lock_guard lock(mutex_);
  stats_.allocated -= block.bytes;
  if (profiler::detail::on() && is_cpu_device(of_)) [[unlikely]]
    profiler::detail::note_memory(device_, -static_cast<std::int64_t>(block.bytes),
                                  stats_.allocated, stats_.reserved);
  if (also_used_by.empty())
    cache(block);
  else
    retire(block, also_used_by);
}

void CachingAllocator::retire(const Block& block, std::span<const Stream> also_used_by) {
  Pending pending{.block = block, .marks = {}};
  try {
    for (const Stream& stream : also_used_by) {
      // A graph under capture uses the block at every replay, so it must never be reused.
      if (detail::cuda::is_capturing(stream)) return;
      if (!stream.query()) pending.marks.push_back(stream.impl()->record(detail::Timing::none));
    }
  } catch (const CudaError&) {  // the device is lost: no work runs there any more
  }
  if (pending.marks.empty()) return cache(block);
  stats_.pending += block.bytes;
  pending_.push_back(std::move(pending));
}

void CachingAllocator::reclaim_pending() {
  std::erase_if(pending_, [this](Pending& p) {
    if (!std::ranges::all_of(p.marks, [](const auto& mark) { return mark->passed(); }))
      return false;
    stats_.pending -= p.block.bytes;
    cache(p.block);
    return true;
  });
}

void CachingAllocator::release_cached(std::unique_lock<std::mutex>& lock) {
  const bool may_wait = !detail::on_worker_thread();
  lock.unlock();
  std::unique_lock turn(release_turn_, std::defer_lock);
  if (may_wait) turn.lock();
  lock.lock();

  // Only blocks cached by now: blocks freed while the lock is open belong to work that has not been
  // waited for.
  std::vector<Block> blocks;
  for (auto& [stream, lists] : cached_) {
    if (stream != 0 && !may_wait) continue;
    for (std::size_t c = 0; c < lists.size(); ++c) {
      for (void* data : lists[c])
        blocks.push_back({.data = data, .bytes = class_bytes(c), .stream = stream});
      lists[c].clear();
    }
  }
  if (may_wait) {
    std::list<Pending> pending;
    pending.swap(pending_);
    for (const Pending& p : pending) stats_.pending -= p.block.bytes;
    lock.unlock();
    detail::drain(device_);
    for (const Pending& p : pending) {
      for (const auto& mark : p.marks) mark->wait();
      blocks.push_back(p.block);
    }
    lock.lock();
  }
  for (const Block& block : blocks) {
    ASAN_UNPOISON_MEMORY_REGION(block.data, block.bytes);
    source_->release(block.data, block.bytes);
    stats_.reserved -= block.bytes;
  }
}

void CachingAllocator::empty_cache() {
  std::unique_lock lock(mutex_);
  release_cached(lock);
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak_stats() {
  std::lock_guard lock(mutex_);
  stats_.max_allocated = stats_.allocated;
  stats_.max_reserved = stats_.reserved;
}

void CachingAllocator::set_limit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void CachingAllocator::set_poison(bool on) {
  std::lock_guard lock(mutex_);
  poison_ = on;
}

std::string CachingAllocator::summary() const { return detail::summarise(of_, stats()); }

namespace {

/// One allocator per CPU device, created on first use. Never destroyed, because tensors in static
/// variables may outlive every other static.
CachingAllocator& cpu_allocator(int index) {
  struct Slots {
    std::array<std::once_flag, Device::kMaxIndex + 2> once;
    std::array<CachingAllocator*, Device::kMaxIndex + 2> allocators{};
  };
  static Slots& slots = *new Slots;
  const auto slot = static_cast<std::size_t>(index + 1);
  std::call_once(slots.once[slot], [&] {
    slots.allocators[slot] =
        new CachingAllocator(Device(DeviceType::cpu, index), std::make_unique<HostMemory>());
  });
  return *slots.allocators[slot];
}

}  // namespace

Allocator& allocator(const Device& device) {
  static CachingAllocator& host = cpu_allocator(-1);
  if (device.is_host()) [[likely]]
    return host;
  return device.is_cuda() ? detail::cuda::allocator(device.index()) : cpu_allocator(device.index());
}

Allocator& pinned_allocator() { return detail::cuda::pinned_allocator(); }

std::size_t memory_allocated(const Device& device) { return allocator(device).stats().allocated; }
std::size_t max_memory_allocated(const Device& device) {
  return allocator(device).stats().max_allocated;
}
std::size_t memory_reserved(const Device& device) { return allocator(device).stats().reserved; }
void reset_peak_memory_stats(const Device& device) { allocator(device).reset_peak_stats(); }
void empty_cache(const Device& device) { allocator(device).empty_cache(); }
std::string memory_summary(const Device& device) { return allocator(device).summary(); }

}  // namespace ferrite
