#include "ferrite/core/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/deferred.h"
#include "ferrite/core/error.h"
#include "ferrite/core/late_errors.h"
#include "ferrite/core/profiler/records.h"
#include "ferrite/core/thread_name.h"

namespace ferrite {

namespace {

using Clock = std::chrono::steady_clock;
using detail::Mark;
using detail::Timing;

/// A mark passed by a thread of this process.
class HostMark final : public Mark {
 public:
  void pass() {
    {
      std::lock_guard lock(mutex_);
      when_ = Clock::now();
    }
    passed_.notify_all();
  }
  bool passed() override { return when().has_value(); }
  void wait() override {
    std::unique_lock lock(mutex_);
    passed_.wait(lock, [this] { return when_.has_value(); });
  }
  std::optional<double> milliseconds_since(Mark& start) override {
    auto* first = dynamic_cast<HostMark*>(&start);
    const auto from = first ? first->when() : std::nullopt, to = when();
    if (!from || !to) return std::nullopt;
    return std::chrono::duration<double, std::milli>(*to - *from).count();
  }

 private:
  std::optional<Clock::time_point> when() {
    std::lock_guard lock(mutex_);
    return when_;
  }

  std::mutex mutex_;
  std::condition_variable passed_;
  std::optional<Clock::time_point> when_;
};

class InlineStream final : public detail::StreamImpl {
 public:
  InlineStream() : StreamImpl(Device(), 0, true) {}
  void submit(std::function<void()> work) override { work(); }
  void synchronize() override {}
  bool idle() const override { return true; }
  std::shared_ptr<Mark> record(Timing) override {
    auto mark = std::make_shared<HostMark>();
    mark->pass();
    return mark;
  }
  void wait(const std::shared_ptr<Mark>& mark) override { mark->wait(); }
};

thread_local const detail::StreamImpl* running = nullptr;  // the stream whose work this thread runs

class WorkerStream final : public detail::StreamImpl {
 public:
  WorkerStream(Device device, std::uint32_t id)
      : StreamImpl(device, id, false), thread_([this] { work(); }) {}
  ~WorkerStream() override { stop(); }

  /// Joins the worker after it has finished what is queued.
  void stop() {
    if (running == this || !thread_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void submit(std::function<void()> work) override {
    put(profiler::detail::on() ? profiled(std::move(work)) : std::move(work));
  }
  void put(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      if (!gone_) queue_.push_back(std::exchange(work, nullptr));
    }
    if (work)
      work();
    else
      changed_.notify_all();
  }

  void synchronize() override {
    // Work that waits for its own stream can only mean the work queued before it, which has run.
    if (running == this) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
    lock.unlock();
    detail::run_passed();
    throw_error();
  }

  /// Throws an exception that work has thrown so far.
  void throw_error() {
    std::unique_lock lock(mutex_);
    std::exception_ptr error = std::exchange(error_, nullptr);
    lock.unlock();
    if (error) std::rethrow_exception(std::move(error));
  }

  bool idle() const override {
    std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }

  std::shared_ptr<Mark> record(Timing) override {
    auto mark = std::make_shared<HostMark>();
    put([mark] { mark->pass(); });
    return mark;
  }
  void wait(const std::shared_ptr<Mark>& mark) override {
    if (!mark->passed()) put([mark] { mark->wait(); });
  }

 private:
  /// `work`, timed for the running profile.
  std::function<void()> profiled(std::function<void()> work) {
    const profiler::detail::Submitted submitted = profiler::detail::submitting(Stream(this));
    if (!submitted.name) return work;
    return [this, submitted, work = std::move(work)] {
      struct Timed {  // also records work that throws
        ~Timed() { profiler::detail::record_work(by, stream, begin, profiler::detail::ticks()); }
        const profiler::detail::Submitted& by;
        const Stream stream;
        const std::uint64_t begin = profiler::detail::ticks();
      } timed{submitted, Stream(this)};
      work();
    };
  }

  void work() {
    detail::name_thread(device.is_host() ? "stream" : device.str());
    running = this;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) break;
      std::function<void()> task = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      std::exception_ptr error;
      try {
        task();
      } catch (...) {
        error = std::current_exception();
      }
      task = nullptr;
      lock.lock();
      busy_ = false;
      if (error && !error_) error_ = std::move(error);
      if (queue_.empty()) changed_.notify_all();
    }
    gone_ = true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, stop_ = false, gone_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

constexpr std::size_t kPoolSize = 8;

/// All worker streams.
class Registry {
 public:
  detail::StreamImpl* default_of(const Device& device) {
    auto& slot = defaults_[static_cast<std::size_t>(device.index())];
    if (WorkerStream* stream = slot.load(std::memory_order_acquire)) [[likely]]
      return stream;
    std::lock_guard lock(mutex_);
    if (!slot.load(std::memory_order_relaxed)) slot.store(add(device), std::memory_order_release);
    return slot.load(std::memory_order_relaxed);
  }
  detail::StreamImpl* from_pool(const Device& device) {
    std::lock_guard lock(mutex_);
    Pool& pool = pools_[device.index()];
    WorkerStream*& slot = pool.streams[pool.next++ % kPoolSize];
    if (!slot) slot = add(device);
    return slot;
  }
  std::vector<WorkerStream*> all_of(const Device& device) {
    std::lock_guard lock(mutex_);
    std::vector<WorkerStream*> found;
    for (auto& stream : streams_)
      if (stream->device == device) found.push_back(stream.get());
    return found;
  }
  void stop() {
    std::vector<WorkerStream*> all;
    {
      std::lock_guard lock(mutex_);
      for (auto& stream : streams_) all.push_back(stream.get());
    }
    for (WorkerStream* stream : all) stream->stop();
  }

 private:
  struct Pool {
    std::array<WorkerStream*, kPoolSize> streams{};
    std::size_t next = 0;
  };

  WorkerStream* add(const Device& device) {
    return streams_.emplace_back(std::make_unique<WorkerStream>(device, detail::next_stream_id()))
        .get();
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<WorkerStream>> streams_;
  std::array<std::atomic<WorkerStream*>, Device::kMaxIndex + 1> defaults_{};
  std::map<int, Pool> pools_;
};

/// Never destroyed: tensors in static variables may be freed after everything else. The worker
/// threads are joined when the process ends.
Registry& registry() {
  static Registry& instance = *new Registry;
  static struct Joiner {
    ~Joiner() { instance.stop(); }
  } joiner;
  return instance;
}

detail::StreamImpl* host_stream() {
  static InlineStream* instance = new InlineStream;  // never destroyed, like the registry
  return instance;
}

// Streams set by guards, indexed by device index + 1; CUDA devices follow those of the CPU. Null
// means the default.
constexpr std::size_t kSlots = Device::kMaxIndex + 2;
thread_local std::array<detail::StreamImpl*, 2 * kSlots> guarded{};

detail::StreamImpl*& guarded_slot(const Device& device) {
  return guarded[static_cast<std::size_t>(device.index() + 1) + (device.is_cuda() ? kSlots : 0)];
}

}  // namespace

struct Event::State {
  std::mutex mutex;
  std::shared_ptr<Mark> last;

  std::shared_ptr<Mark> mark() {
    std::lock_guard lock(mutex);
    return last;
  }
};

Stream::Stream() : impl_(host_stream()) {}

Stream Stream::create(const Device& device, StreamPriority priority) {
  if (device.is_cuda()) return Stream(detail::cuda::pooled_stream(device.index(), priority));
  return Stream(registry().from_pool(device));
}

void Stream::wait(const Event& event) const {
  if (const std::shared_ptr<Mark> mark = event.state_->mark()) impl_->wait(mark);
}

void Stream::wait(const Stream& other) const {
  if (other == *this) return;
  // A CUDA stream may be under capture, where a query is an error and a wait becomes an edge.
  if (other.device().is_cpu() && other.query()) return;
  impl_->wait(other.impl_->record(Timing::none));
}

Event::Event() : state_(std::make_shared<State>()) {}

void Event::record(const Stream& stream) {
  std::shared_ptr<Mark> mark = stream.impl()->record(Timing::wanted);
  std::lock_guard lock(state_->mutex);
  state_->last = std::move(mark);
}

bool Event::query() const {
  const std::shared_ptr<Mark> mark = state_->mark();
  return !mark || mark->passed();
}

void Event::synchronize() const {
  if (const std::shared_ptr<Mark> mark = state_->mark()) mark->wait();
}

double Event::elapsed_ms(const Event& start) const {
  const auto first = start.state_->mark(), last = state_->mark();
  const auto elapsed = first && last ? last->milliseconds_since(*first) : std::nullopt;
  FERRITE_CHECK(elapsed, ValueError, "elapsed_ms",
                "both events must be recorded and done; call synchronize() first");
  return *elapsed;
}

Stream default_stream(const Device& device) {
  if (device.is_host()) return Stream();
  if (device.is_cuda()) return Stream(detail::cuda::default_stream(device.index()));
  return Stream(registry().default_of(device));
}

Stream current_stream(const Device& device) {
  if (detail::StreamImpl* stream = guarded_slot(device)) return Stream(stream);
  return default_stream(device);
}

void synchronize(const Device& device) {
  if (device.is_cuda()) return detail::cuda::synchronize(device.index());
  std::exception_ptr error;
  for (WorkerStream* stream : registry().all_of(device)) {
    try {
      stream->synchronize();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void detail::drain(const Device& device) {
  if (device.is_cuda()) return detail::cuda::drain(device.index());
  for (WorkerStream* stream : registry().all_of(device)) stream->record(Timing::none)->wait();
}

void detail::throw_late_errors(const Stream& stream) {
  if (stream.device().is_cuda())
    cuda::throw_late_errors(*stream.impl());
  else if (!stream.impl()->runs_inline)
    static_cast<WorkerStream*>(stream.impl())->throw_error();
}

std::uint32_t detail::next_stream_id() {
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool detail::on_worker_thread() { return running != nullptr; }
bool detail::running_in(const StreamImpl* stream) { return running == stream; }

detail::RunningIn::RunningIn(const StreamImpl* stream)
    : previous_(std::exchange(running, stream)) {}
detail::RunningIn::~RunningIn() { running = previous_; }

StreamGuard::StreamGuard(const Stream& stream)
    : device_(stream.device()),
      previous_(std::exchange(guarded_slot(stream.device()), stream.impl())) {}

StreamGuard::~StreamGuard() { guarded_slot(device_) = previous_; }

}  // namespace ferrite
