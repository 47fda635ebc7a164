#include "ferrite/parallel/launcher/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ferrite/core/error.h"
#include "ferrite/parallel/launcher/host.h"

namespace ferrite::launcher {
namespace {

struct Pipe {
  Fd read, write;
  Pipe() {
    std::array<int, 2> ends{};
    FERRITE_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, IoError, kOp, "no pipe: {}",
                  std::strerror(errno));
    read = Fd(ends[0]);
    write = Fd(ends[1]);
  }
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Start {
  const char* file;
  char* const* argv;
  char* const* environment;
  pid_t agent;
  int in, out, err, failure;
};

/// Runs in the child: only calls that are safe after a fork() of a process with threads.
[[noreturn]] void become(const Start& start) {
  const auto failed = [&] {
    const int error = errno;
    [[maybe_unused]] const ssize_t n = write(start.failure, &error, sizeof error);
    _exit(127);
  };
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.agent) _exit(127);
  if (dup2(start.in, 0) < 0 || dup2(start.out, 1) < 0 || dup2(start.err, 2) < 0) failed();
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(start.file, start.argv, start.environment);
  failed();
  _exit(127);
}

}  // namespace

void wait_for_end(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Ending::by_signal() const { return WIFSIGNALED(status); }

int Ending::code() const { return by_signal() ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string Ending::str() const {
  if (!by_signal()) return fmt::format("exited with status {}", WEXITSTATUS(status));
  return fmt::format("was ended by {}{}", signal_name(WTERMSIG(status)),
                     WCOREDUMP(status) ? " (core dumped)" : "");
}

WorkerProcess::WorkerProcess(const std::string& file, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment) {
  Pipe out, err, failure;
  const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto arguments = pointers(argv), variables = pointers(environment);
  const Start start{.file = file.c_str(),
                    .argv = arguments.data(),
                    .environment = variables.data(),
                    .agent = getpid(),
                    .in = nothing.get(),
                    .out = out.write.get(),
                    .err = err.write.get(),
                    .failure = failure.write.get()};
  started_ = std::chrono::system_clock::now();
  pid_ = fork();
  if (pid_ == 0) become(start);
  FERRITE_CHECK(pid_ > 0, IoError, kOp, "cannot start a process: {}", std::strerror(errno));
  setpgid(pid_, pid_);  // like the child does: whichever comes first

  failure.write.reset();
  int error = 0;
  ssize_t n = 0;
  while ((n = ::read(failure.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n == sizeof error) {
    waitpid(pid_, nullptr, 0);
    if (error == ENOEXEC || error == EACCES || error == ENOENT)  // ENOENT: that of its interpreter
      throw CannotStart(
          fmt::format("[{}] cannot execute {}: {}{}", kOp, file, std::strerror(error),
                      error == ENOEXEC ? " (a script begins with #! and its interpreter)" : ""),
          126);
    fail<IoError>(kOp, "cannot start {}: {}", file, std::strerror(error));
  }
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  for (const int fd : {out_.get(), err_.get()}) fcntl(fd, F_SETFL, O_NONBLOCK);
}

void WorkerProcess::send(int signal) const {
  kill(-pid_, signal);
  if (signal != SIGKILL) kill(-pid_, SIGCONT);
}

bool WorkerProcess::group_exists() const { return kill(-pid_, 0) == 0 || errno == EPERM; }

}  // namespace ferrite::launcher
