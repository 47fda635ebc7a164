// Signals as something to be read: they are blocked, and come through a file descriptor.
#pragma once

#include <signal.h>

#include <vector>

#include "ferrite/parallel/launcher/worker.h"

namespace ferrite::launcher {

class SignalFd {
 public:
  /// Blocks SIGCHLD and the signals that are passed on, in this thread and those that it will
  /// start; what the process was started to ignore (nohup, background jobs) stays ignored. Ignores
  /// SIGPIPE and SIGXFSZ: what cannot be written is told.
  SignalFd();
  int fd() const { return fd_.get(); }
  /// Those that have come since.
  std::vector<int> take();

 private:
  Fd fd_;
};

/// Whether this signal asks for the end of the job.
bool asks_for_end(int signal);

}  // namespace ferrite::launcher
