// The link listener: which connections are admitted, and which are not.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/address.h"
#include "ferrite/parallel/comm/links/listener.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_CASE("a rank's address is read as it was written, and nothing else is") {
  links::LinkAddress address;
  address.nonce = std::string(32, 'a');
  address.tcp = {"::1", 4711};
  address.sealed = false;
  const links::LinkAddress read = links::LinkAddress::parse(address.text());
  CHECK((read.nonce == address.nonce && read.tcp.host == "::1" && read.tcp.port == 4711));
  CHECK((read.host.empty() && read.unix_name.empty() && !read.sealed));
  for (const std::string& text :
       {std::string(), std::string("ferrite-link-2 00 ::1 1 - - sealed"), "x" + address.text(),
        address.text().substr(0, 50), address.text() + "er"})
    CHECK_THROWS_AS(links::LinkAddress::parse(text), DistributedError);
}

TEST_CASE("a proof fits one connection, in one direction, of one mesh of one job") {
  links::LinkMembers members{"secret",
                             "group/mesh",
                             0,
                             {links::LinkAddress(), links::LinkAddress(), links::LinkAddress()}};
  for (std::size_t i = 0; i < 3; ++i) members.addresses[i].nonce = std::string(32, "012"[i]);
  const links::LinkKeys keys = members.keys(0, 1);
  CHECK(keys.opener_proof.size() == links::kLinkProof);
  CHECK(keys.opener_proof != keys.admitter_proof);
  CHECK(keys.opener_proof != keys.frames);
  const auto differs = [&](const links::LinkMembers& others, int from, int to) {
    const links::LinkKeys theirs = others.keys(from, to);
    return theirs.opener_proof != keys.opener_proof &&
           theirs.admitter_proof != keys.admitter_proof && theirs.frames != keys.frames;
  };
  CHECK(differs(members, 1, 0));
  CHECK(differs(members, 0, 2));
  links::LinkMembers other = members;
  other.secret = "Secret";
  CHECK(differs(other, 0, 1));
  other = members;
  other.mesh = "group/other";
  CHECK(differs(other, 0, 1));
  for (const std::size_t rank : {0u, 1u}) {
    other = members;
    other.addresses[rank].nonce.back() = 'f';
    CHECK(differs(other, 0, 1));
  }
  other = members;
  other.addresses[0].host = other.addresses[1].host = "here";
  CHECK(differs(other, 0, 1));
}

namespace {

/// A listener of rank 0 of three: rank 1 is on the same host, rank 2 on another.
struct Door {
  Door() {
    members.secret = "secret";
    members.mesh = "group/mesh";
    members.addresses = {listener.address(), links::LinkAddress(), links::LinkAddress()};
    members.addresses[0].host = members.addresses[1].host = "here";
    for (const std::size_t rank : {1u, 2u})
      members.addresses[rank].nonce = std::string(32, "012"[rank]);
    listener.admit(members);
  }
  links::Hello hello(int from) const {
    links::Hello hello;
    hello.from = from;
    const std::string proof = members.keys(from, 0).opener_proof;
    std::copy(proof.begin(), proof.end(), hello.proof.begin());
    return hello;
  }
  links::Fd knock(bool local) const {
    std::string error;
    return local ? links::connect_to_unix(listener.address().unix_name)
                 : links::connect_to(listener.address().tcp, Clock::now() + 10s, error);
  }
  /// Whether a connection with this Hello is admitted as rank `as`.
  bool lets_in(const links::Hello& said, bool local, int as,
               std::size_t bytes = sizeof(links::Hello)) {
    const links::Fd socket = knock(local);
    REQUIRE(socket.valid());
    REQUIRE(
        links::send_all(socket, {reinterpret_cast<const char*>(&said), bytes}, Clock::now() + 10s));
    const Clock::time_point end = Clock::now() + 10s;
    while (Clock::now() < end) {
      if (listener.take(as)) return true;
      char one = 0;
      if (links::wait_ready(socket.get(), POLLIN, Clock::now() + 1ms) &&
          recv(socket.get(), &one, 1, MSG_DONTWAIT) <= 0)
        return false;  // rejected
      if (bytes < sizeof said) return false;
    }
    return false;
  }

  links::LinkListener listener{"127.0.0.1", true, 16};
  links::LinkMembers members;
};

bool is_closed(const links::Fd& socket) {
  char one = 0;
  const ssize_t n = recv(socket.get(), &one, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

}  // namespace

TEST_CASE("strangers are not let in") {
  for (const bool local : {false, true}) {
    Door at;
    const int rank = local ? 1 : 2;
    const links::Hello hello = at.hello(rank);
    CHECK_FALSE(at.lets_in(hello, local, rank, 20));
    for (const std::size_t byte : {0u, 31u}) {
      links::Hello wrong = hello;
      wrong.proof[byte] = static_cast<char>(wrong.proof[byte] ^ 1);
      CHECK_FALSE(at.lets_in(wrong, local, rank));
    }
    for (const std::int64_t from : {-1, 3, 0, 3 - rank}) {
      links::Hello wrong = hello;
      wrong.from = from;
      CHECK_FALSE(at.lets_in(wrong, local, rank));
    }
    links::Hello wrong = hello;
    wrong.magic = 0;
    CHECK_FALSE(at.lets_in(wrong, local, rank));
    // Another mesh's Hello, or this rank's own reply, is useless to an attacker.
    links::LinkMembers other = at.members;
    other.mesh = "group/other";
    const std::string of_other = other.keys(rank, 0).opener_proof,
                      reflected = at.members.keys(0, rank).opener_proof;
    for (const std::string& proof : {of_other, reflected}) {
      wrong = hello;
      std::copy(proof.begin(), proof.end(), wrong.proof.begin());
      CHECK_FALSE(at.lets_in(wrong, local, rank));
    }
    // Not over the other transport.
    CHECK_FALSE(at.lets_in(hello, !local, rank));
    CHECK(at.lets_in(hello, local, rank));
    // A Hello cannot be replayed.
    CHECK_FALSE(at.lets_in(hello, local, rank));
  }
}

TEST_CASE("a listener answers only admitted connections") {
  Door at;
  const links::Fd socket = at.knock(false);
  const links::Hello hello = at.hello(2);
  REQUIRE(links::send_all(socket, {reinterpret_cast<const char*>(&hello), sizeof hello},
                          Clock::now() + 10s));
  while (!at.listener.take(2)) std::this_thread::sleep_for(1ms);
  std::string answer(links::kLinkProof, '\0');
  REQUIRE(links::recv_all(socket, answer.data(), answer.size(), Clock::now() + 10s));
  CHECK(answer == at.members.keys(2, 0).admitter_proof);
}

TEST_CASE("a rank connects despite any number of strangers, which are dropped in time") {
  for (const bool local : {false, true}) {
    Door at;
    std::vector<links::Fd> strangers;
    for (int i = 0; i < 600; ++i) {
      strangers.push_back(at.knock(local));
      if (strangers.back().valid() && i % 2)
        links::send_all(strangers.back(), "?", Clock::now() + 1s);
      if (i % 8 == 0) at.listener.take(1);
    }
    const Clock::time_point start = Clock::now();
    CHECK(at.lets_in(at.hello(local ? 1 : 2), local, local ? 1 : 2));
    CHECK((Clock::now() - start) < 1s);
    while (links::wait_ready(at.listener.fd(), POLLIN, Clock::now())) at.listener.take(0);
    std::this_thread::sleep_for(5500ms);
    // Any listener of the process drops them: a rank may have ceased to wait at this one.
    links::LinkListener("127.0.0.1", true, 16).take(1);
    std::size_t gone = 0;
    for (const links::Fd& stranger : strangers) gone += !stranger.valid() || is_closed(stranger);
    CHECK(gone == strangers.size());
  }
}

TEST_CASE("strangers who keep connecting do not hold a rank that looks for another") {
  Door at;
  std::vector<pid_t> strangers;
  for (int i = 0; i < 4; ++i) {
    strangers.push_back(fork());
    if (strangers.back() == 0)
      for (;;) links::connect_to_unix(at.listener.address().unix_name);
  }
  auto longest = 0ms;
  const Clock::time_point start = Clock::now();
  while (Clock::now() - start < 3s) {
    const Clock::time_point before = Clock::now();
    CHECK_FALSE(at.listener.take(1));
    longest =
        std::max(longest, std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - before));
  }
  CHECK(longest < 1s);
  // The queue may be full, and then a rank tries again.
  links::Fd rank;
  while (!(rank = at.knock(true)).valid() && Clock::now() - start < 30s) at.listener.take(1);
  REQUIRE(rank.valid());
  const links::Hello hello = at.hello(1);
  REQUIRE(links::send_all(rank, {reinterpret_cast<const char*>(&hello), sizeof hello},
                          Clock::now() + 10s));
  bool admitted = false;
  while (!admitted && Clock::now() - start < 60s) admitted = at.listener.take(1).has_value();
  CHECK(admitted);
  for (const pid_t stranger : strangers) {
    kill(stranger, SIGKILL);
    waitpid(stranger, nullptr, 0);
  }
}

TEST_CASE("a listener is closed once all ranks are connected") {
  Door at;
  const links::Fd local = at.knock(true), remote = at.knock(false);
  CHECK(at.lets_in(at.hello(1), true, 1));
  CHECK_FALSE(is_closed(local));
  CHECK(at.lets_in(at.hello(2), false, 2));
  CHECK(is_closed(local));
  CHECK(is_closed(remote));
  CHECK_FALSE(at.knock(true).valid());
  CHECK_FALSE(at.knock(false).valid());
}

TEST_CASE("no port is opened if all ranks share a host") {
  links::LinkListener listener("127.0.0.1", true, 16);
  links::LinkMembers members{"secret", "mesh", 0, {listener.address(), listener.address()}};
  members.addresses[1].nonce = std::string(32, '1');
  std::string error;
  CHECK(links::connect_to(listener.address().tcp, Clock::now() + 10s, error).valid());
  for (links::LinkAddress& address : members.addresses) address.host = "here";
  listener.admit(members);
  CHECK_FALSE(links::connect_to(listener.address().tcp, Clock::now() + 10s, error).valid());
  CHECK(links::connect_to_unix(listener.address().unix_name).valid());
}

TEST_CASE("other users of the host are refused at once, whatever they say") {
  if (geteuid() != 0) {
    MESSAGE("skipped: only root can start a process of another user");
    return;
  }
  Door at;
  const links::Hello hello = at.hello(1);  // which they cannot know
  std::array<int, 2> pipes{};
  REQUIRE(pipe(pipes.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    if (setgid(65534) == 0 && setuid(65534) == 0) {
      const links::Fd socket = at.knock(true);
      if (socket.valid()) {
        send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL);
        char one = 0;
        refused = links::wait_ready(socket.get(), POLLIN, Clock::now() + 10s) &&
                  recv(socket.get(), &one, 1, 0) <= 0;
      }
    }
    const char said = refused ? 'y' : 'n';
    _exit(write(pipes[1], &said, 1) == 1 ? 0 : 1);
  }
  char said = 0;
  while (!links::wait_ready(pipes[0], POLLIN, Clock::now() + 5ms)) CHECK_FALSE(at.listener.take(1));
  CHECK(read(pipes[0], &said, 1) == 1);
  CHECK(said == 'y');
  CHECK_FALSE(at.listener.take(1));
  waitpid(child, nullptr, 0);
  for (const int fd : pipes) close(fd);
}
