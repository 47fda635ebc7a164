// Storage for events while a profile runs: one log per thread, written by that thread alone without
// locks, readable at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"
#include "ferrite/core/profiler/clock.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"

namespace ferrite::profiler::detail {

// Records are trivial types, so a fresh chunk of them needs no initialization.

struct RangeRecord {
  const char* name;
  std::uint64_t begin, end, children;  // ticks; `children`: total of the direct children
  std::uint64_t sequence;              // number of the node that it made or runs, plus 1
  const void* module;
  std::int64_t host_bytes, device_bytes;  // allocated minus freed by the range itself
  std::uint32_t id, parent;               // position in the log, from 1; 0: none
  std::uint32_t shapes;                   // position in the log, from 1; 0: none
  Kind kind;
};

struct ShapeRecord {
  static constexpr std::size_t kTensors = 8, kDims = 24;
  std::uint8_t tensors;                    // stored here
  bool more;                               // some did not fit
  std::array<std::int8_t, kTensors> ndim;  // -1: undefined
  std::array<DType, kTensors> dtype;
  std::array<std::int64_t, kDims> dims;
};

struct MemoryRecord {
  std::uint64_t when, allocated, reserved;
  std::int64_t bytes;
  std::uint32_t range;  // the id of the range that caused it
  DeviceType device;
  std::int8_t index;
};

/// Work that ran on a worker thread, in the log of that thread.
struct WorkRecord {
  const char* name;
  std::uint64_t begin, end, asked;
  std::uint32_t log, range;  // the range that queued it
  std::uint32_t stream;
  std::int8_t device;
};

/// Work of a CUDA device, in the log of the thread that queued it.
struct DeviceRecord {
  const char* name;
  std::shared_ptr<ferrite::detail::Mark> begin, end;
  std::uint64_t asked;  // when
  std::uint32_t range, stream;
  std::int8_t device;
};

/// How many more records a profile accepts.
class Budget {
 public:
  explicit Budget(std::int64_t records) : left_(records) {}
  /// Returns at most `wanted`.
  std::uint32_t take(std::uint32_t wanted) {
    const std::int64_t left = left_.fetch_sub(wanted, std::memory_order_relaxed);
    if (left >= wanted) return wanted;
    return left > 0 ? static_cast<std::uint32_t>(left) : 0;
  }

 private:
  std::atomic<std::int64_t> left_;
};

/// Appended to by one thread; other threads read the published elements.
template <class T>
class Records {
 public:
  static constexpr std::uint32_t kChunk = 512;

  Records() = default;
  ~Records() {
    for (Chunk* chunk = first_.load(std::memory_order_relaxed); chunk;)
      delete std::exchange(chunk, chunk->next.load(std::memory_order_relaxed));
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  /// Space for one more element, to be filled and published; null if the budget is spent.
  T* room(Budget& budget) {
    if (used_ == capacity_ && !grow(budget)) return nullptr;
    return &last_->items[used_];
  }
  void publish() { last_->size.store(++used_, std::memory_order_release); }
  /// Number of published elements.
  std::uint32_t size() const { return before_ + used_; }

  template <class F>
  void for_each(const F& f) {
    for (Chunk* chunk = first_.load(std::memory_order_acquire); chunk;
         chunk = chunk->next.load(std::memory_order_acquire)) {
      const std::uint32_t size = chunk->size.load(std::memory_order_acquire);
      for (std::uint32_t i = 0; i < size; ++i) f(chunk->items[i]);
    }
  }

 private:
  struct Chunk {
    std::atomic<std::uint32_t> size{0};
    std::atomic<Chunk*> next{nullptr};
    std::array<T, kChunk> items;
  };

  bool grow(Budget& budget) {
    const std::uint32_t capacity = budget.take(kChunk);
    if (capacity == 0) return false;
    auto* chunk = new Chunk;
    (last_ ? last_->next : first_).store(chunk, std::memory_order_release);
    last_ = chunk;
    before_ += used_;
    used_ = 0;
    capacity_ = capacity;
    return true;
  }

  std::atomic<Chunk*> first_{nullptr};
  Chunk* last_ = nullptr;
  std::uint32_t before_ = 0, used_ = 0, capacity_ = 0;
};

/// The events of one thread.
struct Log {
  explicit Log(std::uint32_t index) : index(index) {}

  const std::uint32_t index;  // of the log in the session
  std::int64_t thread = 0;    // the system's thread id
  std::string name;
  Records<RangeRecord> ranges;
  Records<ShapeRecord> shapes;
  Records<MemoryRecord> memory;
  Records<WorkRecord> work;
  Records<DeviceRecord> device;
  std::atomic<std::uint64_t> opened{0}, closed{0}, dropped{0};  // written by this thread only
};

/// Increments a counter that only one thread writes.
inline void count(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// The reference point for the times of a device's marks.
struct Anchor {
  Device device;
  std::shared_ptr<ferrite::detail::Mark> mark;
  std::uint64_t ticks = 0;
};

/// One period of recording.
struct Session {
  explicit Session(std::int64_t limit) : budget(limit) {}

  std::uint64_t id = 0;  // unique, never 0
  std::uint32_t hooks = 0;
  Budget budget;
  Moment begin, end;
  std::int64_t wall_clock = 0;  // nanoseconds since 1970 at `begin`

  std::mutex mutex;
  std::vector<std::shared_ptr<Log>> logs;
  std::vector<Stream> streams;  // streams of workers and CUDA devices that had work
  std::vector<Anchor> anchors;  // of CUDA devices
};

/// Begins a session: everything that `hooks` names is recorded from here on, up to `limit` records.
/// ValueError if one is running.
std::shared_ptr<Session> start_session(std::uint32_t hooks, std::int64_t limit);
/// Ends it, waiting for the streams that had work.
void stop_session(Session& session);
/// Turns NVTX ranges on or off, inside and outside of sessions.
void set_nvtx(bool on);

/// Returns a copy of the text that lives as long as the process; equal texts share one.
const char* intern(std::string_view text);

// ---- For streams and launches

/// How work of a worker thread's stream is to be recorded.
struct Submitted {
  const char* name = nullptr;  // null: do not record it
  std::uint64_t session = 0, asked = 0;
  std::uint32_t log = 0, range = 0;
};
Submitted submitting(const Stream& stream);
void record_work(const Submitted& work, const Stream& stream, std::uint64_t begin,
                 std::uint64_t end) noexcept;

}  // namespace ferrite::profiler::detail
