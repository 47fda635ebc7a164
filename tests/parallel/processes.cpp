#include "ferrite/tests/parallel/processes.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "ferrite/parallel/comm/links/socket.h"

extern char** environ;

namespace ferrite::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTestCase = "(a rank's process)";
constexpr const char* kFunction = "FERRITE_TEST_RANK_FUNCTION";
constexpr const char* kJob = "FERRITE_TEST_JOB";
constexpr const char* kFolder = "FERRITE_TEST_JOB_FOLDER";

std::map<std::string, void (*)()>& functions() {
  static std::map<std::string, void (*)()> all;
  return all;
}

// Set by launchers; would give a rank another identity.
bool from_a_launcher(std::string_view variable) {
  for (std::string_view prefix :
       {"OMPI_", "PMIX_", "PMI_", "SLURM_", "TORCHELASTIC_", "GROUP_", "ROLE_", "FERRITE_TEST_",
        "FERRITE_RUN_", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "MASTER_ADDR=",
        "MASTER_PORT=", "TMPDIR="})
    if (variable.starts_with(prefix)) return true;
  return false;
}

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  std::error_code gone;  // entries of other programs come and go
  for (fs::directory_iterator i(folder, gone), end; !gone && i != end; i.increment(gone))
    names.insert(i->path().filename().string());
  return names;
}

// The processes with this text in their environment.
std::vector<pid_t> processes_of(const std::string& job) {
  std::vector<pid_t> found;
  for (const std::string& name : names_in("/proc")) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || *end != '\0' || pid == getpid()) continue;
    std::ifstream file("/proc/" + name + "/environ", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find(job + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

/// The local and the remote port: on one host these identify a connection, which one port does not.
using Ports = std::pair<unsigned, unsigned>;

// The TCP connections of a process, as seen from its end.
std::set<Ports> tcp_ports_of(pid_t pid) {
  std::set<std::string> sockets;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const std::string& name : names_in(folder.c_str())) {
    char target[64];
    const ssize_t length = readlink((folder + "/" + name).c_str(), target, sizeof target);
    const std::string_view text(target, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    if (text.starts_with("socket:[")) sockets.emplace(text.substr(8, text.size() - 9));
  }
  const auto port = [](const std::string& address) {
    return static_cast<unsigned>(std::stoul(address.substr(address.find(':') + 1), nullptr, 16));
  };
  std::set<Ports> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line, field;
    std::getline(file, line);  // titles
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::vector<std::string> fields;
      while (words >> field) fields.push_back(field);
      if (fields.size() < 10 || !sockets.contains(fields[9])) continue;
      ports.emplace(port(fields[1]), port(fields[2]));
    }
  }
  return ports;
}

// A file: the rank that is cut off, and the ports of its connections.
constexpr const char* kCut = "/cut";
char cut_path[PATH_MAX];

unsigned port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

// Runs in every rank's process: makes its sockets drop traffic to and from the rank that is cut
// off. System calls only.
void drop_packets(int) {
  const int error = errno;
  static char text[1 << 16];
  const int file = open(cut_path, O_RDONLY | O_CLOEXEC);
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  static unsigned numbers[1 << 13];
  std::size_t count = 0;
  unsigned number = 0;
  for (ssize_t i = 0; i < size && count < std::size(numbers); ++i) {
    if (text[i] != ' ') {
      number = 10 * number + static_cast<unsigned>(text[i] - '0');
      continue;
    }
    numbers[count++] = number;
    number = 0;
  }
  const bool victim = count > 0 && numbers[0] == static_cast<unsigned>(getpid());
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program = {1, &drop};
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int last = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096));
  for (int fd = 3; fd < last; ++fd) {
    int domain = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) continue;
    if (domain != AF_INET && domain != AF_INET6) continue;
    sockaddr_storage own{}, peer{};
    length = sizeof own;
    bool connected = getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
    length = sizeof peer;
    // A listening socket has no peer.
    connected = connected && getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
    bool of_victim = false;
    for (std::size_t i = 1; connected && i + 1 < count; i += 2)
      of_victim |= numbers[i] == port_of(peer) && numbers[i + 1] == port_of(own);
    if (of_victim != victim)  // the victim's connections to itself are kept
      setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  }
  errno = error;
}

}  // namespace

TEST_CASE("(a rank's process)" * doctest::skip()) {
  const char* const name = std::getenv(kFunction);
  REQUIRE(name != nullptr);
  struct sigaction action {};
  const std::string path = job_folder() + kCut;
  REQUIRE(path.size() < sizeof cut_path);
  std::memcpy(cut_path, path.c_str(), path.size() + 1);
  action.sa_handler = drop_packets;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
  const auto found = functions().find(name);
  REQUIRE_MESSAGE(found != functions().end(), "no such rank function: ", name);
  found->second();
}

RankFunction::RankFunction(const char* name, void (*function)()) {
  if (!functions().emplace(name, function).second) {
    std::fprintf(stderr, "two rank functions are called %s\n", name);
    std::abort();
  }
}

std::string RankResult::describe() const {
  if (timed_out) return "still running at the deadline";
  if (signal != 0) return "killed by signal " + std::to_string(signal);
  return "exit status " + std::to_string(code);
}

struct Process {
  pid_t pid = -1;
  int handle = -1;  // pidfd: readable when it has ended
  int out = -1;
  bool ended = false;
  RankResult result;
};

struct RankProcesses::State {
  std::vector<Process> ranks;
  std::string job;
  fs::path folder;
  std::set<std::string> shared_memory;
  Clock::time_point deadline;

  void start(Process& process, const std::vector<std::string>& environment,
             const std::vector<std::string>& arguments);
  void read(Process& process);
  void reap(Process& process);
  void pump(Clock::time_point until);
  void kill_running(bool timed_out);
};

void RankProcesses::State::start(Process& process, const std::vector<std::string>& environment,
                                 const std::vector<std::string>& arguments) {
  std::vector<char*> argv, envp;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  for (const std::string& e : environment) envp.push_back(const_cast<char*>(e.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t parent = getpid();
  process.pid = fork();
  REQUIRE(process.pid >= 0);
  if (process.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  close(ends[1]);
  process.out = ends[0];
  fcntl(process.out, F_SETFL, O_NONBLOCK);
  process.handle = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  REQUIRE(process.handle >= 0);
}

void RankProcesses::State::read(Process& process) {
  char buffer[16384];
  while (process.out >= 0) {
    const ssize_t got = ::read(process.out, buffer, sizeof buffer);
    if (got > 0) {
      process.result.output.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    close(process.out);
    process.out = -1;
  }
}

void RankProcesses::State::reap(Process& process) {
  int status = 0;
  while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) continue;
  process.ended = true;
  if (WIFEXITED(status)) process.result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) process.result.signal = WTERMSIG(status);
  read(process);
  if (process.out >= 0) close(process.out);  // a child process may hold the other end
  close(process.handle);
  process.out = process.handle = -1;
}

// Waits until something happens, or the deadline passes.
void RankProcesses::State::pump(Clock::time_point until) {
  std::vector<pollfd> waited;
  std::vector<Process*> whose;
  for (Process& p : ranks) {
    if (p.ended) continue;
    waited.push_back({p.handle, POLLIN, 0});
    whose.push_back(&p);
    if (p.out < 0) continue;
    waited.push_back({p.out, POLLIN, 0});
    whose.push_back(&p);
  }
  const auto left =
      std::max(0ns, std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now()));
  const timespec time = {static_cast<time_t>(left / 1s), static_cast<long>((left % 1s).count())};
  if (ppoll(waited.data(), waited.size(), &time, nullptr) <= 0) return;
  for (std::size_t i = 0; i < waited.size(); ++i) {
    Process& p = *whose[i];
    if (waited[i].revents == 0 || p.ended) continue;
    waited[i].fd == p.handle ? reap(p) : read(p);
  }
}

void RankProcesses::State::kill_running(bool timed_out) {
  for (Process& p : ranks) {
    if (p.ended || p.pid < 0) continue;
    kill(p.pid, SIGKILL);
    p.result.timed_out = timed_out;
  }
  for (Process& p : ranks)
    if (!p.ended && p.pid >= 0) reap(p);
}

RankProcesses::RankProcesses(std::string_view function, int ranks, const ProcessOptions& options)
    : state_(std::make_unique<State>()) {
  static std::atomic<int> jobs{0};
  State& s = *state_;
  s.deadline = Clock::now() + options.deadline;
  s.job = std::string(kJob) + "=" + std::to_string(getpid()) + "." + std::to_string(++jobs);
  s.shared_memory = names_in("/dev/shm");
  std::string folder = (fs::temp_directory_path() / "ferrite_job_XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  s.folder = folder;
  fs::create_directory(s.folder / "tmp");

  std::vector<std::string> common;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry(*e);
    const std::string name(entry.substr(0, entry.find('=')));
    if (!from_a_launcher(entry) && !options.environment.contains(name)) common.emplace_back(entry);
  }
  for (const auto& [name, value] : options.environment) common.push_back(name + "=" + value);
  common.push_back(s.job);
  common.push_back(std::string(kFunction) + "=" + std::string(function));
  common.push_back(std::string(kFolder) + "=" + folder);
  common.push_back("TMPDIR=" + (s.folder / "tmp").string());
  common.push_back("MASTER_ADDR=127.0.0.1");
  const auto port =
      parallel::links::local_address(parallel::links::listen_at({"127.0.0.1", 0}, 1)).port;
  common.push_back("MASTER_PORT=" + std::to_string(port));
  common.push_back("WORLD_SIZE=" + std::to_string(ranks));
  common.push_back("LOCAL_WORLD_SIZE=" + std::to_string(ranks));

  std::vector<std::string> arguments = {"rank", std::string("--test-case=") + kTestCase,
                                        "--no-skip", "--no-version", "--no-intro"};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  s.ranks.resize(static_cast<std::size_t>(ranks));
  std::fflush(stdout);
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::string> environment = common;
    environment.push_back("RANK=" + std::to_string(r));
    environment.push_back("LOCAL_RANK=" + std::to_string(r));
    s.start(s.ranks[static_cast<std::size_t>(r)], environment, arguments);
  }
}

RankProcesses::~RankProcesses() {
  state_->kill_running(false);
  std::error_code ignored;
  fs::remove_all(state_->folder, ignored);
}

int RankProcesses::size() const { return static_cast<int>(state_->ranks.size()); }
pid_t RankProcesses::pid(int rank) const { return state_->ranks.at(size_t(rank)).pid; }
bool RankProcesses::running(int rank) const { return !state_->ranks.at(size_t(rank)).ended; }
const std::string& RankProcesses::output(int rank) const { return result(rank).output; }
const RankResult& RankProcesses::result(int rank) const {
  return state_->ranks.at(size_t(rank)).result;
}

void RankProcesses::signal(int rank, int number) {
  if (running(rank)) kill(pid(rank), number);
}

void RankProcesses::cut_off(int rank) {
  std::ofstream file(state_->folder.string() + kCut);
  file << pid(rank) << ' ';
  for (const auto& [own, other] : tcp_ports_of(pid(rank))) file << own << ' ' << other << ' ';
  file.close();
  for (int r = 0; r < size(); ++r) signal(r, SIGUSR2);
}

bool RankProcesses::wait_for_output(int rank, std::string_view text) {
  for (;;) {
    if (output(rank).find(text) != std::string::npos) return true;
    if (!running(rank) || Clock::now() >= state_->deadline) return false;
    state_->pump(state_->deadline);
  }
}

void RankProcesses::wait_for(std::chrono::microseconds time) {
  const auto until = std::min(Clock::now() + time, state_->deadline);
  do state_->pump(until);
  while (Clock::now() < until);
}

bool RankProcesses::wait_all_but(const std::vector<int>& ranks) {
  for (;;) {
    bool done = true;
    for (int r = 0; r < size(); ++r)
      done &= !running(r) || std::find(ranks.begin(), ranks.end(), r) != ranks.end();
    if (done) return true;
    if (Clock::now() >= state_->deadline) break;
    state_->pump(state_->deadline);
  }
  state_->kill_running(true);
  return false;
}

std::string RankProcesses::finish() {
  State& s = *state_;
  s.kill_running(false);
  std::string left;
  for (const pid_t pid : processes_of(s.job)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    left += "process " + std::to_string(pid) + " (" + name + ") ";
    kill(pid, SIGKILL);
  }
  for (const std::string& name : names_in((s.folder / "tmp").c_str()))
    left += "$TMPDIR/" + name + " ";
  // New entries may belong to other programs: those disappear by themselves.
  std::set<std::string> fresh = names_in("/dev/shm");
  for (const std::string& name : s.shared_memory) fresh.erase(name);
  const auto until = Clock::now() + 5s;
  while (!fresh.empty() && Clock::now() < until) {
    const std::set<std::string> now = names_in("/dev/shm");
    std::erase_if(fresh, [&](const std::string& name) { return !now.contains(name); });
    if (!fresh.empty()) usleep(20'000);
  }
  for (const std::string& name : fresh) left += "/dev/shm/" + name + " ";
  return left;
}

std::vector<RankResult> check_processes(std::string_view function, int ranks,
                                        const ProcessOptions& options) {
  RankProcesses job(function, ranks, options);
  job.wait_all();
  std::vector<RankResult> results;
  for (int r = 0; r < ranks; ++r) {
    results.push_back(job.result(r));
    CHECK_MESSAGE(results.back().ok(), std::string(function), ", rank ", r, " of ", ranks, ": ",
                  results.back().describe(), "\n", results.back().output);
  }
  const std::string left = job.finish();
  CHECK_MESSAGE(left.empty(), std::string(function), " left behind: ", left);
  return results;
}

parallel::InitOptions rank_init_options(std::chrono::milliseconds timeout) {
  parallel::InitOptions options;
  options.init_method = "file://" + job_folder() + "/rendezvous";
  options.rank = rank_of_process();
  options.world_size = ranks_of_job();
  options.timeout = timeout;
  return options;
}

std::string job_folder() { return environment_or(kFolder, "."); }

int rank_of_process() { return std::stoi(environment_or("RANK", "0")); }
int ranks_of_job() { return std::stoi(environment_or("WORLD_SIZE", "1")); }

std::string environment_or(const char* name, std::string_view otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : std::string(otherwise);
}

void say(std::string_view text) {
  const std::string line = std::string(text) + "\n";
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t wrote = write(STDOUT_FILENO, line.data() + at, line.size() - at);
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) at += static_cast<std::size_t>(wrote);
  }
}

std::map<int, std::string> open_files() {
  std::map<int, std::string> found;
  for (const std::string& name : names_in("/proc/self/fd")) {
    char target[PATH_MAX];
    const ssize_t length = readlink(("/proc/self/fd/" + name).c_str(), target, sizeof target);
    if (length > 0)  // the descriptor of the listing itself is gone
      found[std::stoi(name)] = std::string(target, static_cast<std::size_t>(length));
  }
  return found;
}

int thread_count() { return static_cast<int>(names_in("/proc/self/task").size()); }

}  // namespace ferrite::test
