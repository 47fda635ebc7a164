#include "ferrite/tests/parallel/launched.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "ferrite/tests/paths.h"

namespace ferrite::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kDeadline = std::chrono::seconds(100);
constexpr auto kMoment = std::chrono::milliseconds(2);

}  // namespace

Launched::Launched(std::vector<std::string> arguments, const Environment& environment,
                   int stdout_fd) {
  static int count = 0;
  mark_ = "FERRITE_TEST_MARK=" + std::to_string(getpid()) + "." + std::to_string(count++);
  const std::string program = bin_dir() + "/ferrite-run";
  REQUIRE_MESSAGE(std::filesystem::exists(program), program, " is missing: build it first");
  arguments.insert(arguments.begin(), {program, "--restart-backoff=0.01"});

  std::vector<std::string> variables = {mark_};
  for (char** v = environ; *v; ++v) {
    const std::string_view text = *v;
    const std::string name(text.substr(0, text.find('=')));
    if (!environment.contains(name) && !name.starts_with("PET_") && name != "OMP_NUM_THREADS" &&
        name != "FERRITE_NUM_THREADS" && name != "FERRITE_TOKEN")
      variables.emplace_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
    out.push_back(nullptr);
    return out;
  };
  const auto argv = pointers(arguments), envp = pointers(variables);
  const std::string folder = folder_.path().string();
  const pid_t parent = getpid();

  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(folder.c_str()) != 0) _exit(99);
    for (const int number : {SIGINT, SIGHUP, SIGQUIT}) ::signal(number, SIG_DFL);
    const int out = stdout_fd >= 0 ? stdout_fd : open(".out", O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int err = open(".err", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(99);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(99);
  }
}

Launched::~Launched() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  for (const pid_t pid : descendants()) kill(pid, SIGKILL);
}

void Launched::signal(int number) const { REQUIRE(kill(pid_, number) == 0); }

bool Launched::wait_for_output(std::string_view text, int times) const {
  const auto deadline = Clock::now() + kDeadline;
  while (Clock::now() < deadline) {
    if (occurrences(out(), text) + occurrences(err(), text) >= times) return true;
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_)
      return occurrences(out(), text) + occurrences(err(), text) >= times;
    std::this_thread::sleep_for(kMoment);
  }
  return false;
}

int Launched::wait() {
  const auto deadline = Clock::now() + kDeadline;
  int status = 0;
  for (;;) {
    const pid_t done = waitpid(pid_, &status, WNOHANG);
    if (done == pid_) break;
    if (Clock::now() > deadline) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      pid_ = -1;
      return -1;
    }
    std::this_thread::sleep_for(kMoment);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Launched::out() const { return read_file(folder_ / ".out"); }
std::string Launched::err() const { return read_file(folder_ / ".err"); }

/// Found by the mark in their environment, whatever their parents are now.
std::vector<pid_t> Launched::descendants() const {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == pid_) continue;
    const std::string environment = read_file(entry.path() / "environ");
    if (environment.find(mark_ + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

bool Launched::nothing_left() const {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (!descendants().empty()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(kMoment);
  }
  return true;
}

LaunchResult launch(std::vector<std::string> arguments, const Launched::Environment& environment) {
  Launched run(std::move(arguments), environment);
  const int code = run.wait();
  CHECK_MESSAGE(code != -1, "did not end: ", run.err());
  CHECK(run.descendants().empty());
  return {code, run.out(), run.err()};
}

std::vector<std::string> with_script(std::vector<std::string> options, const std::string& script) {
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

int occurrences(std::string_view text, std::string_view part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++n;
  return n;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace ferrite::test
