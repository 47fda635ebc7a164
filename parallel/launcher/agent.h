// Agent: one node's part of a job. It starts the workers, passes on what they print and the signals
// that it gets, and has them started again where one fails.
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
  /// Blocks signals and makes the guard: to be called in the main thread, before there are others.
  explicit Agent(Options options);
  /// Runs the job; what the launcher is to exit with. Errors of ferrite for what cannot be started.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  /// Waits for anything to happen, at most until `deadline`, and deals with it.
  /// Until something happens, at most until then. Whether news of other nodes count: not where
  /// nobody takes them in.
  void pump(Clock::time_point deadline, bool nodes = true);
  void take_signals();
  void reap();

  /// Nothing where a signal or another node has ended the job.
  std::optional<Round> wait_for_round(int number);
  Verdict ended_elsewhere();
  void take_leave();
  Verdict run_workers(const Round& round);
  void settle();
  void tell_nodes(bool& told, const Round& round);
  void stop_workers();
  std::set<pid_t> strays() const;
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
  int interrupted_ = 0;  ///< the signal that asked for the end
  Clock::time_point interrupted_at_;
  bool kill_ = false;  ///< it was sent twice
};

}  // namespace ferrite::launcher
