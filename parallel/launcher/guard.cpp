#include "ferrite/parallel/launcher/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/launcher/worker.h"

namespace ferrite::launcher {
namespace {

struct Message {
  pid_t group;
  int watched;
};

/// Runs until the agent's end of the pipe is closed, by it or by its death.
[[noreturn]] void guard(int pipe) {
  setsid();
  prctl(PR_SET_NAME, "ferrite-guard");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  // Readers of the agent's output must not wait for this process.
  dup2(pipe, 0);
  close_range(1, ~0U, 0);
  std::vector<pid_t> groups;
  for (Message message{};;) {
    const ssize_t n = read(0, &message, sizeof message);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof message) break;
    std::erase(groups, message.group);
    if (message.watched) groups.push_back(message.group);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guard::Guard() {
  std::array<int, 2> ends{};
  FERRITE_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, Error, "ferrite-run", "no pipe: {}",
                std::strerror(errno));
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    guard(ends[0]);
  }
  const int error = errno;
  close(ends[0]);
  pipe_ = ends[1];
  if (pid_ < 0) close(pipe_);
  FERRITE_CHECK(pid_ > 0, Error, "ferrite-run", "cannot start a process: {}", std::strerror(error));
}

Guard::~Guard() {
  close(pipe_);
  wait_for_end(pid_);
}

void Guard::watch(pid_t group) { tell(group, true); }
void Guard::forget(pid_t group) { tell(group, false); }

void Guard::tell(pid_t group, bool watched) {
  const Message message{group, watched};
  // A killed guard is not an error: SIGPIPE is ignored.
  while (write(pipe_, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

}  // namespace ferrite::launcher
