#include "core/stream.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"

namespace ferrite {

namespace {

using Clock = std::chrono::steady_clock;

class InlineStream final : public detail::StreamImpl {
 public:
  InlineStream() : StreamImpl(Device(), 0, true) {}
  void submit(std::function<void()> work) override { work(); }
  void synchronize() override {}
  bool idle() const override { return true; }
};

class WorkerStream final : public detail::StreamImpl {
 public:
  WorkerStream(Device device, std::uint32_t id)
      : StreamImpl(device, id, false), thread_([this] { work(); }) {}
  ~WorkerStream() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void submit(std::function<void()> work) override {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_all();
  }

  void synchronize() override {
    // Work that waits for its own stream can only mean "what came before me", which has run.
    if (std::this_thread::get_id() == thread_.get_id()) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  bool idle() const override {
    std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
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
      if (error && !error_) error_ = error;
      if (queue_.empty()) changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

constexpr std::size_t kPoolSize = 8;

/// All worker streams; joined when the process ends.
class Registry {
 public:
  detail::StreamImpl* default_of(const Device& device) {
    std::lock_guard lock(mutex_);
    auto& slot = defaults_[static_cast<std::size_t>(device.index())];
    if (!slot) slot = std::make_unique<WorkerStream>(device, next_id_++);
    return slot.get();
  }
  detail::StreamImpl* from_pool(const Device& device) {
    std::lock_guard lock(mutex_);
    Pool& pool = pools_[device.index()];
    auto& slot = pool.streams[pool.next++ % kPoolSize];
    if (!slot) slot = std::make_unique<WorkerStream>(device, next_id_++);
    return slot.get();
  }
  std::vector<detail::StreamImpl*> all_of(const Device& device) {
    std::lock_guard lock(mutex_);
    std::vector<detail::StreamImpl*> found;
    if (!device.is_host())
      if (auto& slot = defaults_[static_cast<std::size_t>(device.index())])
        found.push_back(slot.get());
    if (auto it = pools_.find(device.index()); it != pools_.end())
      for (auto& slot : it->second.streams)
        if (slot) found.push_back(slot.get());
    return found;
  }

 private:
  struct Pool {
    std::array<std::unique_ptr<WorkerStream>, kPoolSize> streams;
    std::size_t next = 0;
  };
  std::mutex mutex_;
  std::uint32_t next_id_ = 1;
  std::array<std::unique_ptr<WorkerStream>, Device::kMaxIndex + 1> defaults_;
  std::map<int, Pool> pools_;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

detail::StreamImpl* host_stream() {
  static InlineStream instance;
  return &instance;
}

// Streams set by guards, by device index + 1; null means the default.
thread_local std::array<detail::StreamImpl*, Device::kMaxIndex + 2> guarded{};

detail::StreamImpl*& guarded_slot(const Device& device) {
  return guarded[static_cast<std::size_t>(device.index() + 1)];
}

void require_cpu(const Device& device) {
  FERRITE_CHECK(device.is_cpu(), DeviceError, "stream", "this build has no streams for {}", device);
}

}  // namespace

struct Event::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0, reached = 0;  // counts of record() and of those that came to pass
  Clock::time_point when{};

  void wait_for(std::uint64_t target) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= target; });
  }
};

Stream::Stream() : impl_(host_stream()) {}

Stream Stream::create(const Device& device) {
  require_cpu(device);
  return Stream(registry().from_pool(device));
}

void Stream::wait(const Event& event) const {
  auto state = event.state_;
  std::uint64_t target;
  {
    std::lock_guard lock(state->mutex);
    target = state->recorded;
    if (state->reached >= target) return;
  }
  enqueue([state, target] { state->wait_for(target); });
}

void Stream::wait(const Stream& other) const {
  if (other == *this || other.query()) return;
  Event event;
  event.record(other);
  wait(event);
}

Event::Event() : state_(std::make_shared<State>()) {}

void Event::record(const Stream& stream) {
  std::uint64_t ticket;
  {
    std::lock_guard lock(state_->mutex);
    ticket = ++state_->recorded;
  }
  stream.enqueue([state = state_, ticket] {
    {
      std::lock_guard lock(state->mutex);
      state->reached = std::max(state->reached, ticket);
      state->when = Clock::now();
    }
    state->changed.notify_all();
  });
}

bool Event::query() const {
  std::lock_guard lock(state_->mutex);
  return state_->reached >= state_->recorded;
}

void Event::synchronize() const {
  std::uint64_t target;
  {
    std::lock_guard lock(state_->mutex);
    target = state_->recorded;
  }
  state_->wait_for(target);
}

double Event::elapsed_ms(const Event& start) const {
  FERRITE_CHECK(query() && start.query() && state_->recorded && start.state_->recorded, ValueError,
                "elapsed_ms", "both events must be recorded and done; call synchronize() first");
  return std::chrono::duration<double, std::milli>(state_->when - start.state_->when).count();
}

Stream default_stream(const Device& device) {
  if (device.is_host()) return Stream();
  require_cpu(device);
  return Stream(registry().default_of(device));
}

Stream current_stream(const Device& device) {
  require_cpu(device);
  if (detail::StreamImpl* stream = guarded_slot(device)) return Stream(stream);
  return default_stream(device);
}

void synchronize(const Device& device) {
  require_cpu(device);
  for (detail::StreamImpl* stream : registry().all_of(device)) stream->synchronize();
}

void detail::drain(const Device& device) {
  for (StreamImpl* stream : registry().all_of(device)) {
    Event event;
    event.record(Stream(stream));
    event.synchronize();
  }
}

StreamGuard::StreamGuard(const Stream& stream)
    : device_(stream.device()),
      previous_(std::exchange(guarded_slot(stream.device()), stream.impl())) {}

StreamGuard::~StreamGuard() { guarded_slot(device_) = previous_; }

}  // namespace ferrite
