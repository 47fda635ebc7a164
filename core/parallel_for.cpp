#include "core/parallel_for.h"

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

#include "core/error.h"

namespace ferrite {

namespace {

// Long enough to catch the next loop of a training step, short enough to cost little when another
// process needs the core.
constexpr auto kSpin = std::chrono::microseconds(20);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Spins briefly, then sleeps, until `value` differs from `old`.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  value.wait(old, std::memory_order_acquire);
}

thread_local bool inside_loop = false;

struct Job {
  std::int64_t n = 0, grain = 1;
  detail::ChunkFn fn = nullptr;
  void* body = nullptr;
  std::atomic<std::int64_t> next{0};
  std::atomic<int> helpers{0};  // workers that may still touch this job
  std::mutex error_mutex;
  std::exception_ptr error;
  Job* link = nullptr;

  void run() {
    inside_loop = true;
    try {
      for (;;) {
        const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= n) break;
        fn(body, begin, std::min(begin + grain, n));
      }
    } catch (...) {
      next.store(n, std::memory_order_relaxed);
      std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    inside_loop = false;
  }
};

class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Pool() {
    stop_.store(true, std::memory_order_release);
    wake();
    for (std::thread& t : workers_) t.join();
  }

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
      wait_for_change(departures_, seen);
    }
  }

 private:
  void wake() {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }

  /// A job with chunks left, marked as having one more helper.
  Job* join_job() {
    std::lock_guard lock(mutex_);
    for (Job* job = jobs_; job; job = job->link)
      if (job->next.load(std::memory_order_relaxed) < job->n) {
        job->helpers.fetch_add(1, std::memory_order_relaxed);
        return job;
      }
    return nullptr;
  }

  /// Signals through the pool, as the owner may destroy its job once it sees no helper left.
  void leave_job(Job& job) {
    job.helpers.fetch_sub(1, std::memory_order_release);
    departures_.fetch_add(1, std::memory_order_release);
    departures_.notify_all();
  }

  void work() {
    while (!stop_.load(std::memory_order_acquire)) {
      const std::uint32_t seen = epoch_.load(std::memory_order_acquire);
      if (Job* job = join_job()) {
        job->run();
        leave_job(*job);
      } else {
        wait_for_change(epoch_, seen);
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

std::shared_mutex& pool_mutex() {
  static std::shared_mutex mutex;  // shared by loops, exclusive for a change of the pool
  return mutex;
}

std::unique_ptr<Pool>& pool() {
  static std::unique_ptr<Pool> instance = std::make_unique<Pool>(processors());
  return instance;
}

}  // namespace

int num_threads() {
  std::shared_lock lock(pool_mutex());
  return pool()->threads();
}

void set_num_threads(int count) {
  FERRITE_CHECK(count >= 1 && count <= 1024, ValueError, "set_num_threads",
                "expected 1 to 1024 threads, got {}", count);
  FERRITE_CHECK(!inside_loop, ValueError, "set_num_threads", "called from inside a parallel_for");
  std::unique_lock lock(pool_mutex());
  if (pool()->threads() != count) pool() = std::make_unique<Pool>(count);
}

void detail::run_chunks(std::int64_t n, std::int64_t grain, ChunkFn fn, void* body) {
  if (!inside_loop) {
    std::shared_lock lock(pool_mutex());
    if (Pool& threads = *pool(); threads.threads() > 1) {
      Job job{.n = n, .grain = grain, .fn = fn, .body = body};
      threads.run(job);
      if (job.error) std::rethrow_exception(job.error);
      return;
    }
  }
  for (std::int64_t begin = 0; begin < n; begin += grain)
    fn(body, begin, std::min(begin + grain, n));
}

}  // namespace ferrite
