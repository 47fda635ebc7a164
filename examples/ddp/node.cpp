#include "ferrite/examples/ddp/node.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace examples {

namespace {

using ferrite::ValueError;

/// The environment variable that marks processes started here.
constexpr const char* kStarted = "FERRITE_STARTED_BY_NODE";
constexpr auto kGrace = std::chrono::seconds(5);  // from SIGTERM to SIGKILL

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

void put(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

/// The variable in which a launcher has passed this process its rank; null without a launcher.
const char* launched_by(bool asked_for_processes) {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (variable(name)) return name;
  // A SLURM batch script also has it, before srun.
  return !asked_for_processes && variable("SLURM_PROCID") ? "SLURM_PROCID" : nullptr;
}

/// A free port of this host.
int free_port() {
  using namespace ferrite::parallel;
  return links::local_address(links::listen_at({"127.0.0.1", 0}, 1)).port;
}

/// Sets the address at which the ranks meet.
void put_master(const NodeOptions& options, int nodes) {
  if (!options.master_addr.empty()) put("MASTER_ADDR", options.master_addr);
  if (options.master_port > 0) put("MASTER_PORT", std::to_string(options.master_port));
  if (nodes == 1) {
    if (!variable("MASTER_ADDR")) put("MASTER_ADDR", "127.0.0.1");
    if (!variable("MASTER_PORT")) put("MASTER_PORT", std::to_string(free_port()));
    return;
  }
  FERRITE_CHECK(variable("MASTER_ADDR"), ValueError, "-n",
                "several nodes need a common address: give --master-addr or MASTER_ADDR, the "
                "address of the node with -nr 0, on all nodes");
  if (!variable("MASTER_PORT")) put("MASTER_PORT", "29500");
}

pid_t start(char** argv, int rank, int local_rank) {
  put("RANK", std::to_string(rank));
  put("LOCAL_RANK", std::to_string(local_rank));
  const pid_t parent = getpid(), child = fork();
  FERRITE_CHECK(child >= 0, ferrite::IoError, "ddp", "cannot start a process: error {}", errno);
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  execv("/proc/self/exe", argv);
  _exit(127);
}

/// The exit status, or 128 + signal.
int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/// The status of the first process that fails, or 0.
int wait_for(std::vector<pid_t> running) {
  int result = 0;
  std::chrono::steady_clock::time_point deadline;
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, result == 0 ? 0 : WNOHANG);
    if (ended < 0 && errno != EINTR) break;
    if (ended > 0) {
      std::erase(running, ended);
      if (result == 0 && code_of(status) != 0) {
        result = code_of(status);
        deadline = std::chrono::steady_clock::now() + kGrace;
        for (const pid_t other : running) kill(other, SIGTERM);
      }
    } else if (result != 0) {
      if (std::chrono::steady_clock::now() > deadline)
        for (const pid_t other : running) kill(other, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return result;
}

}  // namespace

std::optional<int> start_node(const NodeOptions& options, char** argv) {
  if (variable(kStarted)) return {};
  if (const char* launched = launched_by(options.given())) {
    FERRITE_CHECK(!options.given(), ValueError, "-n, -g, -nr",
                  "a launcher has started this process and set {}={}: how many there are is its "
                  "business",
                  launched, variable(launched));
    return {};
  }
  const int nodes = options.nodes.value_or(1), processes = options.processes.value_or(1);
  const int node_rank = options.node_rank.value_or(0);
  FERRITE_CHECK(node_rank < nodes, ValueError, "-nr",
                "expected a number from 0 to {}, below that of the nodes (-n), got {}", nodes - 1,
                node_rank);
  put_master(options, nodes);
  put("WORLD_SIZE", std::to_string(nodes * processes));
  put("LOCAL_WORLD_SIZE", std::to_string(processes));
  if (processes == 1) {
    put("RANK", std::to_string(node_rank));
    put("LOCAL_RANK", "0");
    return {};
  }
  put(kStarted, "1");
  // They share the processors.
  if (!variable("OMP_NUM_THREADS") && !variable("FERRITE_NUM_THREADS"))
    put("FERRITE_NUM_THREADS",
        std::to_string(
            std::max(static_cast<int>(std::thread::hardware_concurrency()) / processes, 1)));
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) children.push_back(start(argv, node_rank * processes + i, i));
  return wait_for(std::move(children));
}

}  // namespace examples
