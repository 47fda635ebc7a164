#include "ferrite/parallel/comm/links/link.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/peer_transfers.h"
#include "ferrite/parallel/comm/ring_all_reduce.h"
#include "ferrite/tests/parallel/folder_store.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/parallel/reduction_reference.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

const std::atomic<bool> kNever = false;

links::Interrupt within(std::chrono::milliseconds time) {
  return {"test", kNever, Clock::now() + time};
}

Bytes random_bytes(std::size_t n, std::uint64_t seed) {
  Generator random(seed);
  Bytes bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_below(256));
  return bytes;
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const DistributedError& e) {
    return e.what();
  }
  return "";
}

/// Both ends send at once, in pieces of every size, more than fits into any buffer.
void exchange(links::Link& link, int end, std::uint64_t seed) {
  const std::size_t size = 1'500'000;
  const Bytes mine = random_bytes(size, 2 * seed + end),
              theirs = random_bytes(size, 2 * seed + !end);
  Generator random(seed + 77 * end);
  Bytes got;
  std::size_t sent = 0;
  const links::Interrupt interrupt = within(60s);
  while (sent < size || got.size() < size) {
    bool moved = false;
    if (sent < size) {
      const std::size_t piece = std::min(size - sent, random.next_below(200'000) + 1);
      const std::size_t n = link.try_send({mine.data() + sent, piece});
      sent += n;
      moved = n > 0;
    }
    if (got.size() < size) {
      if (random.next_below(2) == 0) {
        const auto there = link.received();
        const std::size_t n = std::min(there.size(), random.next_below(300'000) + 1);
        got.insert(got.end(), there.begin(), there.begin() + static_cast<std::ptrdiff_t>(n));
        link.consume(n);
        moved |= n > 0;
      } else {
        Bytes piece(std::min(size - got.size(), random.next_below(100'000) + 1));
        const std::size_t n = link.try_recv(piece);
        got.insert(got.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
        moved |= n > 0;
      }
    }
    if (moved) continue;
    const links::Wait wait{&link, {.send = sent < size, .recv = got.size() < size}};
    links::wait_any({&wait, 1}, interrupt);
  }
  if (got != theirs) throw std::runtime_error("other bytes than were sent");
}

GroupContext context_of_process() {
  GroupContext context;
  context.name = "test";
  context.rank = rank_of_process();
  context.size = ranks_of_job();
  context.timeout = 30s;
  context.store = std::make_shared<FolderStore>(environment_or("STORE", ""));
  return context;
}

void reduce(links::LinkMesh& links, std::int64_t n, DType dtype, std::uint64_t seed,
            std::chrono::milliseconds timeout = 60s) {
  const int ranks = ranks_of_job();
  const ReduceOp op = is_floating(dtype) ? ReduceOp::avg : ReduceOp::sum;
  Bytes data = values_of(dtype, rank_of_process(), n, seed);
  comm::ring_all_reduce(links, rank_of_process(), ranks, data.data(), n, dtype, op,
                        within(timeout));
  REQUIRE(difference(data, dtype, op, ranks, seed) == "");
}

const auto kTransports = {"tcp", "shm"};

}  // namespace

TEST_CASE("links through memory carry every byte in order, both ways at once") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto meshes = links::make_memory_links(3);
    std::string problem;
    std::thread other([&] { problem = error_of([&] { exchange(meshes[2]->to(0), 1, seed); }); });
    CHECK(error_of([&] { exchange(meshes[0]->to(2), 0, seed); }) == "");
    other.join();
    CHECK(problem == "");
    CHECK(meshes[0]->to(2).kind() == "memory");
    CHECK_THROWS_AS(meshes[0]->to(0), ValueError);
    CHECK_THROWS_AS(meshes[0]->to(3), ValueError);
  }
}

TEST_CASE("data sent before a close is received, followed by the close") {
  const auto files = open_files().size();
  for (const bool by_destructor : {false, true}) {
    auto meshes = links::make_memory_links(2);
    const Bytes bytes = random_bytes(1000, 1);
    Bytes got(1000);
    send(meshes[0]->to(1), bytes, within(10s));
    if (by_destructor)
      meshes[0].reset();
    else
      meshes[0]->close();
    recv(meshes[1]->to(0), got, within(10s));
    CHECK((got == bytes));
    CHECK(error_of([&] { recv(meshes[1]->to(0), got, within(10s)); }).find("rank 0 has closed") !=
          std::string::npos);
    CHECK(error_of([&] { send(meshes[1]->to(0), bytes, within(10s)); }) != "");
    if (!by_destructor)
      CHECK(error_of([&] { recv(meshes[0]->to(1), got, within(10s)); }).find("was closed") !=
            std::string::npos);
  }
  CHECK(open_files().size() == files);
}

TEST_CASE("closing wakes a sleeping thread, and a deadline ends a wait") {
  const auto meshes = links::make_memory_links(2);
  Bytes got(10);
  CHECK(error_of([&] { recv(meshes[1]->to(0), got, within(20ms)); }).find("in time") !=
        std::string::npos);
  for (const int closer : {0, 1}) {
    const auto pair = links::make_memory_links(2);
    std::atomic<bool> waiting = false;
    std::string problem;
    std::thread sleeper([&] {
      problem = error_of([&] {
        waiting = true;
        recv(pair[0]->to(1), got, within(60s));
      });
    });
    while (!waiting) std::this_thread::yield();
    pair[static_cast<std::size_t>(closer)]->close();
    sleeper.join();
    CHECK(problem != "");
  }
}

TEST_CASE("links play a network of a given latency and bandwidth") {
  CHECK_THROWS_AS((Variable("FERRITE_LINK_GBPS", "fast"), links::make_memory_links(2)[0]->to(1)),
                  ValueError);
  const Variable delay("FERRITE_LINK_DELAY_US", "20000"), rate("FERRITE_LINK_GBPS", "0.02");
  const auto meshes = links::make_memory_links(2);
  const Bytes bytes = random_bytes(1'000'000, 1);  // 50 ms
  std::thread sender([&] { send(meshes[0]->to(1), bytes, within(60s)); });
  Bytes got(bytes.size());
  const Clock::time_point start = Clock::now();
  recv(meshes[1]->to(0), {got.data(), 1}, within(60s));
  CHECK((Clock::now() - start) > 19ms);
  recv(meshes[1]->to(0), {got.data() + 1, got.size() - 1}, within(60s));
  CHECK((Clock::now() - start) > 60ms);
  sender.join();
  CHECK((got == bytes));
}

RANK_FUNCTION(links_reduce) {
  const auto files = open_files().size();
  const std::string wanted = environment_or("FERRITE_LINK", "");
  if (wanted == "mixed") {  // rank 1 can be reached only over tcp
    if (rank_of_process() == 1)
      setenv("FERRITE_LINK", "tcp", 1);
    else
      unsetenv("FERRITE_LINK");
  }
  {
    const auto links = links::connect_links(context_of_process());
    const auto other = links::connect_links(context_of_process(), "other");
    const int peer = (rank_of_process() + 1) % ranks_of_job();
    if (wanted != "mixed")
      CHECK(links->to(peer).kind() == (wanted == "tcp" ? "tcp" : "shared memory"));
    // All ranks send first, without receiving.
    const Bytes small = random_bytes(5000, 3);
    Bytes got(small.size());
    send(links->to(peer), small, within(60s));
    recv(links->to((rank_of_process() + ranks_of_job() - 1) % ranks_of_job()), got, within(60s));
    CHECK((got == small));
    std::uint64_t seed = 0;
    for (const DType dtype : kReducedTypes)
      for (const std::int64_t n : {1, 1000, 30001}) reduce(*links, n, dtype, ++seed);
    reduce(*other, 300'007, kFloat32, 99);
    if (ranks_of_job() == 2) exchange(links->to(peer), rank_of_process(), 1);
  }
  CHECK(open_files().size() == files);
}

TEST_CASE("processes reduce over shared memory, over tcp and over a mixture") {
  for (const char* transport : {"tcp", "shm", "mixed"})
    for (const int ranks : {2, 3}) {
      const StoreFolder folder;
      check_processes("links_reduce", ranks,
                      {{{"FERRITE_LINK", transport}, {"STORE", folder.path()}}, 200s});
    }
  const StoreFolder folder;
  check_processes(
      "links_reduce", 2,
      {{{"FERRITE_LINK", "tcp"}, {"FERRITE_TCP_INTEGRITY", "off"}, {"STORE", folder.path()}},
       200s});
}

RANK_FUNCTION(links_disagree_on_integrity) {
  setenv("FERRITE_TCP_INTEGRITY", rank_of_process() == 2 ? "off" : "on", 1);
  std::string error;
  try {
    links::connect_links(context_of_process());
  } catch (const ValueError& e) {
    error = e.what();
  }
  CHECK_MESSAGE(error.find("it is on on rank 0, and off on rank 2") != std::string::npos, error);
  setenv("FERRITE_TCP_INTEGRITY", "yes", 1);
  CHECK_THROWS_AS(links::connect_links(context_of_process(), "other"), ValueError);
}

TEST_CASE("ranks that disagree on sealing tcp get an error") {
  const StoreFolder folder;
  check_processes("links_disagree_on_integrity", 3, {{{"STORE", folder.path()}}, 60s});
}

RANK_FUNCTION(links_reduce_until_one_is_lost) {
  const auto links = links::connect_links(context_of_process());
  const std::int64_t n = std::stoll(environment_or("ELEMENTS", "0"));
  const auto timeout = std::chrono::milliseconds(std::stoi(environment_or("TIMEOUT_MS", "0")));
  const bool leaves = rank_of_process() == std::stoi(environment_or("LEAVES", "-1"));
  for (std::uint64_t round = 0;; ++round) {
    try {
      if (leaves && round == 5) return;
      reduce(*links, n, kFloat32, round, timeout);
    } catch (const DistributedError& e) {
      say(std::string("lost: ") + e.what());
      return;
    }
    if (round == 2) say("under way");
  }
}

TEST_CASE("a rank that is killed, stops or leaves ends the others' operations") {
  Generator random(7);
  for (const char* transport : kTransports)
    for (const std::int64_t n : {100, 400'000})
      for (const char* how : {"killed", "stopped", "left"}) {
        CAPTURE(std::string(transport));
        CAPTURE(n);
        CAPTURE(std::string(how));
        const int ranks = static_cast<int>(2 + random.next_below(2));
        const int lost = static_cast<int>(random.next_below(static_cast<std::uint64_t>(ranks)));
        const bool stopped = how == std::string("stopped"), left = how == std::string("left");
        const StoreFolder folder;
        RankProcesses job("links_reduce_until_one_is_lost", ranks,
                          {{{"FERRITE_LINK", transport},
                            {"STORE", folder.path()},
                            {"ELEMENTS", std::to_string(n)},
                            {"TIMEOUT_MS", stopped ? "1500" : "120000"},
                            {"LEAVES", left ? std::to_string(lost) : "-1"}}});
        if (!left) {
          REQUIRE(job.wait_for_output(lost, "under way"));
          job.wait_for(std::chrono::microseconds(random.next_below(20'000)));
          job.signal(lost, stopped ? SIGSTOP : SIGKILL);
        }
        CHECK(job.wait_all_but({lost}));
        for (int rank = 0; rank < ranks; ++rank) {
          if (rank == lost) continue;
          CAPTURE(job.output(rank));
          CHECK(job.result(rank).ok());
          CHECK(job.output(rank).find("lost: ") != std::string::npos);
        }
        CHECK(job.finish() == "");
      }
}

RANK_FUNCTION(links_wait_for_one_that_never_connects) {
  const auto links = links::connect_links(context_of_process());
  const int waits = std::stoi(environment_or("WAITS", "0"));
  say("ready");
  if (rank_of_process() != waits)
    while (true) std::this_thread::sleep_for(1s);
  Bytes got(1);
  const std::string error = error_of([&] { recv(links->to(1 - waits), got, within(120s)); });
  say("lost: " + error);
}

TEST_CASE("a process that is killed before its link has connected is missed, too") {
  for (const char* transport : kTransports)
    for (const int waits : {0, 1}) {
      const StoreFolder folder;
      RankProcesses job("links_wait_for_one_that_never_connects", 2,
                        {{{"FERRITE_LINK", transport},
                          {"STORE", folder.path()},
                          {"WAITS", std::to_string(waits)}}});
      REQUIRE(job.wait_for_output(0, "ready"));
      REQUIRE(job.wait_for_output(1, "ready"));
      job.wait_for(20ms);
      job.signal(1 - waits, SIGKILL);
      CHECK(job.wait_all_but({1 - waits}));
      CHECK(job.output(waits).find("lost: [link] rank " + std::to_string(1 - waits)) !=
            std::string::npos);
      CHECK(job.finish() == "");
    }
}

TEST_CASE("a transfer ends with its own error if the group cannot handle it") {
  struct Owner final : comm::HostOperations {
    void run(const comm::HostCall&) override {}
    std::string failed(const comm::Call&, std::uint64_t, const std::string&) override {
      throw std::bad_alloc();
    }
  } owner;
  auto meshes = links::make_memory_links(2);
  comm::PeerTransfers transfers(std::move(meshes[0]), 0, {0, 1}, 20ms, owner);
  for (int i = 0; i < 2; ++i) {
    const Work work =
        transfers.submit({.kind = comm::Collective::recv, .peer = 1, .out = zeros({2})});
    const std::string error = error_of([&] { work.wait(); });
    CHECK_MESSAGE(error.find("rank 1 did not send it within 20 ms") != std::string::npos, error);
  }
}
