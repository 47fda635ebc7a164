// Strangers that only connect must not keep a job from starting.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/parallel/redirected_links.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using namespace parallel;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kToken = "a token of the job";

}  // namespace

namespace {

/// Opens `count` connections and keeps them open; closed ones are opened again.
void hold_connections(const links::Address& at, std::size_t count, const std::atomic<bool>& over) {
  std::vector<links::Fd> held(count);
  std::string error;
  while (!over)
    for (std::size_t i = 0; i < held.size() && !over; ++i) {
      char some[64];
      if (held[i].valid() && ::recv(held[i].get(), some, sizeof some, MSG_DONTWAIT) != 0) continue;
      held[i] = links::connect_to(at, Clock::now() + 20ms, error);
      if (i == count - 1) say("held");
    }
}

rlim_t raise_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace

RANK_FUNCTION(hold_connections_until_killed) {
  raise_descriptors();
  const std::atomic<bool> never = false;
  hold_connections(links::parse_address(environment_or("TARGET", ""), "TARGET"), 5000, never);
}

RANK_FUNCTION(start_beside_strangers) {
  const Clock::time_point start = Clock::now();
  init_process_group("gloo", {.init_method = "env://", .timeout = 20s});
  const Tensor t = ones({1000});
  default_group()->all_reduce(t).wait();
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  CHECK(t.to_vector<int>() == std::vector<int>(1000, ranks_of_job()));
  say("took " + std::to_string(took.count()) + " ms");
  if (!sanitized()) CHECK(took < 2s);
  destroy_process_group();
}

TEST_CASE("a job starts despite five thousand open connections of strangers") {
  if (!has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  // The server has to work with the usual number of descriptors.
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(1024, before.rlim_max);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  bootstrap::TcpStoreServerOptions options;
  options.token = kToken;
  bootstrap::TcpStoreServer server(options);
  RankProcesses strangers("hold_connections_until_killed", 1,
                          {{{"TARGET", server.address().text()}}});
  REQUIRE(strangers.wait_for_output(0, "held"));
  check_processes("start_beside_strangers", 2,
                  {{{"FERRITE_STORE", server.address().text()}, {"FERRITE_TOKEN", kToken}}});
  CHECK(strangers.running(0));
  strangers.signal(0, SIGKILL);
  CHECK(strangers.finish() == "");
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("links connect despite strangers that occupy their ports") {
  std::atomic<bool> over = false;
  std::vector<std::thread> strangers;
  std::mutex mutex;
  const auto store = std::make_shared<RedirectingStore>([&](int, const links::Address& address) {
    const std::lock_guard lock(mutex);
    strangers.emplace_back([&over, address] { hold_connections(address, 150, over); });
    std::this_thread::sleep_for(100ms);
    return address;
  });
  const Clock::time_point start = Clock::now();
  const Exchanged got = exchange_over(store, 10s);
  const auto took = Clock::now() - start;
  over = true;
  for (std::thread& stranger : strangers) stranger.join();
  CHECK(got.errors[0] == "");
  CHECK(got.errors[1] == "");
  CHECK_FALSE(got.wrong);
  if (!sanitized()) CHECK(took < 3s);
}
