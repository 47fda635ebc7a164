#include "ferrite/tests/emulator/child.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ferrite/tests/emulator/planted/planted.h"

namespace emulator_test {

namespace {
constexpr const char* kVariable = "FERRITE_EMULATOR_TEST_PLANTED";
constexpr const char* kTestCase = "(in a child process)";
constexpr const char* kRight = "the result is right";
}  // namespace

TEST_CASE("(in a child process)" * doctest::skip()) {
  const char* const name = std::getenv(kVariable);
  REQUIRE(name != nullptr);
  for (const planted::Program& program : planted::programs()) {
    if (std::strcmp(program.name, name) != 0) continue;
    std::puts(program.run() ? kRight : "the result is WRONG");
    return;
  }
  FAIL("no such program: ", name);
}

Outcome run_planted(const std::string& name, const Environment& environment) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(stdout);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const char* variable : {"FERRITE_EMULATOR_ORDER", "FERRITE_EMULATOR_SEED",
                                 "FERRITE_EMULATOR_DEFER", "FERRITE_EMULATOR_PROTECT"})
      unsetenv(variable);
    for (const auto& [variable, value] : environment) setenv(variable.c_str(), value.c_str(), 1);
    setenv(kVariable, name.c_str(), 1);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    const std::string filter = std::string("--test-case=") + kTestCase;
    alarm(120);  // in case it hangs
    execl("/proc/self/exe", "planted", filter.c_str(), "--no-skip", "--no-version", nullptr);
    _exit(127);
  }
  close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    outcome.output.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  outcome.right = outcome.finished && outcome.output.find(kRight) != std::string::npos;
  return outcome;
}

}  // namespace emulator_test
