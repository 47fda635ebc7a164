#include "ferrite/core/parallel_for.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"

namespace ferrite {

namespace {

using Clock = std::chrono::steady_clock;

// Waking a sleeping core takes hundreds of microseconds. Workers spin long enough to catch the next
// loop of a training step, but short enough to cost little when another process needs the core: as
// long as the previous loop took, because long loops follow long ones.
constexpr Clock::duration kLeastSpin = std::chrono::microseconds(20);
constexpr Clock::duration kMostSpin = std::chrono::microseconds(200);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Spins briefly, then sleeps, until `value` differs from `old`.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old, Clock::duration spin) {
  const auto deadline = Clock::now() + spin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      relax();
    }
  } while (Clock::now() < deadline);
  value.wait(old, std::memory_order_acquire);
}

thread_local bool inside_loop = false;

struct Job {
  std::int64_t n = 0, grain = 1, chunks = 0;
  detail::ChunkFn fn = nullptr;
  void* body = nullptr;
  std::atomic<std::int64_t> next{0};  // the first chunk not yet taken
  std::atomic<int> helpers{0};        // workers that may still touch this job
  std::mutex error_mutex;
  std::exception_ptr error;
  Job* link = nullptr;

  bool has_work() const { return next.load(std::memory_order_relaxed) < chunks; }

  void run() {
    inside_loop = true;
    try {
      for (;;) {
        const std::int64_t chunk = next.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= chunks) break;
        const std::int64_t begin = chunk * grain;
        fn(body, begin, begin + std::min(grain, n - begin));
      }
    } catch (...) {
      next.store(chunks, std::memory_order_relaxed);
      std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    inside_loop = false;
  }
};

class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {  // the system has no more threads
      stop();
      throw;
    }
  }
  ~Pool() { stop(); }

  int threads() const { return threads_; }

  void run(Job& job) {
    {
      std::lock_guard lock(mutex_);
      job.link = jobs_;
      jobs_ = &job;
    }
    wake();
    job.run();
    {
      std::lock_guard lock(mutex_);
      Job** p = &jobs_;
      while (*p != &job) p = &(*p)->link;
      *p = job.link;
    }
    for (;;) {
      const std::uint32_t seen = departures_.load(std::memory_order_acquire);
      if (job.helpers.load(std::memory_order_acquire) == 0) break;
      wait_for_change(departures_, seen, kMostSpin);
    }
  }

 private:
  void stop() {
    stop_.store(true, std::memory_order_release);
    wake();
    for (std::thread& t : workers_) t.join();
    workers_.clear();
  }

  void wake() {
    epoch_.fetch_add(1);
    epoch_.notify_all();
  }

  /// A job with chunks left, registered as having one more helper.
  Job* join_job() {
    std::lock_guard lock(mutex_);
    for (Job* job = jobs_; job; job = job->link)
      if (job->has_work()) {
        job->helpers.fetch_add(1, std::memory_order_relaxed);
        return job;
      }
    return nullptr;
  }

  /// Signals through the pool, because the owner may destroy its job once it sees no helper left.
  void leave_job(Job& job) {
    job.helpers.fetch_sub(1, std::memory_order_release);
    departures_.fetch_add(1);
    departures_.notify_all();
  }

  void work() {
    Clock::duration spin = kLeastSpin;
    for (;;) {
      // Read before stop_: the stopping thread sets stop_ first, so a missed stop still wakes this
      // thread.
      const std::uint32_t seen = epoch_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_acquire)) return;
      if (Job* job = join_job()) {
        const Clock::time_point start = Clock::now();
        job->run();
        spin = std::clamp(Clock::now() - start, kLeastSpin, kMostSpin);
        leave_job(*job);
      } else {
        wait_for_change(epoch_, seen, spin);
      }
    }
  }

  int threads_;
  std::mutex mutex_;
  Job* jobs_ = nullptr;
  std::atomic<std::uint32_t> epoch_{0};       // new work or stop
  std::atomic<std::uint32_t> departures_{0};  // helpers that left a job
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

int processors() {
  for (const char* name : {"FERRITE_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const char* text = std::getenv(name))
      if (const int n = std::atoi(text); n >= 1 && n <= 1024) return n;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

/// The pool and its lock: shared for loops, exclusive for changes.
struct PoolSlot {
  std::shared_mutex mutex;
  std::unique_ptr<Pool> pool;
  std::atomic<int> threads;

  PoolSlot() : pool(std::make_unique<Pool>(processors())), threads(pool->threads()) {}

  void resize(int count) {
    std::unique_lock lock(mutex);
    if (pool->threads() == count) return;
    pool = std::make_unique<Pool>(count);
    threads = count;
  }
};

/// Never destroyed, because queued work may run loops until the very end. The threads are joined
/// when the process ends; later loops run in the calling thread.
PoolSlot& slot() {
  static PoolSlot& instance = *new PoolSlot;
  static struct Joiner {
    ~Joiner() {
      if (!inside_loop) instance.resize(1);
    }
  } joiner;
  return instance;
}

}  // namespace

int num_threads() { return slot().threads.load(std::memory_order_relaxed); }

void set_num_threads(int count) {
  FERRITE_CHECK(count >= 1 && count <= 1024, ValueError, "set_num_threads",
                "expected 1 to 1024 threads, got {}", count);
  FERRITE_CHECK(!inside_loop, ValueError, "set_num_threads", "called from inside a parallel_for");
  slot().resize(count);
}

void detail::run_chunks(std::int64_t n, std::int64_t grain, ChunkFn fn, void* body) {
  const std::int64_t chunks = (n - 1) / grain + 1;
  if (inside_loop) {
    for (std::int64_t c = 0; c < chunks; ++c)
      fn(body, c * grain, c * grain + std::min(grain, n - c * grain));
    return;
  }
  Job job{.n = n, .grain = grain, .chunks = chunks, .fn = fn, .body = body};
  {
    PoolSlot& shared = slot();
    std::shared_lock lock(shared.mutex);
    if (shared.pool->threads() > 1)
      shared.pool->run(job);
    else
      job.run();
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace ferrite
