// Signals delivered through a file descriptor: they are blocked, and read from it.
#pragma once

#include <signal.h>

#include <vector>

#include "ferrite/parallel/launcher/worker.h"

namespace ferrite::launcher {

class SignalFd {
 public:
  /// Blocks SIGCHLD and the forwarded signals, in this thread and those that it will start; signals
  /// ignored at the start of the process (nohup, background jobs) stay ignored. Ignores SIGPIPE and
  /// SIGXFSZ, because write errors are reported.
  SignalFd();
  int fd() const { return fd_.get(); }
  /// The signals received since the last call.
  std::vector<int> take();

 private:
  Fd fd_;
};

/// Whether this signal requests the end of the job.
bool asks_for_end(int signal);

}  // namespace ferrite::launcher
