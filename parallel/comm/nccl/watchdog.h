// Watchdog: the thread that looks after a group's operations. It notices those that take longer
// than the group's timeout, errors that NCCL finds behind the host's back, and ranks that the
// monitor says are lost; it then aborts the group and tells the other ranks.
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
  /// `abort(reason)` is called in its thread, once the group has failed. The others outlive it.
  Watchdog(const GroupContext& context, const Device& device, Communicator& communicator,
           std::shared_ptr<Failure> failure, std::function<void(const std::string&)> abort);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From here on it is looked after; in the order of the stream.
  void add(std::shared_ptr<Operation> operation);
  /// The failure has been set.
  void wake();
  /// Ends the thread.
  void stop();
  /// Once it is stopped: marks what has ended by now, which an abort after this does not undo.
  void settle();

  /// That `operation` takes too long, as an error says it: whoever is to blame by name, where that
  /// is known. May take a second.
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
