// Guard: a small process beside the agent that kills the workers' process groups should the agent
// itself be killed. (A worker dies with the agent anyway, by PR_SET_PDEATHSIG; what it has started
// does not.)
#pragma once

#include <sys/types.h>

namespace ferrite::launcher {

class Guard {
 public:
  /// To be made before the process has threads.
  Guard();
  /// Ends the guard, which kills what it still watches.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group);
  void forget(pid_t group);  ///< its number may be taken by others from now on
  pid_t pid() const { return pid_; }

 private:
  void tell(pid_t group, bool watched);

  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace ferrite::launcher
