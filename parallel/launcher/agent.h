// Agent: one node's part of a job. It starts the workers, forwards their output and the signals it
// receives, and restarts the workers when one fails.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "ferrite/parallel/launcher/guard.h"
#include "ferrite/parallel/launcher/local_workers.h"
#include "ferrite/parallel/launcher/nodes.h"
#include "ferrite/parallel/launcher/options.h"
#include "ferrite/parallel/launcher/output.h"
#include "ferrite/parallel/launcher/signals.h"

namespace ferrite::launcher {

class Agent {
 public:
  /// Blocks signals and creates the guard: call it in the main thread, before there are others.
  explicit Agent(Options options);
  /// Runs the job; returns the exit status of the launcher. Throws Ferrite's errors if something
  /// cannot be started.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  /// Waits for any event, at most until `deadline`, and handles it. `nodes`: whether news from
  /// other nodes count; false if the caller does not process them.
  void pump(Clock::time_point deadline, bool nodes = true);
  void take_signals();
  void reap();

  /// Nothing if a signal or another node has ended the job.
  std::optional<Round> wait_for_round(int number);
  Verdict ended_elsewhere();
  void wait_for_nodes_to_leave();
  Verdict run_workers(const Round& round);
  void settle();
  void tell_nodes(bool& told, const Round& round);
  void stop_workers();
  std::set<pid_t> orphans() const;
  void say(std::string_view text);
  void drain_consoles();

  Options options_;
  SignalFd signals_;
  Guard guard_;
  std::set<pid_t> inherited_;
  Console out_{1}, err_{2};
  std::string file_;
  std::unique_ptr<Nodes> nodes_;
  std::unique_ptr<LocalWorkers> workers_;
  int interrupted_ = 0;  ///< the signal that requested the end
  Clock::time_point interrupted_at_;
  bool kill_ = false;  ///< it was sent twice
};

}  // namespace ferrite::launcher
