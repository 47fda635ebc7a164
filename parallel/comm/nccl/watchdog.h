// Watchdog: the thread that supervises a group's operations. It detects operations that exceed the
// group's timeout, asynchronous NCCL errors, and lost ranks reported by the monitor; it then aborts
// the group and notifies the other ranks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/nccl/communicator.h"
#include "ferrite/parallel/comm/nccl/operation.h"

namespace ferrite::parallel::nccl {

class Watchdog {
 public:
  /// `abort(reason)` is called in its thread, once the group has failed. The other arguments
  /// outlive it.
  Watchdog(const GroupContext& context, const Device& device, Communicator& communicator,
           std::shared_ptr<Failure> failure, std::function<void(const std::string&)> abort);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Supervises the operation from here on; in stream order.
  void add(std::shared_ptr<Operation> operation);
  /// Call it after the failure was set.
  void wake();
  /// Ends the thread.
  void stop();
  /// After it was stopped: marks the operations that have ended by now, so that a later abort does
  /// not affect them.
  void settle();

  /// The message for an `operation` that exceeds the timeout, naming the rank to blame if that is
  /// known. May take a second.
  std::string blame(const Operation& operation, std::string_view what_happened) const;

 private:
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<Operation>> arrived;
    bool woken = false, stop = false;
  };

  void run();
  void look();
  void fail();

  const GroupContext context_;
  const Device device_;
  Communicator& communicator_;
  const std::shared_ptr<Failure> failure_;
  const std::function<void(const std::string&)> abort_;
  const std::shared_ptr<Inbox> inbox_;  // shared with the monitor
  std::deque<std::shared_ptr<Operation>> underway_;
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace ferrite::parallel::nccl
