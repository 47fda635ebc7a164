// Ranks as processes: runs a named function of this test program as rank 0, 1, ... of a job. Each
// rank is a new process of the test program, so that threads and sanitizers work in it as they do
// here.
//
//   RANK_FUNCTION(sums_agree) {        // at namespace scope of any test file
//     auto group = parallel::init_process_group("gloo", rank_init_options());
//     CHECK(...);                      // doctest's checks work: a failed one fails the rank
//   }
//   TEST_CASE("sums agree between processes") { check_processes("sums_agree", 3); }
//
// Tests that kill ranks start them with RankProcesses and check each rank's result.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::test {

/// Defines a function that processes run: `RANK_FUNCTION(name) { ... }`.
#define RANK_FUNCTION(name)                                                                  \
  static void rank_function_##name();                                                        \
  static const ferrite::test::RankFunction rank_function_entry_##name{#name,                 \
                                                                      rank_function_##name}; \
  static void rank_function_##name()

struct RankFunction {
  RankFunction(const char* name, void (*function)());
};

struct ProcessOptions {
  /// Added to every rank's environment, in addition to RANK, WORLD_SIZE, LOCAL_RANK,
  /// LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (an unused port of loopback). Variables of other
  /// launchers are removed; TMPDIR is an empty folder of this job, removed with it.
  std::map<std::string, std::string> environment = {};
  /// When the remaining processes are killed.
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  /// Arguments of the test program, such as doctest's, in addition to those that select the
  /// function.
  std::vector<std::string> arguments = {};
};

struct RankResult {
  int code = -1;           ///< exit status if it exited by itself, else -1
  int signal = 0;          ///< signal that ended it, else 0
  bool timed_out = false;  ///< killed at the deadline
  std::string output;      ///< of both streams
  bool ok() const { return code == 0; }
  /// "exit status 1", "killed by signal 9", "still running at the deadline".
  std::string describe() const;
};

class RankProcesses {
 public:
  RankProcesses(std::string_view function, int ranks, const ProcessOptions& options = {});
  /// Kills running processes, and reaps them.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int size() const;
  pid_t pid(int rank) const;
  bool running(int rank) const;
  /// Its output so far.
  const std::string& output(int rank) const;

  /// SIGKILL, SIGSTOP, SIGCONT, ...; does nothing if the rank has ended.
  void signal(int rank, int number);
  /// Makes the network drop everything between this rank and the others, on all existing TCP
  /// connections: nothing is received any more, and no connection is closed. The rank keeps
  /// running.
  void cut_off(int rank);

  /// Waits until `rank` has printed `text`; false if it ended, or the deadline passed, before.
  bool wait_for_output(int rank, std::string_view text);
  /// Waits for `time`, reading the output of the ranks.
  void wait_for(std::chrono::microseconds time);
  /// Waits until all ranks but these have ended. False if the deadline passed: they were killed.
  bool wait_all_but(const std::vector<int>& ranks);
  bool wait_all() { return wait_all_but({}); }
  /// The result of a rank that has ended.
  const RankResult& result(int rank) const;

  /// Kills and reaps the remaining processes, and searches for what the job left behind: processes
  /// that it started, entries of /dev/shm, files in its TMPDIR. "" if there is nothing. A rank that
  /// ends properly checks itself what it leaves open (open_files()).
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs `function` as `ranks` processes and waits for them; fails the test with a rank's output if
/// one does not exit with status 0, or something is left behind.
std::vector<RankResult> check_processes(std::string_view function, int ranks,
                                        const ProcessOptions& options = {});

// ---- For rank functions.

/// The options for this process: `file://` in the job's own folder, which needs no port, rank and
/// size; with a short timeout.
parallel::InitOptions rank_init_options(
    std::chrono::milliseconds timeout = std::chrono::seconds(20));
/// A folder of the job, removed with it; not its TMPDIR.
std::string job_folder();
int rank_of_process();
int ranks_of_job();
/// A number or a text that the test passed in `ProcessOptions::environment`.
std::string environment_or(const char* name, std::string_view otherwise);
/// Prints a line at once, in one piece, for wait_for_output().
void say(std::string_view text);

/// The target of each open file descriptor of this process: "socket:[...]", "/dev/shm/...", ...
std::map<int, std::string> open_files();
/// Number of threads of this process.
int thread_count();

}  // namespace ferrite::test
