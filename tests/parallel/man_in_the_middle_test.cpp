// Attackers between ranks, or on one of their ports: no modified data is accepted as a rank's.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/bootstrap/tcp_monitor.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/parallel/redirected_links.h"
#include "ferrite/tests/parallel/relay.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using namespace parallel;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kToken = "a token of the job";

std::string error_text(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bootstrap::TcpStoreServerOptions serving() {
  bootstrap::TcpStoreServerOptions options;
  options.token = kToken;
  return options;
}

// ---- The store and the monitor

/// The result of a store client that connects through `relay`: "" on success, else the error.
/// Values that it receives are correct, or it receives none.
std::string use_store(const links::Address& relay, const std::string& value) {
  std::vector<bool> right;
  const std::string error = error_text([&] {
    bootstrap::TcpStore store(relay, kToken, 400ms);
    store.set("key", value);
    right.push_back(store.get("key", 100ms) == value);
    right.push_back(store.add("number", 1) == 1);
    right.push_back(store.check({"key"}));
    right.push_back(!store.check({"other"}));
    right.push_back(store.erase("number"));
  });
  CHECK(std::count(right.begin(), right.end(), false) == 0);
  CHECK((right.size() == 5) == error.empty());
  return error;
}

}  // namespace

TEST_CASE("in the middle: a store client gets the server's data or a tampering error") {
  const std::string value(100'000, 'v');
  bootstrap::TcpStoreServer server(serving());
  bootstrap::TcpStore honest(server.address(), kToken, 10s);
  Relay passive(server.address());
  CHECK(use_store(passive.address(), value) == "");
  CHECK(passive.bytes() > 2 * value.size());
  Generator random(3);
  int noticed = 0;
  const int attempts = sanitized() ? 20 : 80;
  for (int i = 0; i < attempts; ++i) {
    // In the greeting, in the first frames, and anywhere later.
    const std::size_t range = i % 3 == 0 ? 70 : i % 3 == 1 ? 200 : value.size();
    const bool forth = i % 2 == 0;
    const std::size_t bit = random.next_below(8 * range);
    CAPTURE(forth);
    CAPTURE(bit);
    Relay active(server.address(), Relay::flip(0, forth, bit));
    const std::string error = use_store(active.address(), value);
    // A failed greeting is retried, on a connection that is not modified.
    if (error.empty()) CHECK(bit / 8 < 80);
    noticed += !error.empty();
    honest.erase("number");
    CHECK(honest.check({}));
  }
  CHECK(noticed > attempts / 2);
}

TEST_CASE(
    "in the middle: what a store's server said cannot be heard twice, or in another session") {
  bootstrap::TcpStoreServer server(serving());
  std::string first;
  Relay recording(server.address(), [&](const Passing& passing, std::string& bytes) {
    if (passing.forth) first += bytes;
  });
  REQUIRE(use_store(recording.address(), "value") == "");
  // Replays all messages of the client without knowing the token.
  std::string error;
  const links::Fd again = links::connect_to(server.address(), Clock::now() + 5s, error);
  REQUIRE(again.valid());
  REQUIRE(links::send_all(again, first, Clock::now() + 5s));
  bootstrap::TcpStore honest(server.address(), kToken, 10s);
  const auto hung_up = [&] {
    char some[4096];
    while (links::wait_ready(again.get(), POLLIN, Clock::now() + 10s))
      if (::recv(again.get(), some, sizeof some, 0) <= 0) return true;
    return false;
  };
  CHECK(hung_up());
  CHECK(honest.add("number", 1) == 1);
  // An answer is sent twice.
  Relay repeating(server.address(), [](const Passing& passing, std::string& bytes) {
    if (!passing.forth && passing.from > 80) bytes += bytes;
  });
  const std::string heard = error_text([&] {
    bootstrap::TcpStore store(repeating.address(), kToken, 500ms);
    for (int i = 0; i < 10; ++i) store.add("count", 1);
  });
  CHECK_MESSAGE(heard.find("changed, left out or repeated on the way") != std::string::npos, heard);
}

TEST_CASE("in the middle: a monitor rejects changed data, and its rank counts as lost") {
  for (const bool forth : {true, false}) {
    CAPTURE(forth);
    bootstrap::TcpStoreServer server(serving());
    std::atomic<bool> changing = false;
    Relay relay(server.address(), [&](const Passing& passing, std::string& bytes) {
      if (changing && passing.forth == forth) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    });
    const auto options = [](int rank) {
      return bootstrap::TcpMonitorOptions{"run", rank, 2, 20s, "the launcher"};
    };
    bootstrap::TcpMonitor other(server.address(), kToken, options(0));
    bootstrap::TcpMonitor relayed(relay.address(), kToken, options(1));
    std::mutex mutex;
    std::condition_variable told;
    std::string by_other, by_relayed;
    const auto hear = [&](std::string& into) {
      return [&](const std::string& reason) {
        const std::lock_guard lock(mutex);
        into = reason;
        told.notify_all();
      };
    };
    other.watch("group", hear(by_other));
    relayed.watch("group", hear(by_relayed));
    std::this_thread::sleep_for(100ms);
    CHECK(server.clients() == 2);
    changing = true;
    relayed.begin("group", 1, "barrier");
    std::unique_lock lock(mutex);
    CHECK(told.wait_for(lock, 10s, [&] { return !by_other.empty() && !by_relayed.empty(); }));
    CHECK_MESSAGE(by_other.find("rank 1 was lost") != std::string::npos, by_other);
    if (!forth)
      CHECK_MESSAGE(by_relayed.find("changed, left out or repeated") != std::string::npos,
                    by_relayed);
    lock.unlock();
    other.unwatch("group");
    relayed.unwatch("group");
  }
}

// ---- Links

namespace {

/// With relays in front of both ranks' ports.
Exchanged exchange_through(const Relay::Change& change, std::chrono::milliseconds timeout = 1500ms,
                           std::size_t* bytes = nullptr) {
  std::vector<std::unique_ptr<Relay>> relays;
  std::mutex mutex;
  const auto store =
      std::make_shared<RedirectingStore>([&](int rank, const links::Address& address) {
        const std::lock_guard lock(mutex);
        relays.push_back(std::make_unique<Relay>(address, rank == 1 ? change : nullptr));
        return relays.back()->address();
      });
  const Exchanged out = exchange_over(store, timeout);
  if (bytes)
    for (const auto& relay : relays) *bytes += relay->bytes();
  return out;
}

const std::string kChanged = "bytes were changed, left out or repeated on the way";
const std::string kImpostor = "in place of rank 1 does not prove that it belongs to this job";

bool tells(const Exchanged& exchanged, std::string_view what) {
  return exchanged.errors[0].find(what) != std::string::npos ||
         exchanged.errors[1].find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("in the middle: links over tcp carry the sent data, or report that it was changed") {
  std::size_t bytes = 0;
  const Exchanged passive = exchange_through(nullptr, 60s, &bytes);
  CHECK(passive.errors[0] == "");
  CHECK(passive.errors[1] == "");
  CHECK(bytes > 2'000'000);
  Generator random(9);
  for (int i = 0; i < (sanitized() ? 5 : 20); ++i) {
    // In the greeting, its answer, the first frame, and anywhere.
    const bool forth = i % 5 != 4;
    const std::size_t range = !forth ? 32 : i % 5 == 0 ? 48 : i % 5 == 1 ? 60 : 1'000'000;
    const std::size_t bit = random.next_below(8 * range);
    CAPTURE(forth);
    CAPTURE(bit);
    const Exchanged active = exchange_through(Relay::flip(0, forth, bit));
    CHECK_FALSE(active.wrong);
    CHECK(active.errors[0] != "");
    if (forth && bit / 8 > 52 && range > 60)
      CHECK_MESSAGE(tells(active, kChanged), active.errors[1]);
    if (!forth) CHECK_MESSAGE(tells(active, kImpostor), active.errors[0]);
  }
  const auto at = [](const Passing& passing, const std::string& bytes) {
    return passing.forth && passing.from < 500'000 && passing.from + bytes.size() > 500'000;
  };
  const std::map<std::string, Relay::Change> changes{
      {"dropped",
       [&](const Passing& p, std::string& b) {
         if (at(p, b)) b.resize(b.size() / 2);
       }},
      {"repeated",
       [&](const Passing& p, std::string& b) {
         if (at(p, b)) b += b;
       }},
      {"added",
       [&](const Passing& p, std::string& b) {
         if (at(p, b)) b += "x";
       }},
  };
  for (const auto& [what, change] : changes) {
    CAPTURE(what);
    const Exchanged active = exchange_through(change);
    CHECK_FALSE(active.wrong);
    CHECK(tells(active, kChanged));
  }
}

TEST_CASE("in the middle: without the protection of frames a changed bit arrives as it is") {
  // Shows that the relay above works, and the effect of FERRITE_TCP_INTEGRITY=off.
  setenv("FERRITE_TCP_INTEGRITY", "off", 1);
  const Exchanged active = exchange_through(Relay::flip(0, true, 8 * 300'000), 60s);
  CHECK(active.wrong);
  CHECK(active.errors[0] == "");
  CHECK(active.errors[1] == "");
  // Authentication does not depend on it.
  const Exchanged hello = exchange_through(Relay::flip(0, true, 8 * 40));
  unsetenv("FERRITE_TCP_INTEGRITY");
  CHECK(hello.errors[1] != "");
  CHECK_FALSE(hello.wrong);
}

TEST_CASE("in the middle: a process on a rank's port cannot impersonate the rank") {
  for (const std::string& answer : {std::string(), std::string(32, 'x'), std::string(3, 'x')}) {
    CAPTURE(answer.size());
    const links::Fd listener = links::listen_at({"127.0.0.1", 0});
    std::atomic<bool> over = false;
    std::thread impostor([&] {
      std::vector<links::Fd> held;
      while (!over) {
        if (!links::wait_ready(listener.get(), POLLIN, Clock::now() + 10ms)) continue;
        held.emplace_back(accept(listener.get(), nullptr, nullptr));
        if (!answer.empty()) links::send_all(held.back(), answer, Clock::now() + 1s);
      }
    });
    const Exchanged got = exchange_over(
        std::make_shared<RedirectingStore>([&](int rank, const links::Address& address) {
          return rank == 1 ? links::local_address(listener) : address;
        }),
        1500ms);
    over = true;
    impostor.join();
    CHECK_FALSE(got.wrong);
    CHECK(got.errors[0] != "");
    CHECK(got.errors[1] != "");
    if (!answer.empty()) CHECK_MESSAGE(tells(got, kImpostor), got.errors[0]);
  }
}

// ---- Whole jobs

RANK_FUNCTION(start_and_sum) {
  std::string error;
  try {
    init_process_group("gloo",
                       {.init_method = environment_or(rank_of_process() == 0 ? "AT" : "BY", ""),
                        .rank = rank_of_process(),
                        .world_size = ranks_of_job(),
                        .timeout = 6s});
    for (int i = 0; i < 20; ++i) {
      const Tensor t = full({30'000}, rank_of_process() + 1.0 + i);
      const auto group = default_group();
      group->broadcast(t, i % 2).wait();
      CHECK(t.to_vector<int>() == std::vector<int>(30'000, i % 2 + 1 + i));
      group->all_reduce(t).wait();
      CHECK(t.to_vector<int>() == std::vector<int>(30'000, 2 * (i % 2 + 1 + i)));
    }
    say("all is right");
  } catch (const Error& e) {
    say(std::string("ended: ") + e.what());
  }
  if (is_initialized()) destroy_process_group();
}

TEST_CASE(
    "in the middle: a job whose rank meets the others by a relay ends right or with an error") {
  if (!has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  Generator random(21);
  const int attempts = sanitized() ? 3 : 10;
  for (int i = 0; i <= attempts; ++i) {
    links::Address at = links::local_address(links::listen_at({"127.0.0.1", 0}));
    const std::size_t bit = random.next_below(8 * (i % 2 ? 400 : 2000));
    const bool forth = random.next_below(2) == 0;
    const int connection = static_cast<int>(random.next_below(3));
    CAPTURE(bit);
    CAPTURE(forth);
    CAPTURE(connection);
    Relay relay(at, i == 0 ? nullptr : Relay::flip(connection, forth, bit));
    RankProcesses job("start_and_sum", 2,
                      {{{"AT", "tcp://" + at.text()},
                        {"BY", "tcp://" + relay.address().text()},
                        {"FERRITE_TOKEN", kToken},
                        {"FERRITE_LINK", i % 3 ? "tcp" : "shm"}}});
    CHECK(job.wait_all());
    CHECK(relay.bytes() > 0);
    for (int rank = 0; rank < 2; ++rank) {
      CAPTURE(job.output(rank));
      CHECK(job.result(rank).ok());
      const bool right = job.output(rank).find("all is right") != std::string::npos;
      CHECK((right || job.output(rank).find("ended: [") != std::string::npos));
      if (i == 0) CHECK(right);
    }
    CHECK(job.finish() == "");
  }
}
