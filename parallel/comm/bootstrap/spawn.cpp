#include "ferrite/parallel/comm/bootstrap/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/socket.h"

extern char** environ;

namespace ferrite::parallel {

namespace {

using links::Fd;
using SpawnClock = std::chrono::steady_clock;

constexpr const char* kSpawn = "spawn";
/// In a started process: "rank call fd parent", where `call` is the number of the call in the
/// program, `fd` the pipe for the message of an exception, and `parent` the process that called
/// spawn(). Programs that the started process starts inherit the variable; it is not about them.
constexpr const char* kSpawnedAs = "FERRITE_SPAWN";
/// What a process sends before it calls the function, and before the message of an exception, by
/// whether other ranks are the reason.
constexpr char kBegun = 'b', kOwn = 'o', kOfOthers = 'd';
/// From a failure that is the loss of a rank to the end of the others, one of which may know more;
/// and from SIGTERM to SIGKILL.
constexpr auto kKnowMore = std::chrono::seconds(2), kGrace = std::chrono::seconds(5);
/// The end of a process closes its pipe, unless a process that it forked still has it. How often
/// processes are looked at: before their pipes are closed, and then, as they are about to end.
constexpr auto kLookAgain = std::chrono::milliseconds(500), kEnding = std::chrono::milliseconds(5);

struct Spawned {
  int rank = 0, call = 0, fd = -1, parent = 0;
};

std::optional<Spawned> read_place() {
  const char* text = std::getenv(kSpawnedAs);
  Spawned place;
  if (!text ||
      std::sscanf(text, "%d %d %d %d", &place.rank, &place.call, &place.fd, &place.parent) != 4)
    return {};
  if (getppid() != place.parent) return {};
  return place;
}

/// As it was when this was called first: the parent may end before this process.
const std::optional<Spawned>& spawned_as() {
  static const std::optional<Spawned> place = read_place();
  return place;
}

const char* set_variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

// ---- In a started process

void send(const Spawned& place, std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(place.fd, text.data(), text.size());
}

[[noreturn]] void run(const std::function<void(int)>& f, const Spawned& place) {
  fcntl(place.fd, F_SETFD, FD_CLOEXEC);
  send(place, std::string_view(&kBegun, 1));
  std::string failure;
  try {
    f(place.rank);
  } catch (const DistributedError& error) {
    failure = kOfOthers + std::string(error.what());
  } catch (const std::exception& error) {
    failure = kOwn + std::string(error.what());
  } catch (...) {
    failure = kOwn + std::string("an exception that is no std::exception");
  }
  std::cout.flush();
  std::fflush(nullptr);
  send(place, failure);
  // The objects of main() are no longer in use, and are not destroyed.
  _exit(failure.empty() ? 0 : 1);
}

// ---- In the program that starts them

std::string free_port() {
  return std::to_string(links::local_address(links::listen_at({"127.0.0.1", 0}, 1)).port);
}

std::string secret() {
  std::array<unsigned char, 16> bytes{};
  FERRITE_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
                IoError, kSpawn, "no random numbers: {}", std::strerror(errno));
  std::string text;
  for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

using Environment = std::map<std::string, std::string>;

/// What the processes have in common.
Environment common_environment(int nprocs, const SpawnOptions& o) {
  Environment all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (const auto equals = text.find('='); equals != std::string_view::npos)
      all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  // Variables of a launcher that started this program describe another job.
  for (const char* name : {"FERRITE_STORE", "FERRITE_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
                           "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"})
    all.erase(name);
  all["WORLD_SIZE"] = std::to_string(o.nodes * nprocs);
  all["LOCAL_WORLD_SIZE"] = std::to_string(nprocs);
  if (!o.master_addr.empty()) all["MASTER_ADDR"] = o.master_addr;
  if (o.master_port > 0) all["MASTER_PORT"] = std::to_string(o.master_port);
  if (o.nodes == 1) {
    if (o.master_addr.empty()) all["MASTER_ADDR"] = "127.0.0.1";
    if (o.master_port == 0) all["MASTER_PORT"] = free_port();
    all["FERRITE_TOKEN"] = secret();
  }
  FERRITE_CHECK(!all["MASTER_ADDR"].empty() && !all["MASTER_PORT"].empty(), ValueError, kSpawn,
                "several nodes need master_addr and master_port, or MASTER_ADDR and MASTER_PORT: "
                "the address of the node with node_rank 0, and a free port there");
  if (!set_variable("OMP_NUM_THREADS") && !set_variable("FERRITE_NUM_THREADS"))
    all["FERRITE_NUM_THREADS"] =
        std::to_string(std::max(static_cast<int>(std::thread::hardware_concurrency()) / nprocs, 1));
  return all;
}

std::vector<std::string> command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

struct Process {
  pid_t pid = -1;
  int rank = 0;
  Fd pipe;  ///< where its message arrives; invalid after its end
  std::string sent = {};
  std::optional<int> status = {};

  bool has_begun() const { return sent.starts_with(kBegun); }
  bool has_failed() const { return status && (*status != 0 || !has_begun()); }
  /// Whether its exception is that other ranks failed.
  bool failed_by_others() const { return sent.size() > 1 && sent[1] == kOfOthers; }
  /// Why it failed.
  std::string why() const;
};

std::string Process::why() const {
  if (sent.size() > 2) return sent.substr(2);
  if (WIFSIGNALED(*status))
    return fmt::format("it was ended by signal {} ({})", WTERMSIG(*status),
                       strsignal(WTERMSIG(*status)));
  const int code = WEXITSTATUS(*status);
  if (has_begun()) return fmt::format("it exited with status {}", code);
  return fmt::format(
      "it exited with status {} before its main() had come to spawn(), which it must reach with "
      "the "
      "same command line in each process",
      code);
}

Process start(const Environment& common, std::vector<std::string>& words, int rank, int local_rank,
              int call) {
  std::array<int, 2> ends{};
  FERRITE_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, IoError, kSpawn, "no pipe: {}",
                std::strerror(errno));
  const Fd write_end(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Process process{.rank = rank, .pipe = Fd(ends[0])};
  Environment own = common;
  own["RANK"] = std::to_string(rank);
  own["LOCAL_RANK"] = std::to_string(local_rank);
  const pid_t parent = getpid();
  own[kSpawnedAs] = fmt::format("{} {} {} {}", rank, call, write_end.get(), parent);
  std::vector<std::string> variables;
  for (const auto& [name, value] : own) variables.push_back(fmt::format("{}={}", name, value));
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);
  process.pid = fork();
  FERRITE_CHECK(process.pid >= 0, IoError, kSpawn, "cannot start a process: {}",
                std::strerror(errno));
  if (process.pid > 0) return process;
  // Only calls that are safe after a fork() of a process with threads.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  fcntl(write_end.get(), F_SETFD, 0);
  execve("/proc/self/exe", argv.data(), envp.data());
  _exit(127);
}

class Processes {
 public:
  Processes() = default;
  ~Processes() {
    send(SIGKILL);
    for (Process& p : processes_)
      if (!p.status) waitpid(p.pid, nullptr, 0);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void start_all(const Environment& common, int nprocs, const SpawnOptions& o, int call) {
    std::vector<std::string> words = command_line();
    for (int i = 0; i < nprocs; ++i)
      processes_.push_back(start(common, words, o.node_rank * nprocs + i, i, call));
  }
  /// The failure to report; null if there was none.
  const Process* wait() {
    std::optional<SpawnClock::time_point> deadline;  // of those that are left, once one has failed
    bool asked = false;
    while (await_news(deadline)) {
      const Process* failed = failure();
      if (!failed) continue;
      if (!deadline && failed->failed_by_others()) deadline = SpawnClock::now() + kKnowMore;
      if (!deadline || (!asked && !failed->failed_by_others())) deadline = SpawnClock::now();
      if (SpawnClock::now() < *deadline) continue;
      send(std::exchange(asked, true) ? SIGKILL : SIGTERM);
      deadline = SpawnClock::now() + kGrace;
    }
    return failure();
  }

 private:
  void send(int signal) {
    told_ = told_ ? told_ : failure();  // what ends from here on is no reason
    for (const Process& p : processes_)
      if (!p.status) kill(p.pid, signal);
  }
  /// A process that failed, preferably on its own rather than because of another one.
  const Process* failure() const {
    if (told_) return told_;
    const Process* found = nullptr;
    for (const Process& p : processes_)
      if (p.has_failed() && (!found || (found->failed_by_others() && !p.failed_by_others())))
        found = &p;
    return found;
  }
  /// Waits for messages and ends of processes; false if all have ended.
  bool await_news(std::optional<SpawnClock::time_point> deadline) {
    std::vector<pollfd> fds;
    auto timeout = kLookAgain;
    bool all_ended = true;
    for (const Process& p : processes_) {
      if (p.status) continue;
      all_ended = false;
      if (p.pipe.valid())
        fds.push_back({p.pipe.get(), POLLIN, 0});
      else
        timeout = kEnding;
    }
    if (all_ended) return false;
    using std::chrono::milliseconds;
    if (deadline)
      timeout = std::clamp(std::chrono::ceil<milliseconds>(*deadline - SpawnClock::now()),
                           milliseconds(0), timeout);
    poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
    for (Process& p : processes_) {
      if (p.status) continue;
      int status = 0;
      const bool ended = waitpid(p.pid, &status, WNOHANG) == p.pid;
      read_from(p);  // after it has ended, all of its message is there
      if (ended) p.status = status;
    }
    return true;
  }
  static void read_from(Process& p) {
    std::array<char, 4096> bytes{};
    while (p.pipe.valid()) {
      const ssize_t n = read(p.pipe.get(), bytes.data(), bytes.size());
      if (n > 0)
        p.sent.append(bytes.data(), static_cast<std::size_t>(n));
      else if (n == 0)
        p.pipe.reset();
      else if (errno != EINTR)
        return;
    }
  }

  std::vector<Process> processes_;
  const Process* told_ = nullptr;
};

}  // namespace

bool is_spawned() { return spawned_as().has_value(); }

void spawn(const std::function<void(int)>& f, int nprocs, const SpawnOptions& options) {
  FERRITE_CHECK(nprocs > 0, ValueError, kSpawn, "expected 1 process or more, got {}", nprocs);
  FERRITE_CHECK(options.nodes > 0 && options.node_rank >= 0 && options.node_rank < options.nodes,
                ValueError, kSpawn, "expected a node_rank from 0 to {}, below nodes, got {}",
                options.nodes - 1, options.node_rank);
  static std::atomic<int> calls = 0;
  const int call = ++calls;
  if (const std::optional<Spawned> place = spawned_as()) {
    FERRITE_CHECK(call <= place->call, ValueError, kSpawn,
                  "a spawned process cannot spawn others: it is rank {} of a call that runs",
                  place->rank);
    if (call < place->call) return;
    run(f, *place);
  }
  Processes processes;
  processes.start_all(common_environment(nprocs, options), nprocs, options, call);
  if (const Process* failed = processes.wait())
    fail<DistributedError>(kSpawn, "rank {}: {}", failed->rank, failed->why());
}

}  // namespace ferrite::parallel
