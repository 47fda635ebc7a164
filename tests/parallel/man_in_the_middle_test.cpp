// Who stands between ranks, and who only knocks: nobody's bytes are taken for a rank's, and nobody
// keeps a job from starting who can be told from a rank.
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
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

#include "core/error.h"
#include "core/generator.h"
#include "ops/creation.h"
#include "parallel/comm/backend.h"
#include "parallel/comm/link.h"
#include "parallel/comm/link_card.h"
#include "parallel/comm/secret.h"
#include "parallel/comm/tcp_monitor.h"
#include "parallel/comm/tcp_store.h"
#include "parallel/comm/tcp_store_server.h"
#include "tests/parallel/processes.h"
#include "tests/parallel/relay.h"

namespace ferrite::test {
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

class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

TcpStoreServerOptions serving() {
  TcpStoreServerOptions options;
  options.token = kToken;
  return options;
}

// ---- The store and the monitor

/// What becomes of a client of the store that is reached by `relay`: "" where it is all right, else
/// the error. What it is told is right, or nothing.
std::string use_store(const Address& relay, const std::string& value) {
  std::vector<bool> right;
  const std::string error = error_text([&] {
    TcpStore store(relay, kToken, 400ms);
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

TEST_CASE("in the middle: a store's client hears what the server said, or that it was changed") {
  const std::string value(100'000, 'v');
  TcpStoreServer server(serving());
  TcpStore honest(server.address(), kToken, 10s);
  Relay passive(server.address());
  CHECK(use_store(passive.address(), value) == "");
  CHECK(passive.bytes() > 2 * value.size());
  Generator random(3);
  int noticed = 0;
  const int attempts = sanitized() ? 20 : 80;
  for (int i = 0; i < attempts; ++i) {
    // The greeting, the first frames, and anywhere in what follows.
    const std::size_t range = i % 3 == 0 ? 70 : i % 3 == 1 ? 200 : value.size();
    const bool forth = i % 2 == 0;
    const std::size_t bit = random.next_below(8 * range);
    CAPTURE(forth);
    CAPTURE(bit);
    Relay active(server.address(), Relay::flip(0, forth, bit));
    const std::string error = use_store(active.address(), value);
    // A greeting that failed is tried again, on a connection that nobody changes.
    if (error.empty()) CHECK(bit / 8 < 80);
    noticed += !error.empty();
    honest.erase("number");
    CHECK(honest.check({}));
  }
  CHECK(noticed > attempts / 2);
}

TEST_CASE(
    "in the middle: what a store's server said cannot be heard twice, or in another session") {
  TcpStoreServer server(serving());
  std::string first;
  Relay recording(server.address(), [&](const Passing& passing, std::string& bytes) {
    if (passing.forth) first += bytes;
  });
  REQUIRE(use_store(recording.address(), "value") == "");
  // All that the client said, said again by who knows nothing.
  std::string error;
  const Fd again = connect_to(server.address(), Clock::now() + 5s, error);
  REQUIRE(again.valid());
  REQUIRE(send_all(again, first, Clock::now() + 5s));
  TcpStore honest(server.address(), kToken, 10s);
  const auto hung_up = [&] {
    char some[4096];
    while (wait_ready(again.get(), POLLIN, Clock::now() + 10s))
      if (::recv(again.get(), some, sizeof some, 0) <= 0) return true;
    return false;
  };
  CHECK(hung_up());
  CHECK(honest.add("number", 1) == 1);
  // An answer that comes a second time.
  Relay repeating(server.address(), [](const Passing& passing, std::string& bytes) {
    if (!passing.forth && passing.from > 80) bytes += bytes;
  });
  const std::string heard = error_text([&] {
    TcpStore store(repeating.address(), kToken, 500ms);
    for (int i = 0; i < 10; ++i) store.add("count", 1);
  });
  CHECK_MESSAGE(heard.find("changed, left out or repeated on the way") != std::string::npos, heard);
}

TEST_CASE("in the middle: a monitor does not hear what was changed, and its rank counts as lost") {
  for (const bool forth : {true, false}) {
    CAPTURE(forth);
    TcpStoreServer server(serving());
    std::atomic<bool> changing = false;
    Relay relay(server.address(), [&](const Passing& passing, std::string& bytes) {
      if (changing && passing.forth == forth) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    });
    const auto options = [](int rank) {
      return TcpMonitorOptions{"run", rank, 2, 20s, "the launcher"};
    };
    TcpMonitor other(server.address(), kToken, options(0));
    TcpMonitor relayed(relay.address(), kToken, options(1));
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

/// A store of two ranks, both threads here, that tells each of them other addresses than the ranks
/// have given: as one that has the network tells them apart from what was asked for.
class RedirectingStore final : public Store {
 public:
  using Redirect = std::function<Address(int rank, const Address& address)>;
  explicit RedirectingStore(Redirect redirect) : redirect_(std::move(redirect)) {}

  void set(const std::string& key, std::string_view value) override {
    LinkCard card = LinkCard::parse(value);
    card.tcp = redirect_(key.back() - '0', card.tcp);
    const std::lock_guard lock(mutex_);
    values_[key] = card.text();
    changed_.notify_all();
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    FERRITE_CHECK(changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }),
                  DistributedError, "store", "{} did not come", key);
    return values_[key];
  }
  std::int64_t add(const std::string&, std::int64_t) override { return 0; }
  bool check(const std::vector<std::string>&) override { return true; }
  bool erase(const std::string&) override { return true; }
  std::string secret() const override { return derive(kToken, {"test"}); }

 private:
  const Redirect redirect_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

std::vector<std::byte> bytes_of_rank(int rank) {
  Generator random(static_cast<std::uint64_t>(rank) + 5);
  std::vector<std::byte> bytes(1'000'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_below(256));
  return bytes;
}

/// What becomes of an exchange of a million bytes each way: "" where it ended, else the error of a
/// rank. `wrong`: bytes that are none that the other rank sent were taken for them.
struct Exchanged {
  std::array<std::string, 2> errors;
  bool wrong = false;
};

Exchanged exchange_over(const std::shared_ptr<Store>& store, std::chrono::milliseconds timeout) {
  const std::atomic<bool> never = false;
  Exchanged out;
  std::atomic<bool> wrong = false;
  const auto run = [&](int rank) {
    const auto mine = bytes_of_rank(rank), theirs = bytes_of_rank(1 - rank);
    out.errors[static_cast<std::size_t>(rank)] = error_text([&] {
      GroupContext context{.name = "group", .rank = rank, .size = 2, .job_ranks = {0, 1}};
      context.timeout = 5s;
      context.store = store;
      const auto links = connect_links(context);
      Link& link = links->to(1 - rank);
      std::vector<std::byte> got(theirs.size());
      const Interrupt interrupt{"exchange", never, Clock::now() + timeout};
      for (std::size_t sent = 0, received = 0; sent < mine.size() || received < got.size();) {
        std::size_t moved = link.try_send(std::span(mine).subspan(sent));
        sent += moved;
        const std::size_t n = link.try_recv(std::span(got).subspan(received));
        wrong = wrong || !std::equal(got.begin() + static_cast<std::ptrdiff_t>(received),
                                     got.begin() + static_cast<std::ptrdiff_t>(received + n),
                                     theirs.begin() + static_cast<std::ptrdiff_t>(received));
        received += n;
        if (moved + n > 0) continue;
        const Wait wait{&link, {.send = sent < mine.size(), .recv = received < got.size()}};
        wait_any({&wait, 1}, interrupt);
      }
      // Until the other end has all: what it hears is an error else.
      send(link, std::span(mine).first(1), interrupt);
      recv(link, std::span(got).first(1), interrupt);
    });
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  out.wrong = wrong;
  return out;
}

/// With relays before both ranks' ports.
Exchanged exchange_through(const Relay::Change& change, std::size_t* bytes = nullptr) {
  std::vector<std::unique_ptr<Relay>> relays;
  std::mutex mutex;
  const auto store = std::make_shared<RedirectingStore>([&](int rank, const Address& address) {
    const std::lock_guard lock(mutex);
    relays.push_back(std::make_unique<Relay>(address, rank == 1 ? change : nullptr));
    return relays.back()->address();
  });
  const Exchanged out = exchange_over(store, 1500ms);
  if (bytes)
    for (const auto& relay : relays) *bytes += relay->bytes();
  return out;
}

const std::string kChanged = "bytes were changed, left out or repeated on the way";

bool tells(const Exchanged& exchanged, std::string_view what) {
  return exchanged.errors[0].find(what) != std::string::npos ||
         exchanged.errors[1].find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("in the middle: links over tcp carry what was sent, or say that it was changed") {
  const Setting tcp("FERRITE_LINK", "tcp");
  std::size_t bytes = 0;
  const Exchanged passive = exchange_through(nullptr, &bytes);
  CHECK(passive.errors[0] == "");
  CHECK(passive.errors[1] == "");
  CHECK(bytes > 2'000'000);
  Generator random(9);
  for (int i = 0; i < (sanitized() ? 5 : 20); ++i) {
    // The greeting, its answer, the first frame, and anywhere.
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
    if (!forth)
      CHECK_MESSAGE(tells(active, "where rank 1 should does not prove to be of this job"),
                    active.errors[0]);
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
  // What shows that the relay above does what it says; and what FERRITE_TCP_INTEGRITY=off means.
  const Setting tcp("FERRITE_LINK", "tcp"), off("FERRITE_TCP_INTEGRITY", "off");
  const Exchanged active = exchange_through(Relay::flip(0, true, 8 * 300'000));
  CHECK(active.wrong);
  CHECK(active.errors[0] == "");
  CHECK(active.errors[1] == "");
  // Who may connect does not depend on it.
  const Exchanged hello = exchange_through(Relay::flip(0, true, 8 * 40));
  CHECK(hello.errors[1] != "");
  CHECK_FALSE(hello.wrong);
}

TEST_CASE("in the middle: who has taken a rank's port is not taken for the rank") {
  const Setting tcp("FERRITE_LINK", "tcp");
  for (const std::string& answer : {std::string(), std::string(32, 'x'), std::string(3, 'x')}) {
    CAPTURE(answer.size());
    const Fd listener = listen_at({"127.0.0.1", 0});
    std::atomic<bool> over = false;
    std::thread impostor([&] {
      std::vector<Fd> held;
      while (!over) {
        if (!wait_ready(listener.get(), POLLIN, Clock::now() + 10ms)) continue;
        held.emplace_back(accept(listener.get(), nullptr, nullptr));
        if (!answer.empty()) send_all(held.back(), answer, Clock::now() + 1s);
      }
    });
    const Exchanged got =
        exchange_over(std::make_shared<RedirectingStore>([&](int rank, const Address& address) {
                        return rank == 1 ? local_address(listener) : address;
                      }),
                      1500ms);
    over = true;
    impostor.join();
    CHECK_FALSE(got.wrong);
    CHECK(got.errors[0] != "");
    CHECK(got.errors[1] != "");
    if (!answer.empty())
      CHECK_MESSAGE(tells(got, "where rank 1 should does not prove to be of this job"),
                    got.errors[0]);
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
    destroy_process_group();
  } catch (const Error& e) {
    say(std::string("ended: ") + e.what());
  }
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
    Address at = local_address(listen_at({"127.0.0.1", 0}));
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

// ---- Floods

namespace {

/// Opens `count` connections and holds them; those that were closed are opened again.
void hold_connections(const Address& at, std::size_t count, const std::atomic<bool>& over) {
  std::vector<Fd> held(count);
  std::string error;
  while (!over)
    for (std::size_t i = 0; i < held.size() && !over; ++i) {
      char some[64];
      if (held[i].valid() && ::recv(held[i].get(), some, sizeof some, MSG_DONTWAIT) != 0) continue;
      held[i] = connect_to(at, Clock::now() + 20ms, error);
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
  hold_connections(parse_address(environment_or("TARGET", ""), "TARGET"), 5000, never);
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

TEST_CASE("a job starts beside five thousand held connections of strangers") {
  if (!has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  // The server has to do with the descriptors that processes usually have.
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(1024, before.rlim_max);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  TcpStoreServer server(serving());
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

TEST_CASE("links connect beside strangers who hold their ports") {
  const Setting tcp("FERRITE_LINK", "tcp");
  std::atomic<bool> over = false;
  std::vector<std::thread> strangers;
  std::mutex mutex;
  const auto store = std::make_shared<RedirectingStore>([&](int, const Address& address) {
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

}  // namespace ferrite::test
