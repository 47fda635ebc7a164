// LocalWorkers: the workers of one node in one round, and their output.
#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "ferrite/parallel/launcher/guard.h"
#include "ferrite/parallel/launcher/nodes.h"
#include "ferrite/parallel/launcher/output.h"
#include "ferrite/parallel/launcher/worker.h"

namespace ferrite::launcher {

class LocalWorkers {
 public:
  /// Starts them. IoError if that fails: those already started are killed.
  LocalWorkers(const Options& options, const Round& round, const std::string& file, Guard& guard,
               Console& out, Console& err);
  /// Kills the remaining ones.
  ~LocalWorkers();
  LocalWorkers(const LocalWorkers&) = delete;
  LocalWorkers& operator=(const LocalWorkers&) = delete;

  /// Adds the streams to read from.
  void add_to(std::vector<pollfd>& fds) const;
  void read_output();
  /// A process has ended; returns false if it is not one of these.
  bool reaped(pid_t pid, int status);

  void send(int signal) const;
  /// Whether all workers have ended, and how.
  bool ended() const;
  bool succeeded() const;
  /// Whether no process of their process groups is left.
  bool gone() const;
  /// Reads the rest of their output, and completes its last lines.
  void finish_output();

  /// Whether a rank has failed.
  bool failed() const { return !failed_.empty(); }
  /// The ranks that failed before they were told to end, or the first that failed after that: first
  /// those that were ended by a signal, then by time.
  std::vector<RankReport> failures() const;
  /// The state of a local rank, whether it has ended or not.
  RankReport report(int local_rank) const;
  int size() const { return static_cast<int>(workers_.size()); }
  /// From now on processes end because they were told to.
  void expect_endings() { expected_ = true; }

 private:
  struct Worker {
    WorkerProcess process;
    WorkerOutput out, err;
    bool told = false;          ///< it ended after it was told to
    mutable bool gone = false;  ///< its whole group has ended, whose number may be reused
  };
  bool left(const Worker& worker) const;
  void start(const std::string& file, int local_rank, Console& out, Console& err);

  const Options& options_;
  const Round& round_;
  Guard& guard_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<int> failed_;  // local ranks, in the order in which they were reaped
  bool expected_ = false;
};

}  // namespace ferrite::launcher
