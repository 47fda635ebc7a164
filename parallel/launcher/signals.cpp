#include "ferrite/parallel/launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ferrite/core/error.h"

namespace ferrite::launcher {

SignalFd::SignalFd() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);  // if it were ignored, waiting for children would be impossible
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    sigaddset(&set, number);
  }
  FERRITE_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, Error, "ferrite-run",
                "signals cannot be blocked");
  fd_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  FERRITE_CHECK(fd_.valid(), Error, "ferrite-run", "no signalfd: {}", std::strerror(errno));
}

std::vector<int> SignalFd::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof info) == sizeof info)
    signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

bool asks_for_end(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace ferrite::launcher
