#include "ferrite/parallel/data_parallel/parallel_apply.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "ferrite/autograd/autocast.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/saved.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/late_errors.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"
#include "ferrite/parallel/comm/background_thread.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

namespace {

using Task = std::function<void()>;

/// A thread that runs one task after another; none of them throws.
class TaskThread {
 public:
  TaskThread() : thread_(comm::start_background_thread("replica", [this] { work(); })) {}
  ~TaskThread() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void start(Task task) {
    {
      std::lock_guard lock(mutex_);
      task_ = std::move(task);
    }
    changed_.notify_all();
  }
  /// Until the task is done.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !task_; });
  }

  Device last_device;  ///< of the last task, for who hands them out

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || task_; });
      if (!task_) return;
      lock.unlock();
      task_();
      lock.lock();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Task task_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Threads that nobody uses at the moment. Who needs some takes them, and has more started where
/// there are not enough, so that calls at the same time and calls within calls never wait for each
/// other's.
class IdleThreads {
 public:
  /// A thread for `device`, if possible the one that worked for it before. Null when the process
  /// ends.
  std::unique_ptr<TaskThread> take(const Device& device) {
    {
      std::lock_guard lock(mutex_);
      if (ended_) return nullptr;
      const auto of_device = std::ranges::find(idle_, device, &TaskThread::last_device);
      const auto found = of_device != idle_.end() ? of_device : idle_.begin();
      if (found != idle_.end()) {
        std::unique_ptr<TaskThread> thread = std::move(*found);
        idle_.erase(found);
        thread->last_device = device;
        return thread;
      }
    }
    auto thread = std::make_unique<TaskThread>();
    thread->last_device = device;
    return thread;
  }
  /// Takes a thread that has nothing to do; it goes where the process ends.
  void give_back(std::unique_ptr<TaskThread> thread) {
    std::lock_guard lock(mutex_);
    if (!ended_) idle_.push_back(std::move(thread));
  }
  /// Those at work then, which may be waiting for anything, are not waited for.
  void end() {
    std::vector<std::unique_ptr<TaskThread>> all;
    std::lock_guard lock(mutex_);
    ended_ = true;
    all.swap(idle_);
  }

 private:
  std::mutex mutex_;
  bool ended_ = false;
  std::vector<std::unique_ptr<TaskThread>> idle_;
};

/// Never destroyed, as replicas may run until the very end; its threads are joined when the process
/// ends.
IdleThreads& idle_threads() {
  static IdleThreads& instance = *new IdleThreads;
  static struct Joiner {
    ~Joiner() { instance.end(); }
  } joiner;
  return instance;
}

/// What Device("cuda") means, for as long as this lives.
class CurrentCudaDevice {
 public:
  explicit CurrentCudaDevice(const Device& device) {
    if (!device.is_cuda()) return;
    before_ = cuda::current_device();
    cuda::set_device(device.index());
  }
  ~CurrentCudaDevice() {
    try {
      if (before_ >= 0) cuda::set_device(before_);
    } catch (const Error&) {  // the device is lost
    }
  }
  CurrentCudaDevice(const CurrentCudaDevice&) = delete;
  CurrentCudaDevice& operator=(const CurrentCudaDevice&) = delete;

 private:
  int before_ = -1;
};

/// What a thread hands on to those that work for it.
class ThreadState {
 public:
  explicit ThreadState(std::span<const Device> devices) {
    for (const Device& device : devices) streams_.push_back(current_stream(device));
    if (is_initialized()) group_ = default_group();
  }

  /// Calls f() in another thread as if in that one. `autocast`: what renewed_autocast() made there.
  template <class F>
  void run(const IntrusivePtr<autograd::AutocastState>& autocast, const F& f) const {
    const GradModeGuard grad_mode(grad_mode_);
    const autograd::AutocastScope autocast_scope(autocast.get());
    const DefaultGroupScope group(group_);
    std::vector<std::unique_ptr<StreamGuard>> streams;
    for (const Stream& stream : streams_) streams.push_back(std::make_unique<StreamGuard>(stream));
    f();
    while (!streams.empty()) streams.pop_back();
  }

 private:
  const bool grad_mode_ = grad_enabled();
  std::shared_ptr<ProcessGroup> group_;
  std::vector<Stream> streams_;
};

IntrusivePtr<autograd::AutocastState> renewed_autocast() {
  const autograd::AutocastState* const mine = autograd::autocast_state();
  return mine ? mine->renewed() : nullptr;
}

template <class E>
[[noreturn]] void throw_tagged(std::size_t replica, const Device& device, const char* text) {
  fail<E>("parallel_apply", "replica {} on {}: {}", replica, device, text);
}

/// Throws what `error` is if that is an E, with the replica in its text.
template <class E>
void rethrow_if(const std::exception& error, std::size_t replica, const Device& device) {
  if (dynamic_cast<const E*>(&error)) throw_tagged<E>(replica, device, error.what());
}

[[noreturn]] void rethrow(const std::exception_ptr& error, std::size_t replica,
                          const Device& device) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    rethrow_if<ShapeError>(e, replica, device);
    rethrow_if<DTypeError>(e, replica, device);
    rethrow_if<DeviceError>(e, replica, device);
    rethrow_if<IndexError>(e, replica, device);
    rethrow_if<ValueError>(e, replica, device);
    rethrow_if<AutogradError>(e, replica, device);
    rethrow_if<IoError>(e, replica, device);
    rethrow_if<CudaError>(e, replica, device);
    rethrow_if<DistributedError>(e, replica, device);
    rethrow_if<OutOfMemoryError>(e, replica, device);
    throw_tagged<Error>(replica, device, e.what());
  }
}

/// Nobody may wait for any device but the first: what others' work has thrown since the last call
/// would stay unsaid.
void throw_late_errors(std::span<const Device> devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) try {
      ferrite::detail::throw_late_errors(current_stream(devices[i]));
    } catch (...) {
      rethrow(std::current_exception(), i, devices[i]);
    }
}

/// Threads for devices[1], devices[2], ...; none where there are no threads any more.
std::vector<std::unique_ptr<TaskThread>> take_threads(std::span<const Device> devices) {
  std::vector<std::unique_ptr<TaskThread>> threads;
  for (std::size_t i = 1; i < devices.size(); ++i) {
    try {
      threads.push_back(idle_threads().take(devices[i]));
    } catch (const std::system_error& e) {
      throw_tagged<Error>(i, devices[i], e.what());
    }
    if (!threads.back()) return {};
  }
  return threads;
}

}  // namespace

void parallel_for_devices(std::span<const Device> devices,
                          const std::function<void(std::size_t)>& f) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "parallel_apply");
  std::vector<std::exception_ptr> errors(devices.size());
  throw_late_errors(devices);
  const auto call = [&](std::size_t i) {
    try {
      const CurrentCudaDevice current(devices[i]);
      f(i);
    } catch (...) {
      errors[i] = std::current_exception();
    }
    return !errors[i];
  };

  std::vector<std::unique_ptr<TaskThread>> threads;
  if (!autograd::detail::checkpoint_region) threads = take_threads(devices);
  if (threads.empty()) {
    for (std::size_t i = 0; i < devices.size() && call(i); ++i) continue;
  } else {
    const ThreadState state(devices);
    std::vector<Task> tasks;  // all made before the first starts: it must not be left alone
    for (std::size_t i = 1; i < devices.size(); ++i)
      tasks.emplace_back([&, i, autocast = renewed_autocast()]() noexcept {
        try {
          state.run(autocast, [&] { call(i); });
        } catch (...) {  // before the call, as on a lost device
          errors[i] = std::current_exception();
        }
      });
    for (std::size_t i = 0; i < tasks.size(); ++i) threads[i]->start(std::move(tasks[i]));
    call(0);
    for (std::unique_ptr<TaskThread>& thread : threads) {
      thread->wait();
      idle_threads().give_back(std::move(thread));
    }
  }
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (errors[i]) rethrow(errors[i], i, devices[i]);
}

}  // namespace ferrite::parallel
