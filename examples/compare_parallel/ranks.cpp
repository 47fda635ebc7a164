#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/measure.h"

namespace examples::compare {

using nlohmann::json;
using namespace ferrite;

namespace {

using Clock = std::chrono::steady_clock;

/// Over --timeout, which ends what waits for a rank: for the start of processes, and for what they
/// do between exchanges. And from a failure of one rank until the others are killed, which may know
/// better what has happened.
constexpr double kSlack = 30, kGrace = 2;

/// Set by a signal that asks the program to end: it then leaves no process and no folder behind.
volatile std::sig_atomic_t interrupted = 0;

void end_by_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupted = signal; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    // What nohup and shells have told it to ignore stays so.
    if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
}

class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "compare_parallel-XXXXXX").string()) {
    FERRITE_CHECK(mkdtemp(path_.data()), IoError, "compare_parallel", "cannot create the folder {}",
                  path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& kind, int rank) const {
    return fmt::format("{}/rank-{}.{}", path_, rank, kind);
  }

 private:
  std::string path_;
};

std::string read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The last line that is not empty, without "error: ".
std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line, last;
  while (std::getline(lines, line))
    if (!line.empty()) last = line;
  constexpr std::string_view kPrefix = "error: ";
  return last.starts_with(kPrefix) ? last.substr(kPrefix.size()) : last;
}

void put(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

/// What the program itself has inherited is not what was asked for.
void put_or_unset(const char* name, double value) {
  if (value > 0)
    put(name, fmt::format("{}", value));
  else
    unsetenv(name);
}

/// In the child, before it becomes the program.
void set_environment(const Options& o, const Job& job, int rank) {
  const int processes = processes_of(o, job);
  put("RANK", std::to_string(rank));
  put("LOCAL_RANK", std::to_string(rank));
  put("WORLD_SIZE", std::to_string(processes));
  put("LOCAL_WORLD_SIZE", std::to_string(processes));
  put("FERRITE_NUM_THREADS", std::to_string(job.what.threads));
  const LinkDelay delay = link_delay(o.link_delay);
  put_or_unset("FERRITE_LINK_DELAY_US", delay.microseconds);
  put_or_unset("FERRITE_LINK_GBPS", delay.gbps);
  // On one host Gloo's groups would take the ring for everything: `ddp` is to be Gloo's own
  // all-reduce, and so are the links that it is predicted from. What a slower network would cost is
  // asked of the ring.
  if (o.backend == "gloo")
    put("FERRITE_GLOO_ALL_REDUCE",
        job.what.strategy == "ddp-ring" || delay.any() ? "ring" : "gloo");
}

/// A process of the job. It holds the only other end of `pipe`, so it runs as long as that end is
/// open.
struct Process {
  pid_t pid = -1;
  int pipe = -1;
  std::optional<int> status = {};
};

class Processes {
 public:
  Processes(const Options& o, std::vector<std::string> arguments, const Job& job)
      : options_(o), job_(job), arguments_(std::move(arguments)) {
    end_by_signals();
    arguments_.insert(arguments_.end(), {"--worker", folder_.path(), "--job", json(job).dump()});
    for (int rank = 0; rank < processes_of(o, job); ++rank) processes_.push_back(start(rank));
  }
  ~Processes() {
    end_all(SIGKILL);
    for (Process& p : processes_) {
      if (!p.status) waitpid(p.pid, nullptr, 0);
      close(p.pipe);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  Outcome wait();

 private:
  Process start(int rank);
  bool reap();
  void end_all(int signal) {
    for (const Process& p : processes_)
      if (!p.status) kill(p.pid, signal);
  }
  std::string why(std::size_t rank) const;

  const Options& options_;
  const Job& job_;
  const Folder folder_;
  std::vector<std::string> arguments_;
  std::vector<Process> processes_;
  std::string error_;
  bool is_primary_ = false;  // error_ is of a rank that failed first, not because of another
};

Process Processes::start(int rank) {
  std::vector<char*> argv;
  for (std::string& word : arguments_) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];
  FERRITE_CHECK(pipe2(ends, O_CLOEXEC) == 0, IoError, "compare_parallel",
                "cannot create a pipe: {}", std::strerror(errno));
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int err = open(folder_.file("err", rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int null = open("/dev/null", O_WRONLY);
    if (err < 0 || null < 0 || dup2(null, 1) < 0 || dup2(err, 2) < 0) _exit(127);
    fcntl(ends[1], F_SETFD, 0);  // open for as long as the program runs
    set_environment(options_, job_, rank);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    fail<IoError>("compare_parallel", "cannot start a process: {}", std::strerror(errno));
  }
  return {child, ends[0]};
}

/// Whether a rank failed on its own, not because another one did.
bool failed_itself(int status) {
  return !WIFEXITED(status) || WEXITSTATUS(status) != kFailedWithOthers;
}

/// Notes the ranks that have ended, and the first one that failed on its own. Returns whether any
/// rank is left.
bool Processes::reap() {
  bool left = false;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    Process& p = processes_[rank];
    int status = 0;
    if (!p.status && waitpid(p.pid, &status, WNOHANG) == p.pid) {
      p.status = status;
      if (status == 0) continue;
      if (error_.empty() || (!is_primary_ && failed_itself(status))) {
        error_ = why(rank);
        is_primary_ = failed_itself(status);
      }
    }
    left = left || !p.status;
  }
  return left;
}

std::string Processes::why(std::size_t rank) const {
  const int status = *processes_[rank].status;
  const std::string said = last_line(read(folder_.file("err", static_cast<int>(rank))));
  const std::string who = processes_.size() == 1 ? "" : fmt::format("rank {}: ", rank);
  if (WIFSIGNALED(status))
    return fmt::format("{}ended by signal {} ({})", who, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  if (said.empty()) return fmt::format("{}exited with status {}", who, WEXITSTATUS(status));
  return who + said;
}

Outcome Processes::wait() {
  auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(options_.timeout + kSlack));
  bool failed = false;
  while (reap()) {
    if (!error_.empty() && !std::exchange(failed, true))
      deadline = std::min(deadline, Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                       std::chrono::duration<double>(kGrace)));
    if (Clock::now() > deadline) {
      if (error_.empty()) error_ = fmt::format("took more than {:g} s", options_.timeout + kSlack);
      end_all(SIGKILL);
      break;
    }
    FERRITE_CHECK(!interrupted, Error, "compare_parallel", "ended by signal {}",
                  static_cast<int>(interrupted));
    // Until one ends; nothing is done meanwhile that would disturb what they measure.
    std::vector<pollfd> fds;
    for (const Process& p : processes_)
      if (!p.status) fds.push_back({p.pipe, POLLIN, 0});
    const std::chrono::duration<double, std::milli> left = deadline - Clock::now();
    const int ready = poll(fds.data(), fds.size(), static_cast<int>(std::max(1.0, left.count())));
    // The pipe closes a moment before the process is one to be waited for.
    if (ready > 0) usleep(500);
  }
  if (!error_.empty()) return {error_, {}};
  Outcome outcome;
  for (int rank = 0; rank < static_cast<int>(processes_.size()); ++rank) {
    const json found = json::parse(read(folder_.file("json", rank)), nullptr, false);
    if (!found.is_array()) return {fmt::format("rank {} has not left a result", rank), {}};
    for (const json& one : found) outcome.ranks.push_back(one);
  }
  return outcome;
}

}  // namespace

Outcome run_processes(const Options& options, const std::vector<std::string>& arguments,
                      const Job& job) {
  return Processes(options, arguments, job).wait();
}

}  // namespace examples::compare
