// Guard: a small process that kills the workers' process groups if the agent itself is killed. (A
// worker dies with the agent anyway, by PR_SET_PDEATHSIG; its children do not.)
#pragma once

#include <sys/types.h>

namespace ferrite::launcher {

class Guard {
 public:
  /// Create it before the process has threads.
  Guard();
  /// Ends the guard, which kills the groups it still watches.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group);
  void forget(pid_t group);  ///< its number may be reused from now on
  pid_t pid() const { return pid_; }

 private:
  void tell(pid_t group, bool watched);

  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace ferrite::launcher
