// LocalWorkers: the workers of one node in one round, with what they print.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <vector>

#include "ferrite/parallel/launcher/guard.h"
#include "ferrite/parallel/launcher/nodes.h"
#include "ferrite/parallel/launcher/output.h"
#include "ferrite/parallel/launcher/worker.h"

namespace ferrite::launcher {

class LocalWorkers {
 public:
  /// Starts them. IoError where that cannot be: those that were started are killed.
  LocalWorkers(const Options& options, const Round& round, const std::string& file, Guard& guard,
               Console& out, Console& err);
  /// Kills what is left.
  ~LocalWorkers();
  LocalWorkers(const LocalWorkers&) = delete;
  LocalWorkers& operator=(const LocalWorkers&) = delete;

  /// Adds the streams to be read from.
  void add_to(std::vector<pollfd>& fds) const;
  void read_output();
  /// A process has ended; false where it is none of these.
  bool reaped(pid_t pid, int status);

  void send(int signal) const;
  /// Whether all workers have ended, and whether well.
  bool ended() const;
  bool succeeded() const;
  /// Whether nothing is left of them and their process groups.
  bool gone() const;
  /// Reads the rest of what they have printed, and ends its last lines.
  void finish_output();

  /// The rank that failed first, if any did: of those that were reaped together one that a signal
  /// ended.
  std::optional<RankReport> first_failure() const;
  /// What became of a local rank that has ended, or has not.
  RankReport report(int local_rank) const;
  int size() const { return static_cast<int>(workers_.size()); }
  /// From now on processes end because they are told to.
  void expect_endings() { expected_ = true; }
  /// To be called when a batch of processes has been reaped.
  void end_batch();

 private:
  struct Worker {
    WorkerProcess process;
    WorkerOutput out, err;
    bool told = false;          ///< it ended after it was told to
    mutable bool gone = false;  ///< with its whole group, whose number others may have taken
  };
  bool left(const Worker& worker) const;
  void start(const std::string& file, int local_rank, Console& out, Console& err);

  const Options& options_;
  const Round& round_;
  Guard& guard_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<int> batch_;  // local ranks that failed, in the order they were reaped
  std::optional<int> first_;
  bool expected_ = false;
};

}  // namespace ferrite::launcher
