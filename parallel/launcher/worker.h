// WorkerProcess: a started program, in a process group of its own, with pipes as its stdout and
// stderr.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::launcher {

using parallel::links::Fd;

/// How a process ended.
struct Ending {
  int status = 0;  ///< as returned by waitpid()
  std::chrono::system_clock::time_point at{};

  bool good() const { return status == 0; }
  bool by_signal() const;
  /// The exit status, or 128 + signal if a signal ended it.
  int code() const;
  /// "was killed by SIGKILL", "exited with status 3".
  std::string str() const;
};

/// waitpid(2), whatever signals arrive.
void wait_for_end(pid_t pid);

class WorkerProcess {
 public:
  /// `environment` is the complete environment, "NAME=value". IoError if the program cannot be
  /// started. Call it only from the main thread: the worker dies with the thread that started it.
  WorkerProcess(const std::string& file, const std::vector<std::string>& argv,
                const std::vector<std::string>& environment);

  pid_t pid() const { return pid_; }  ///< also of its process group
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }
  std::chrono::system_clock::time_point started() const { return started_; }

  /// Sends to the group; continues it if it was stopped, so that it sees the signal.
  void send(int signal) const;
  /// Whether any process of the group exists.
  bool group_exists() const;

  std::optional<Ending> ending;  ///< set by the code that reaped it

 private:
  pid_t pid_ = -1;
  Fd out_, err_;
  std::chrono::system_clock::time_point started_;
};

}  // namespace ferrite::launcher
