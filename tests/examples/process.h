// Runs the real programs.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/parallel/comm/links/socket.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/paths.h"

namespace ferrite::test {

struct Outcome {
  int code = -1;  ///< exit status; 128 + signal if a signal ended it
  std::string out, err;
};

/// A free port of this host.
inline int free_port() {
  return parallel::links::local_address(parallel::links::listen_at({"127.0.0.1", 0}, 1)).port;
}

/// Starts <bin>/<program> with these arguments in `folder`, with its output in .stdout and .stderr
/// there.
inline pid_t start_program(const std::string& program, const std::vector<std::string>& arguments,
                           const std::filesystem::path& folder) {
  const std::string path = bin_dir() + "/" + program;
  REQUIRE_MESSAGE(std::filesystem::exists(path), path, " is missing: build it first");
  const std::string out = (folder / ".stdout").string(), err = (folder / ".stderr").string();
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);

  const pid_t parent = getpid(), child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int o = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int e = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (o >= 0 && e >= 0 && dup2(o, 1) >= 0 && dup2(e, 2) >= 0 && chdir(folder.c_str()) == 0)
      execv(path.c_str(), argv.data());
    _exit(127);
  }
  return child;
}

/// Runs <bin>/<program> with these arguments in `folder`, and waits for it.
inline Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                           const std::filesystem::path& folder) {
  const pid_t child = start_program(program, arguments, folder);
  int status = 0;
  // Below the longest limit of a test.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(850);
  for (;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done < 0) FAIL("waitpid");
    if (done == child) break;
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          read_file(folder / ".stdout"), read_file(folder / ".stderr")};
}

}  // namespace ferrite::test
