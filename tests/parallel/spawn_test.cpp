#include "ferrite/parallel/comm/bootstrap/spawn.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/core/tensor.h"
#include "ferrite/tests/parallel/processes.h"

using namespace ferrite;
using namespace ferrite::test;

// A spawned process is this program again, which runs the same rank function up to spawn().

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// A file in the folder of the test's job, which all its processes share.
std::filesystem::path file(const std::string& name) {
  return std::filesystem::temp_directory_path() / name;
}

/// The message of the error that spawning `f` throws, in the process that spawns.
std::string error_of(const std::function<void(int)>& f, int nprocs) {
  try {
    parallel::spawn(f, nprocs);
  } catch (const DistributedError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

RANK_FUNCTION(spawned_ranks_make_a_group) {
  const double factor = 2;
  mp::spawn(
      [&](int rank) {
        const auto group = dist::init_process_group("gloo");
        FERRITE_CHECK(group->rank() == rank && group->size() == 3, ValueError, "test",
                      "rank {} of {}", group->rank(), group->size());
        FERRITE_CHECK(dist::get_local_rank() == rank, ValueError, "test", "local rank");
        const Tensor sum = from_vector<double>({factor * (rank + 1)}, Shape{1});
        dist::all_reduce(sum);
        FERRITE_CHECK(sum.item<double>() == 12, ValueError, "test", "{}", sum.item<double>());
        std::ofstream(file("done" + std::to_string(rank))) << variable("WORLD_SIZE");
        dist::destroy_process_group();
      },
      3);
  for (int rank = 0; rank < 3; ++rank) {
    std::string text;
    std::ifstream(file("done" + std::to_string(rank))) >> text;
    CHECK(text == "3");
    std::filesystem::remove(file("done" + std::to_string(rank)));
  }
}

RANK_FUNCTION(several_calls_one_after_another) {
  int earlier = 0;
  for (int call = 0; call < 3; ++call) {
    parallel::spawn(
        [&](int rank) {
          std::ofstream(file("calls"), std::ios::app) << call << rank << ' ' << std::flush;
        },
        call + 1);
    ++earlier;
  }
  CHECK(earlier == 3);
  std::ifstream in(file("calls"));
  int words = 0;
  for (std::string word; in >> word;) ++words;
  CHECK(words == 6);
  std::filesystem::remove(file("calls"));
}

RANK_FUNCTION(an_exception_ends_the_others) {
  const std::string message = error_of(
      [](int rank) {
        if (rank == 1) throw ValueError("the data set is empty");
        std::this_thread::sleep_for(std::chrono::minutes(5));
      },
      3);
  CHECK(message == "[spawn] rank 1: the data set is empty");
}

RANK_FUNCTION(the_reason_is_told_rather_than_its_consequence) {
  const std::string message = error_of(
      [](int rank) {
        if (rank == 0) throw DistributedError("rank 1 is lost");
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        throw ValueError("out of data");
      },
      2);
  CHECK(message == "[spawn] rank 1: out of data");
  CHECK(error_of([](int) { throw DistributedError("no answer"); }, 1) ==
        "[spawn] rank 0: no answer");
}

RANK_FUNCTION(signals_and_exits_are_told) {
  CHECK(error_of([](int) { std::raise(SIGKILL); }, 1).find("rank 0: it was ended by signal 9") !=
        std::string::npos);
  CHECK(error_of([](int) { _exit(3); }, 1) == "[spawn] rank 0: it exited with status 3");
  CHECK(error_of([](int) { throw 1; }, 1).find("no std::exception") != std::string::npos);
  CHECK(error_of([](int) { parallel::spawn([](int) {}, 1); }, 1).find("cannot spawn") !=
        std::string::npos);
}

RANK_FUNCTION(a_program_that_does_not_come_to_the_call) {
  if (!variable("FERRITE_SPAWN").empty()) return;
  CHECK(error_of([](int) {}, 2).find("before its main() had come to spawn()") != std::string::npos);
}

RANK_FUNCTION(a_child_that_outlives_its_rank) {
  const auto start = std::chrono::steady_clock::now();
  const auto leave_a_child = [](int) {
    const pid_t child = fork();
    if (child == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(60));
      _exit(0);
    }
    std::ofstream(file("child")) << child;
    _exit(3);
  };
  CHECK(error_of(leave_a_child, 1) == "[spawn] rank 0: it exited with status 3");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  pid_t child = 0;
  std::ifstream(file("child")) >> child;
  REQUIRE(child > 0);
  kill(child, SIGKILL);
  // It may run a moment longer, in which it would count as left behind.
  const std::string environment = "/proc/" + std::to_string(child) + "/environ";
  while (std::ifstream(environment).get() != std::ifstream::traits_type::eof())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::filesystem::remove(file("child"));
}

RANK_FUNCTION(a_program_that_a_rank_started) {
  // It inherits the rank's variable, but its parent is not the program that called spawn().
  const int unrelated = open(file("unrelated").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (variable("FERRITE_SPAWN").empty())
    setenv("FERRITE_SPAWN", ("0 1 " + std::to_string(unrelated) + " 2147483646").c_str(), 1);
  parallel::spawn([](int) { std::ofstream(file("ran")) << getppid(); }, 1);
  CHECK(std::filesystem::file_size(file("unrelated")) == 0);
  pid_t parent = 0;
  std::ifstream(file("ran")) >> parent;
  CHECK(parent == getpid());
  close(unrelated);
  for (const char* name : {"unrelated", "ran"}) std::filesystem::remove(file(name));
}

TEST_CASE("spawned processes are the ranks of a group") {
  check_processes("spawned_ranks_make_a_group", 1);
}
TEST_CASE("each call of several starts its own processes") {
  check_processes("several_calls_one_after_another", 1);
}
TEST_CASE("a failure carries its rank and message, and ends the other ranks") {
  check_processes("an_exception_ends_the_others", 1);
  check_processes("the_reason_is_told_rather_than_its_consequence", 1);
  check_processes("signals_and_exits_are_told", 1);
  check_processes("a_program_that_does_not_come_to_the_call", 1);
  check_processes("a_child_that_outlives_its_rank", 1);
}
TEST_CASE("programs that ranks start can spawn ranks of their own") {
  check_processes("a_program_that_a_rank_started", 1);
}

TEST_CASE("arguments of spawn()") {
  const auto nothing = [](int) {};
  CHECK_THROWS_AS(parallel::spawn(nothing, 0), ValueError);
  CHECK_THROWS_AS(parallel::spawn(nothing, 1, {.nodes = 2, .node_rank = 2}), ValueError);
}
