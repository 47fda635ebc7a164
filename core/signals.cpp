#include "ferrite/core/signals.h"

#include <csignal>

namespace ferrite {

void ignore_unless_handled(int signal) {
  struct sigaction now {};
  if (sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
      now.sa_handler != SIG_DFL)
    return;
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  sigaction(signal, &ignored, nullptr);
}

}  // namespace ferrite
