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
#include "ferrite/core/cuda_control.h"
#include "ferrite/core/late_errors.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"
#include "ferrite/parallel/comm/background_thread.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

namespace {

using Task = std::function<void()>;

/// A thread that runs one task after another; tasks do not throw.
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
  /// Waits until the task is done.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !task_; });
  }

  Device last_device;  ///< device of the last task, used to hand out threads

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
  std::thread thread_;  // last member: it uses the others
};

/// Idle threads. A caller takes the threads it needs, and new ones are started if there are not
/// enough, so that concurrent and nested calls never wait for each other's threads.
class IdleThreads {
 public:
  /// A thread for `device`, preferably the one that worked for it before. Null when the process
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
  /// Takes back an idle thread; destroys it if the process is ending.
  void give_back(std::unique_ptr<TaskThread> thread) {
    std::lock_guard lock(mutex_);
    if (!ended_) idle_.push_back(std::move(thread));
  }
  /// Does not wait for busy threads, which may be blocked.
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

/// Never destroyed, because replicas may run until the very end; its idle threads are joined when
/// the process ends.
IdleThreads& idle_threads() {
  static IdleThreads& instance = *new IdleThreads;
  static struct Joiner {
    ~Joiner() { instance.end(); }
  } joiner;
  return instance;
}

/// The state that a thread passes on to its worker threads.
class ThreadState {
 public:
  explicit ThreadState(std::span<const Device> devices) {
    for (const Device& device : devices) streams_.push_back(current_stream(device));
    if (is_initialized()) group_ = default_group();
  }

  /// Calls f() in another thread with that state. `autocast`: the result of renewed_autocast() in
  /// the first thread.
  template <class F>
  void run(const IntrusivePtr<autograd::AutocastState>& autocast, const F& f) const {
    const InferenceMode inference(inference_mode_);
    const GradModeGuard grad_mode(grad_mode_);
    const autograd::AutocastScope autocast_scope(autocast.get());
    const DefaultGroupScope group(group_);
    std::vector<std::unique_ptr<StreamGuard>> streams;
    for (const Stream& stream : streams_) streams.push_back(std::make_unique<StreamGuard>(stream));
    f();
    while (!streams.empty()) streams.pop_back();
  }

 private:
  const bool inference_mode_ = inference_mode(), grad_mode_ = grad_enabled();
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

/// If `error` is one of the Errors, throws it with the replica added to its text.
template <class... Errors>
void rethrow_as(const std::exception& error, std::size_t replica, const Device& device) {
  const auto as = [&]<class E>(const E* e) {
    if (e) throw_tagged<E>(replica, device, e->what());
  };
  (as(dynamic_cast<const Errors*>(&error)), ...);
}

[[noreturn]] void rethrow(const std::exception_ptr& error, std::size_t replica,
                          const Device& device) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    rethrow_as<ShapeError, DTypeError, DeviceError, IndexError, ValueError, AutogradError, IoError,
               CudaError, DistributedError, OutOfMemoryError>(e, replica, device);
    throw_tagged<Error>(replica, device, e.what());
  }
}

/// Possibly only the first device is waited for, so errors of the others' work since the last call
/// would go unnoticed.
void throw_late_errors(std::span<const Device> devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) try {
      ferrite::detail::throw_late_errors(current_stream(devices[i]));
    } catch (...) {
      rethrow(std::current_exception(), i, devices[i]);
    }
}

/// Threads for devices[1], devices[2], ...; none if no more can be started.
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
  // A caller's zeros({n}) are on its device, so each replica's are on its own.
  const bool host_is_default = get_default_device().is_host();
  const auto call = [&](std::size_t i) {
    try {
      const cuda::DeviceScope current(devices[i]);
      const DefaultDeviceScope default_device(host_is_default ? Device() : devices[i]);
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
    std::vector<Task> tasks;  // all created before the first starts, which must not run alone
    for (std::size_t i = 1; i < devices.size(); ++i)
      tasks.emplace_back([&, i, autocast = renewed_autocast()]() noexcept {
        try {
          state.run(autocast, [&] { call(i); });
        } catch (...) {  // before the call, for example on a lost device
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
