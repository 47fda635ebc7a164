#include "ferrite/tests/parallel/processes.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using namespace std::chrono_literals;

RANK_FUNCTION(harness_says_who_it_is) {
  std::string who;
  std::thread([&] { who = environment_or("LOCAL_RANK", "?"); }).join();
  say("rank " + who + " of " + environment_or("LOCAL_WORLD_SIZE", "?") + " at " +
      environment_or("MASTER_ADDR", "?") + " " + environment_or("GIVEN", "?"));
  CHECK(rank_of_process() == std::stoi(who));
  CHECK(ranks_of_job() == 3);
  CHECK(std::stoi(environment_or("MASTER_PORT", "0")) > 0);
  CHECK(std::getenv("SLURM_PROCID") == nullptr);
}

RANK_FUNCTION(harness_fails_in_rank_one) { CHECK(rank_of_process() != 1); }

RANK_FUNCTION(harness_waits_for_ever) {
  say("waiting");
  for (;;) pause();
}

RANK_FUNCTION(harness_leaves_a_process_and_files) {
  if (fork() == 0)
    for (;;) pause();
  close(open((environment_or("TMPDIR", "") + "/left").c_str(), O_CREAT | O_WRONLY, 0600));
}

int port_of_rank_one() {
  for (;; usleep(1000)) {
    int port = 0;
    if (std::ifstream(job_folder() + "/port") >> port) return port;
  }
}

// Ranks 0 and 1 exchange data until they receive nothing for a while.
RANK_FUNCTION(harness_talks) {
  const bool first = rank_of_process() == 0;
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const a = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (first) {
    address.sin_port = htons(static_cast<std::uint16_t>(port_of_rank_one()));
    REQUIRE(connect(s, a, length) == 0);
  } else {
    REQUIRE(bind(s, a, length) == 0);
    REQUIRE(listen(s, 1) == 0);
    REQUIRE(getsockname(s, a, &length) == 0);
    std::ofstream(job_folder() + "/new_port") << ntohs(address.sin_port);
    rename((job_folder() + "/new_port").c_str(), (job_folder() + "/port").c_str());
    s = accept(s, nullptr, nullptr);
  }
  CHECK(open_files().at(s).starts_with("socket:"));
  const timeval patience = {0, 1'000};
  REQUIRE(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  char byte = 1;
  auto last = std::chrono::steady_clock::now();
  for (bool heard = false; std::chrono::steady_clock::now() - last < 500ms;) {
    send(s, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    const ssize_t got = recv(s, &byte, 1, 0);
    if (got == 0) FAIL("an end");  // nothing, not even the end of the stream
    if (got != 1) continue;
    last = std::chrono::steady_clock::now();
    if (!heard) say("heard");
    heard = true;
  }
  say("silence");
  pause();  // otherwise the other would see the end of our stream
}

TEST_CASE("processes: ranks know their number, and their output is kept") {
  setenv("SLURM_PROCID", "7", 1);
  const auto results =
      check_processes("harness_says_who_it_is", 3, {.environment = {{"GIVEN", "with care"}}});
  unsetenv("SLURM_PROCID");
  for (int r = 0; r < 3; ++r)
    CHECK(results[size_t(r)].output.find("rank " + std::to_string(r) +
                                         " of 3 at 127.0.0.1 with care\n") != std::string::npos);
}

TEST_CASE("processes: a failed check, an unknown function, a signal and a hang are told apart") {
  RankProcesses failing("harness_fails_in_rank_one", 2);
  CHECK(failing.wait_all());
  CHECK(failing.result(0).ok());
  CHECK(failing.result(1).code == 1);
  CHECK(failing.output(1).find("rank_of_process() != 1") != std::string::npos);
  CHECK(failing.finish() == "");

  RankProcesses unknown("harness_no_such_function", 1);
  CHECK(unknown.wait_all());
  CHECK(unknown.result(0).code == 1);
  CHECK(unknown.finish() == "");

  RankProcesses waiting("harness_waits_for_ever", 2, {.deadline = sanitized() ? 20s : 3s});
  CHECK(waiting.wait_for_output(0, "waiting"));
  waiting.signal(1, SIGKILL);
  CHECK(waiting.wait_all_but({0}));
  CHECK_FALSE(waiting.wait_for_output(0, "nothing of the kind"));
  CHECK_FALSE(waiting.wait_all());
  CHECK(waiting.result(0).timed_out);
  CHECK(waiting.result(1).describe() == "killed by signal 9");
  CHECK(waiting.finish() == "");
}

TEST_CASE("processes: stopped ranks are not waited for, and reaped") {
  pid_t pid = 0;
  {
    RankProcesses job("harness_waits_for_ever", 2);
    pid = job.pid(0);
    for (int r = 0; r < 2; ++r) REQUIRE(job.wait_for_output(r, "waiting"));
    job.signal(0, SIGSTOP);
    job.wait_for(1ms);
    job.signal(1, SIGTERM);
    CHECK(job.wait_all_but({0}));
    CHECK(job.result(1).signal == SIGTERM);
    CHECK(job.running(0));
  }
  CHECK(kill(pid, 0) != 0);  // not even a zombie
}

TEST_CASE("processes: leftovers of a job are found") {
  RankProcesses job("harness_leaves_a_process_and_files", 1);
  CHECK(job.wait_all());
  const std::string left = job.finish();
  CHECK(left.find("process ") != std::string::npos);
  CHECK(left.find("$TMPDIR/left") != std::string::npos);
}

TEST_CASE("processes: a rank that is cut off hears nothing, and is not heard") {
  for (int victim = 0; victim < 2; ++victim) {
    RankProcesses job("harness_talks", 2);
    for (int r = 0; r < 2; ++r) REQUIRE_MESSAGE(job.wait_for_output(r, "heard"), job.output(r));
    job.cut_off(victim);
    for (int r = 0; r < 2; ++r) CHECK_MESSAGE(job.wait_for_output(r, "silence"), job.output(r));
  }
}

}  // namespace
