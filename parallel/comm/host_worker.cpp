#include "ferrite/parallel/comm/host_worker.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/parallel/comm/device_access.h"

namespace ferrite::parallel::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// Extra time for an operation to notice that its deadline has passed.
constexpr std::chrono::seconds kGrace{2};

thread_local bool about_to_wait = false;

}  // namespace

AboutToWait::AboutToWait() : previous_(std::exchange(about_to_wait, true)) {}
AboutToWait::~AboutToWait() { about_to_wait = previous_; }
bool AboutToWait::here() { return about_to_wait; }

/// Outlives the worker, because a Work may be queried after the group is gone.
class HostWorker::Core : public std::enable_shared_from_this<Core> {
 public:
  class HostWork;

  Core(HostOperations& owner, const Options& options) : owner_(owner), options_(options) {}

  Work submit(Call call, std::uint64_t sequence);
  void abort(const std::string& reason);
  void stop();

 private:
  void serve();
  void run_next(std::unique_lock<std::mutex>& lock);
  std::string execute(HostWork& work);
  void run(HostWork& work, const links::Interrupt& interrupt);
  void wait(HostWork& work);
  void finish(HostWork& work, std::string error, Clock::time_point began);
  [[noreturn]] void give_up(HostWork& work, std::unique_lock<std::mutex>& lock);

  HostOperations& owner_;
  const Options options_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::condition_variable changed_;  // an operation has ended
  std::condition_variable queued_;   // the thread has something to do
  // The following are protected by the mutex.
  std::string reason_;               // why it was aborted
  std::shared_ptr<HostWork> first_;  // linked list of operations that have not begun
  HostWork* last_ = nullptr;
  std::shared_ptr<HostWork> running_;
  Clock::time_point deadline_;  // of the running operation
  bool stopping_ = false;
  std::thread thread_;
};

class HostWorker::Core::HostWork final : public detail::WorkState {
 public:
  HostWork(std::shared_ptr<Core> core, Call call, std::uint64_t sequence)
      : core(std::move(core)), call(std::move(call)), sequence(sequence) {}

  bool done() override { return done_.load(std::memory_order_acquire); }
  void wait() override { core->wait(*this); }
  std::optional<std::pair<Clock::time_point, Clock::time_point>> ran() override {
    if (!done() || !has_run) return std::nullopt;
    return std::pair(began, ended);
  }

  const std::shared_ptr<Core> core;
  Call call;
  const std::uint64_t sequence;
  QueuedWork before;
  std::shared_ptr<HostWork> next;
  StagedTensor out, in;  // others may read them until the group knows that the operation failed
  // Written before done_.
  std::string error;
  bool has_run = false;
  Clock::time_point began, ended;
  std::atomic<bool> done_{false};
};

Work HostWorker::Core::submit(Call call, std::uint64_t sequence) {
  auto work = std::make_shared<HostWork>(shared_from_this(), std::move(call), sequence);
  if (const Tensor& t = work->call.in.defined() ? work->call.in : work->call.out; t.defined())
    work->before = QueuedWork(t.device(), name(work->call.kind));
  const bool helped = options_.waiters == Waiters::help && AboutToWait::here();
  {
    std::lock_guard lock(mutex_);
    FERRITE_CHECK(!aborted_, DistributedError, name(work->call.kind), "the group was aborted: {}",
                  reason_);
    FERRITE_CHECK(!stopping_, DistributedError, name(work->call.kind), "the group is gone");
    HostWork* const added = work.get();
    (last_ ? last_->next : first_) = work;
    last_ = added;
    if (!helped && !thread_.joinable()) thread_ = std::thread([this] { serve(); });
  }
  if (!helped) queued_.notify_one();
  return Work(std::move(work));
}

void HostWorker::Core::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_.wait(lock, [this] { return (first_ && !running_) || (stopping_ && !first_); });
    if (!first_) return;
    run_next(lock);
  }
}

/// Runs the first operation of the queue, in any thread; the lock is released meanwhile.
void HostWorker::Core::run_next(std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<HostWork> work = std::move(first_);
  first_ = std::move(work->next);
  if (!first_) last_ = nullptr;
  running_ = work;
  const Clock::time_point began = Clock::now();
  deadline_ = began + options_.timeout;
  changed_.notify_all();  // waiters observe the deadline from here on
  lock.unlock();
  std::string error = execute(*work);
  lock.lock();
  running_ = nullptr;
  finish(*work, std::move(error), began);
  const bool more = first_ != nullptr;
  changed_.notify_all();
  if (more || stopping_) queued_.notify_one();
  // Destroying the last reference may take long.
  lock.unlock();
  work = nullptr;
  lock.lock();
}

/// With the lock held. The tensors are released: a Work that is kept does not keep them.
void HostWorker::Core::finish(HostWork& work, std::string error, Clock::time_point began) {
  work.began = began;
  work.ended = Clock::now();
  work.has_run = error.empty();
  work.error = std::move(error);
  work.done_.store(true, std::memory_order_release);
}

std::string HostWorker::Core::execute(HostWork& work) {
  const links::Interrupt interrupt{name(work.call.kind), aborted_, deadline_};
  std::string error;
  try {
    work.before.wait(interrupt);
    owner_.begun(work.call, work.sequence);
    run(work, interrupt);
    owner_.ended(work.call, work.sequence);
  } catch (const std::exception& e) {
    error = *e.what() ? e.what() : "failed";
  } catch (...) {
    error = "failed";
  }
  work.before = {};
  if (!error.empty()) {
    try {
      error = owner_.failed(work.call, work.sequence, error);
    } catch (const std::exception& e) {
      error = e.what();
    }
  }
  work.out = work.in = {};
  work.call.in = work.call.out = Tensor();
  return error;
}

void HostWorker::Core::run(HostWork& work, const links::Interrupt& interrupt) {
  const Call& call = work.call;
  const profiler::detail::LibraryRange range(profiler::Kind::communication, comm::name(call.kind));
  const bool staged = options_.staging == Staging::host;
  const auto reachable = [&](const Tensor& t) {
    return staged || (t.defined() && t.device().is_cpu());
  };
  if (reachable(call.out)) work.out = StagedTensor(call.out);
  if (reachable(call.in)) work.in = StagedTensor(call.in);
  work.in.fetch(interrupt);
  if (!call.in.defined()) work.out.fetch(interrupt);  // it works in place
  owner_.run({call, work.sequence, work.out.data(), work.in.data(), interrupt});
  work.out.put_back(interrupt);
}

void HostWorker::Core::wait(HostWork& work) {
  if (!work.done()) {
    std::unique_lock lock(mutex_);
    while (!work.done()) {
      if (options_.waiters == Waiters::help && first_ && !running_) {
        run_next(lock);
      } else if (running_) {
        const Clock::time_point limit = deadline_ + kGrace;
        if (changed_.wait_until(lock, limit) == std::cv_status::timeout && !work.done() &&
            running_ && Clock::now() >= deadline_ + kGrace)
          give_up(work, lock);
      } else {
        changed_.wait(lock);
      }
    }
  }
  if (!work.error.empty()) throw DistributedError(work.error);
}

/// Called if the running operation does not notice that its time has passed.
void HostWorker::Core::give_up(HostWork& work, std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<HostWork> stuck = running_;
  lock.unlock();
  Call call;  // without its tensors, which are no longer ours
  call.kind = stuck->call.kind;
  call.op = stuck->call.op;
  call.peer = stuck->call.peer;
  const std::string reason = owner_.failed(
      call, stuck->sequence, fmt::format("it did not end within {} ms", options_.timeout.count()));
  if (&work == stuck.get()) throw DistributedError(reason);
  fail<DistributedError>(name(work.call.kind), "the group was aborted: {}", reason);
}

void HostWorker::Core::abort(const std::string& reason) {
  std::shared_ptr<HostWork> dropped;
  {
    std::lock_guard lock(mutex_);
    if (aborted_.exchange(true)) return;
    reason_ = reason;
    dropped = std::move(first_);
    last_ = nullptr;
    const Clock::time_point now = Clock::now();
    for (HostWork* work = dropped.get(); work; work = work->next.get()) {
      try {
        fail<DistributedError>(name(work->call.kind), "the group was aborted: {}", reason);
      } catch (const DistributedError& e) {
        finish(*work, e.what(), now);
      }
    }
  }
  changed_.notify_all();
  while (dropped) {  // iteratively, not recursively through destructors
    dropped->call.in = dropped->call.out = Tensor();
    dropped->before = {};
    dropped = std::exchange(dropped->next, nullptr);
  }
}

void HostWorker::Core::stop() {
  std::unique_lock lock(mutex_);
  // Operations left to waiters that never waited.
  while (first_ || running_) {
    if (first_ && !running_)
      run_next(lock);
    else
      changed_.wait(lock);
  }
  stopping_ = true;
  std::thread thread = std::move(thread_);
  lock.unlock();
  queued_.notify_all();
  if (thread.joinable()) thread.join();
}

HostWorker::HostWorker(HostOperations& owner, const Options& options)
    : core_(std::make_shared<Core>(owner, options)) {}
HostWorker::~HostWorker() { stop(); }
Work HostWorker::submit(Call call, std::uint64_t sequence) {
  return core_->submit(std::move(call), sequence);
}
void HostWorker::abort(const std::string& reason) { core_->abort(reason); }
void HostWorker::stop() { core_->stop(); }

}  // namespace ferrite::parallel::comm
