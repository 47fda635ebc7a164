// Both ends of one TCP connection: sealed and plain.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/parallel/comm/links/secret.h"
#include "ferrite/parallel/comm/links/tcp.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

using Bytes = std::vector<std::byte>;

struct TcpPair {
  TcpPair(bool sealed, const std::string& said = "proof", int buffer = 0) {
    std::array<int, 2> fds{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    for (const int fd : fds)
      if (buffer > 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    links::Fd opened(fds[0]), admitted(fds[1]);
    if (!said.empty()) REQUIRE(::send(admitted.get(), said.data(), said.size(), 0) > 0);
    const std::string key = links::derive("token", {"frames"});
    if (sealed) {
      sender = std::make_unique<links::SealedTcpLink>(std::move(opened), "rank 1", "proof", key);
      receiver = std::make_unique<links::SealedTcpLink>(std::move(admitted), "rank 0", "", key);
    } else {
      sender = std::make_unique<links::TcpLink>(std::move(opened), "rank 1", "proof");
      receiver = std::make_unique<links::TcpLink>(std::move(admitted), "rank 0", "");
    }
  }
  std::unique_ptr<links::TcpLink> sender, receiver;
};

Bytes noise(std::size_t n) {
  Generator random(n);
  Bytes bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_below(256));
  return bytes;
}

}  // namespace

TEST_CASE("tcp: bytes come in order, whatever pieces they are offered and taken in") {
  for (const bool sealed : {true, false})
    for (const int buffer : {0, 4096, 50'000}) {
      CAPTURE(sealed);
      CAPTURE(buffer);
      TcpPair pair(sealed, "proof", buffer);
      Generator random(static_cast<std::uint64_t>(buffer) + 1);
      const Bytes bytes = noise(900'000);
      Bytes got;
      std::size_t sent = 0;
      while (got.size() < bytes.size()) {
        // A different size each time, also if nothing was accepted before.
        const std::size_t offer =
            std::min(bytes.size() - sent, random.next_below(random.next_below(2) ? 200 : 150'000));
        sent += pair.sender->try_send({bytes.data() + sent, offer});
        const auto there = pair.receiver->received();
        const std::size_t n = std::min(there.size(), random.next_below(100'000));
        got.insert(got.end(), there.begin(), there.begin() + static_cast<std::ptrdiff_t>(n));
        pair.receiver->consume(n);
      }
      CHECK((got == bytes));
      CHECK(pair.receiver->received().empty());
      pair.sender->close();
      CHECK_THROWS_AS(pair.receiver->received(), DistributedError);
    }
}

TEST_CASE("tcp: remaining bytes are contiguous with the following ones") {
  TcpPair pair(true);
  const Bytes bytes = noise(200);
  for (std::size_t i = 0; i < bytes.size(); i += 10)
    CHECK(pair.sender->try_send({bytes.data() + i, 10}) == 10);
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto there = pair.receiver->received();
    REQUIRE(there.size() >= std::min<std::size_t>(64, bytes.size() - at));
    CHECK(std::equal(there.begin(), there.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at)));
    at += 7;  // not at a frame boundary
    if (at > bytes.size()) break;
    pair.receiver->consume(7);
  }
}

TEST_CASE("tcp: at most a link's capacity is sent before the peer has authenticated") {
  const Bytes bytes = noise(2 << 20);
  for (const bool sealed : {true, false}) {
    CAPTURE(sealed);
    for (const std::size_t at_once : {std::size_t{10'000}, bytes.size()}) {
      TcpPair silent(sealed, "", 4 << 20);
      std::size_t before = 0;
      for (std::size_t n = 1; n > 0 && before < bytes.size(); before += n)
        n = silent.sender->try_send(
            std::span(bytes).subspan(before).first(std::min(bytes.size() - before, at_once)));
      CHECK(before > 10'000);
      CHECK(before <= 256 << 10);
      CHECK(silent.sender->arm({.send = true}).fds[0].events == POLLIN);
    }
    TcpPair impostor(sealed, "prooF");
    for (int i = 0; i < 2; ++i)
      CHECK_THROWS_AS(impostor.sender->try_send({bytes.data(), 10}), DistributedError);
    TcpPair cut(sealed, "pro");
    CHECK(cut.sender->try_send({bytes.data(), 10}) == 10);
    cut.receiver->close();
    CHECK_THROWS_AS(cut.sender->received(), DistributedError);
  }
}

TEST_CASE("tcp: a proof that arrives while the sender looks for data is heard") {
  const Bytes bytes = noise(100'000);
  Bytes taken(1 << 20);
  for (const bool sealed : {true, false})
    for (int i = 0; i < 50; ++i) {
      CAPTURE(sealed);
      CAPTURE(i);
      std::array<int, 2> fds{};
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
      const links::Fd other(fds[1]);
      const std::string key = links::derive("token", {"frames"});
      const auto sender =
          sealed ? std::make_unique<links::SealedTcpLink>(links::Fd(fds[0]), "rank 1", "proof", key)
                 : std::make_unique<links::TcpLink>(links::Fd(fds[0]), "rank 1", "proof");
      const auto may_send = [&] { return sender->arm({.send = true}).fds[0].events == POLLOUT; };
      while (may_send()) {
        sender->try_send(bytes);
        while (::recv(other.get(), taken.data(), taken.size(), 0) > 0) continue;
      }
      std::thread proving([&] { CHECK(::send(other.get(), "proof", 5, 0) == 5); });
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!may_send() && std::chrono::steady_clock::now() < limit)
        CHECK(sender->received().empty());
      proving.join();
      REQUIRE(may_send());
    }
}
