#include "parallel/comm/link.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/generator.h"
#include "parallel/comm/backend.h"
#include "parallel/comm/link_card.h"
#include "parallel/comm/link_door.h"
#include "parallel/comm/ring_all_reduce.h"
#include "tests/parallel/folder_store.h"
#include "tests/parallel/processes.h"
#include "tests/parallel/reduction_reference.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

const std::atomic<bool> kNever = false;

Interrupt within(std::chrono::milliseconds time) { return {"test", kNever, Clock::now() + time}; }

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
void exchange(Link& link, int end, std::uint64_t seed) {
  const std::size_t size = 1'500'000;
  const Bytes mine = random_bytes(size, 2 * seed + end),
              theirs = random_bytes(size, 2 * seed + !end);
  Generator random(seed + 77 * end);
  Bytes got;
  std::size_t sent = 0;
  const Interrupt interrupt = within(60s);
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
    const Wait wait{&link, {.send = sent < size, .recv = got.size() < size}};
    wait_any({&wait, 1}, interrupt);
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

void reduce(LinkMesh& links, std::int64_t n, DType dtype, std::uint64_t seed,
            std::chrono::milliseconds timeout = 60s) {
  const int ranks = ranks_of_job();
  const ReduceOp op = is_floating(dtype) ? ReduceOp::avg : ReduceOp::sum;
  Bytes data = values_of(dtype, rank_of_process(), n, seed);
  ring_all_reduce(links, rank_of_process(), ranks, data.data(), n, dtype, op, within(timeout));
  REQUIRE(difference(data, dtype, op, ranks, seed) == "");
}

const auto kTransports = {"tcp", "shm"};

}  // namespace

TEST_CASE("links through memory carry every byte in order, both ways at once") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto meshes = make_memory_links(3);
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

TEST_CASE("what was sent before a link was closed is received, and then that it was") {
  const auto files = open_files().size();
  for (const bool by_destructor : {false, true}) {
    auto meshes = make_memory_links(2);
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

TEST_CASE("closing wakes who sleeps, and a deadline ends a wait") {
  const auto meshes = make_memory_links(2);
  Bytes got(10);
  CHECK(error_of([&] { recv(meshes[1]->to(0), got, within(20ms)); }).find("in time") !=
        std::string::npos);
  for (const int closer : {0, 1}) {
    const auto pair = make_memory_links(2);
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
  CHECK_THROWS_AS((Variable("FERRITE_LINK_GBPS", "fast"), make_memory_links(2)[0]->to(1)),
                  ValueError);
  const Variable delay("FERRITE_LINK_DELAY_US", "20000"), rate("FERRITE_LINK_GBPS", "0.02");
  const auto meshes = make_memory_links(2);
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

TEST_CASE("a rank's card is read as it was written, and nothing else is") {
  LinkCard card;
  card.nonce = std::string(32, 'a');
  card.tcp = {"::1", 4711};
  card.sealed = false;
  const LinkCard read = LinkCard::parse(card.text());
  CHECK((read.nonce == card.nonce && read.tcp.host == "::1" && read.tcp.port == 4711));
  CHECK((read.host.empty() && read.unix_name.empty() && !read.sealed));
  for (const std::string& text : {std::string(), std::string("ferrite-link-2 00 ::1 1 - - sealed"),
                                  "x" + card.text(), card.text().substr(0, 50), card.text() + "er"})
    CHECK_THROWS_AS(LinkCard::parse(text), DistributedError);
}

TEST_CASE("a proof fits one connection, in one direction, of one mesh of one job") {
  LinkMembers members{"secret", "group/mesh", 0, {LinkCard(), LinkCard(), LinkCard()}};
  for (std::size_t i = 0; i < 3; ++i) members.cards[i].nonce = std::string(32, "012"[i]);
  const LinkKeys keys = members.keys(0, 1);
  CHECK(keys.opener_proof.size() == kLinkProof);
  CHECK(keys.opener_proof != keys.admitter_proof);
  CHECK(keys.opener_proof != keys.frames);
  const auto differs = [&](const LinkMembers& others, int from, int to) {
    const LinkKeys theirs = others.keys(from, to);
    return theirs.opener_proof != keys.opener_proof &&
           theirs.admitter_proof != keys.admitter_proof && theirs.frames != keys.frames;
  };
  CHECK(differs(members, 1, 0));
  CHECK(differs(members, 0, 2));
  LinkMembers other = members;
  other.secret = "Secret";
  CHECK(differs(other, 0, 1));
  other = members;
  other.mesh = "group/other";
  CHECK(differs(other, 0, 1));
  for (const std::size_t rank : {0u, 1u}) {
    other = members;
    other.cards[rank].nonce.back() = 'f';
    CHECK(differs(other, 0, 1));
  }
  other = members;
  other.cards[0].host = other.cards[1].host = "here";
  CHECK(differs(other, 0, 1));
}

namespace {

/// A door of rank 0 of three: rank 1 is beside it, and rank 2 on another host.
struct Door {
  Door() {
    members.secret = "secret";
    members.mesh = "group/mesh";
    members.cards = {door.card(), LinkCard(), LinkCard()};
    members.cards[0].host = members.cards[1].host = "here";
    for (const std::size_t rank : {1u, 2u})
      members.cards[rank].nonce = std::string(32, "012"[rank]);
    door.admit(members);
  }
  Hello hello(int from) const {
    Hello hello;
    hello.from = from;
    const std::string proof = members.keys(from, 0).opener_proof;
    std::copy(proof.begin(), proof.end(), hello.proof.begin());
    return hello;
  }
  Fd knock(bool local) const {
    std::string error;
    return local ? connect_to_unix(door.card().unix_name)
                 : connect_to(door.card().tcp, Clock::now() + 10s, error);
  }
  /// Whether who says this is let in as rank `as`.
  bool lets_in(const Hello& said, bool local, int as, std::size_t bytes = sizeof(Hello)) {
    const Fd socket = knock(local);
    REQUIRE(socket.valid());
    REQUIRE(send_all(socket, {reinterpret_cast<const char*>(&said), bytes}, Clock::now() + 10s));
    const Clock::time_point end = Clock::now() + 10s;
    while (Clock::now() < end) {
      if (door.take(as)) return true;
      char one = 0;
      if (wait_ready(socket.get(), POLLIN, Clock::now() + 1ms) &&
          recv(socket.get(), &one, 1, MSG_DONTWAIT) <= 0)
        return false;  // shown out
      if (bytes < sizeof said) return false;
    }
    return false;
  }

  LinkDoor door{"127.0.0.1", true, 16};
  LinkMembers members;
};

}  // namespace

TEST_CASE("strangers are not let in") {
  for (const bool local : {false, true}) {
    Door at;
    const int rank = local ? 1 : 2;
    const Hello hello = at.hello(rank);
    CHECK_FALSE(at.lets_in(hello, local, rank, 20));
    for (const std::size_t byte : {0u, 31u}) {
      Hello wrong = hello;
      wrong.proof[byte] = static_cast<char>(wrong.proof[byte] ^ 1);
      CHECK_FALSE(at.lets_in(wrong, local, rank));
    }
    for (const std::int64_t from : {-1, 3, 0, 3 - rank}) {
      Hello wrong = hello;
      wrong.from = from;
      CHECK_FALSE(at.lets_in(wrong, local, rank));
    }
    Hello wrong = hello;
    wrong.magic = 0;
    CHECK_FALSE(at.lets_in(wrong, local, rank));
    // Whoever has heard another mesh's, or what this rank itself says, has nothing.
    LinkMembers other = at.members;
    other.mesh = "group/other";
    const std::string of_other = other.keys(rank, 0).opener_proof,
                      reflected = at.members.keys(0, rank).opener_proof;
    for (const std::string& proof : {of_other, reflected}) {
      wrong = hello;
      std::copy(proof.begin(), proof.end(), wrong.proof.begin());
      CHECK_FALSE(at.lets_in(wrong, local, rank));
    }
    // Not by the other way.
    CHECK_FALSE(at.lets_in(hello, !local, rank));
    CHECK(at.lets_in(hello, local, rank));
    // What was heard once is no good a second time.
    CHECK_FALSE(at.lets_in(hello, local, rank));
  }
}

TEST_CASE("a door answers who is let in, and nobody else") {
  Door at;
  const Fd socket = at.knock(false);
  const Hello hello = at.hello(2);
  REQUIRE(
      send_all(socket, {reinterpret_cast<const char*>(&hello), sizeof hello}, Clock::now() + 10s));
  while (!at.door.take(2)) std::this_thread::sleep_for(1ms);
  std::string answer(kLinkProof, '\0');
  REQUIRE(recv_all(socket, answer.data(), answer.size(), Clock::now() + 10s));
  CHECK(answer == at.members.keys(2, 0).admitter_proof);
}

TEST_CASE("a rank comes in past any number of strangers, who are turned out in time") {
  for (const bool local : {false, true}) {
    Door at;
    std::vector<Fd> strangers;
    for (int i = 0; i < 600; ++i) {
      strangers.push_back(at.knock(local));
      if (strangers.back().valid() && i % 2) send_all(strangers.back(), "?", Clock::now() + 1s);
      if (i % 8 == 0) at.door.take(1);
    }
    const Clock::time_point start = Clock::now();
    CHECK(at.lets_in(at.hello(local ? 1 : 2), local, local ? 1 : 2));
    CHECK((Clock::now() - start) < 1s);
    const auto turned_out = [&](const Fd& stranger) {
      at.door.take(1);
      char one = 0;
      const ssize_t n = recv(stranger.get(), &one, 1, MSG_DONTWAIT);
      return n == 0 || (n < 0 && errno != EAGAIN);
    };
    std::this_thread::sleep_for(5500ms);
    at.door.take(1);
    std::size_t gone = 0;
    for (const Fd& stranger : strangers) gone += !stranger.valid() || turned_out(stranger);
    CHECK(gone == strangers.size());
  }
}

TEST_CASE("where all ranks are beside each other no port is listened at") {
  LinkDoor door("127.0.0.1", true, 16);
  LinkMembers members{"secret", "mesh", 0, {door.card(), door.card()}};
  members.cards[1].nonce = std::string(32, '1');
  std::string error;
  CHECK(connect_to(door.card().tcp, Clock::now() + 10s, error).valid());
  for (LinkCard& card : members.cards) card.host = "here";
  door.admit(members);
  CHECK_FALSE(connect_to(door.card().tcp, Clock::now() + 10s, error).valid());
  CHECK(connect_to_unix(door.card().unix_name).valid());
}

TEST_CASE("other users of the host are refused at once, whatever they say") {
  if (geteuid() != 0) {
    MESSAGE("skipped: only root can start a process of another user");
    return;
  }
  Door at;
  const Hello hello = at.hello(1);  // which they cannot know
  std::array<int, 2> pipes{};
  REQUIRE(pipe(pipes.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    if (setgid(65534) == 0 && setuid(65534) == 0) {
      const Fd socket = at.knock(true);
      if (socket.valid()) {
        send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL);
        char one = 0;
        refused = wait_ready(socket.get(), POLLIN, Clock::now() + 10s) &&
                  recv(socket.get(), &one, 1, 0) <= 0;
      }
    }
    const char said = refused ? 'y' : 'n';
    _exit(write(pipes[1], &said, 1) == 1 ? 0 : 1);
  }
  char said = 0;
  while (!wait_ready(pipes[0], POLLIN, Clock::now() + 5ms)) CHECK_FALSE(at.door.take(1));
  CHECK(read(pipes[0], &said, 1) == 1);
  CHECK(said == 'y');
  CHECK_FALSE(at.door.take(1));
  waitpid(child, nullptr, 0);
  for (const int fd : pipes) close(fd);
}

RANK_FUNCTION(links_reduce) {
  const auto files = open_files().size();
  const std::string wanted = environment_or("FERRITE_LINK", "");
  if (wanted == "mixed") {  // rank 1 can be reached by tcp alone
    if (rank_of_process() == 1)
      setenv("FERRITE_LINK", "tcp", 1);
    else
      unsetenv("FERRITE_LINK");
  }
  {
    const auto links = connect_links(context_of_process());
    const auto other = connect_links(context_of_process(), "other");
    const int peer = (rank_of_process() + 1) % ranks_of_job();
    if (wanted != "mixed")
      CHECK(links->to(peer).kind() == (wanted == "tcp" ? "tcp" : "shared memory"));
    // Everybody sends first, and nobody looks meanwhile.
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
    connect_links(context_of_process());
  } catch (const ValueError& e) {
    error = e.what();
  }
  CHECK_MESSAGE(error.find("it is on on rank 0, and off on rank 2") != std::string::npos, error);
  setenv("FERRITE_TCP_INTEGRITY", "yes", 1);
  CHECK_THROWS_AS(connect_links(context_of_process(), "other"), ValueError);
}

TEST_CASE("ranks that do not agree on whether to seal what goes over tcp hear of it") {
  const StoreFolder folder;
  check_processes("links_disagree_on_integrity", 3, {{{"STORE", folder.path()}}, 60s});
}

RANK_FUNCTION(links_reduce_until_one_is_lost) {
  const auto links = connect_links(context_of_process());
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
  const auto links = connect_links(context_of_process());
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
