// The store over TCP: agreement of clients, and robustness against strangers.
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/bootstrap/store_table.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/parallel/comm/links/secret.h"
#include "ferrite/parallel/comm/links/socket.h"
#include "ferrite/tests/parallel/launcher_environment.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

using test::contains;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using bootstrap::protocol::Command;
using bootstrap::protocol::Writer;

bootstrap::TcpStoreServerOptions with_token(std::string token) {
  bootstrap::TcpStoreServerOptions options;
  options.token = std::move(token);
  return options;
}

std::string message_of(const auto& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool eventually(const auto& condition) {
  const auto deadline = Clock::now() + 20s;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

TEST_CASE("a store sets, gets, adds, checks and erases") {
  bootstrap::TcpStoreServer server(with_token("secret"));
  bootstrap::TcpStore a(server.address(), "secret", 5s), b(server.address(), "secret", 5s);
  a.set("key", "value");
  CHECK(b.get("key", 0ms) == "value");
  b.set("key", std::string("\0binary\xff", 8));
  CHECK(a.get("key", 1s) == std::string("\0binary\xff", 8));
  a.set("empty", "");
  CHECK(b.get("empty", 0ms).empty());
  CHECK(b.check({"key", "empty"}));
  CHECK(b.check({}));
  CHECK_FALSE(b.check({"key", "other"}));
  CHECK(b.missing({"x", "key", "y"}) == std::vector<std::string>{"x", "y"});
  CHECK(a.add("n", 5) == 5);
  CHECK(b.add("n", -7) == -2);
  CHECK(a.get("n", 0ms) == "-2");
  CHECK(contains(message_of([&] { a.add("key", 1); }), "no number"));
  CHECK(a.erase("key"));
  CHECK_FALSE(a.erase("key"));
  CHECK_FALSE(b.check({"key"}));
  CHECK(a.local_host() == (server.address().host == "localhost" ? a.local_host() : ""));
  CHECK((a.local_host() == "127.0.0.1" || a.local_host() == "::1"));

  const auto shared = std::make_shared<bootstrap::TcpStore>(server.address(), "secret", 5s);
  PrefixStore group("group", std::make_shared<PrefixStore>("job", shared));
  group.set("k", "v");
  CHECK(a.get("job/group/k", 0ms) == "v");
  CHECK(group.get("k", 0ms) == "v");
  CHECK(group.add("n", 1) == 1);
  CHECK(group.check({"k", "n"}));
  CHECK(group.erase("k"));
  CHECK_FALSE(a.check({"job/group/k"}));
  CHECK(group.local_host() == a.local_host());
}

TEST_CASE("a store accepts values up to its limits, and names larger ones") {
  bootstrap::TcpStoreServerOptions options;
  options.max_bytes = 40 << 20;
  bootstrap::TcpStoreServer server(options);
  bootstrap::TcpStore store(server.address(), "", 20s);
  std::string large(bootstrap::protocol::kMaxValue, 'x');
  large[12345] = '\0';
  store.set("large", large);
  CHECK(store.get("large", 5s) == large);
  store.set("large", large);  // at its own position
  store.set("second", large);
  CHECK(contains(message_of([&] { store.set("third", large); }), "no room"));
  CHECK(store.erase("second"));
  store.set("third", large);
  CHECK_THROWS_AS(store.set("k", large + "x"), ValueError);
  CHECK_THROWS_AS(store.set(std::string(bootstrap::protocol::kMaxKey + 1, 'k'), ""), ValueError);
  const std::string longest(bootstrap::protocol::kMaxKey, 'k');
  store.set(longest, "v");
  CHECK(store.get(longest, 0ms) == "v");
  CHECK_THROWS_AS(bootstrap::TcpStoreServer(with_token(std::string(257, 't'))), ValueError);
}

TEST_CASE("groups of many thousand ranks, and groups within them, have keys that fit") {
  bootstrap::TcpStoreServer server(with_token("secret"));
  GroupContext all{.name = "default", .size = 20'000};
  all.store = std::make_shared<bootstrap::TcpStore>(server.address(), "secret", 5s);
  std::vector<int> ranks(10'000);
  std::iota(ranks.begin(), ranks.end(), 10'000);
  const GroupContext half = context_of_some(all, ranks, 0, "default/1", 5s);
  CHECK(half.job_rank(3) == 10'003);
  ranks.resize(5000);
  for (int& rank : ranks) rank -= 10'000;
  const GroupContext quarter = context_of_some(half, ranks, 0, "default/1/1", 5s);
  ++ranks.back();
  const GroupContext other = context_of_some(half, ranks, 0, "default/1/1", 5s);
  quarter.store->set("key", "value");
  CHECK(quarter.store->check({"key"}));
  CHECK_FALSE(other.store->check({"key"}));
  CHECK_FALSE(half.store->check({"key"}));
}

TEST_CASE("waiting for a key returns its value, or an error if it does not arrive") {
  bootstrap::TcpStoreServer server({});
  bootstrap::TcpStore store(server.address(), "", 10s);
  // Several threads wait on one connection, for keys that arrive in another order.
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = "key" + std::to_string(i);
      // No wait is too long.
      right += store.get(key, i ? 20s : std::chrono::milliseconds::max()) == key + "'s";
    });
  }
  for (int i = 7; i >= 0; --i) {
    const std::string key = "key" + std::to_string(i);
    store.set(key, key + "'s");
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);

  const auto begin = Clock::now();
  const std::string error = message_of([&] { store.get("never", 50ms); });
  CHECK(Clock::now() - begin >= 50ms);
  CHECK(contains(error, "\"never\""));
  CHECK(contains(error, server.address().text()));
  CHECK_THROWS_AS(store.get("never", 0ms), DistributedError);
  store.set("never", "still works");
  CHECK(store.get("never", 0ms) == "still works");
}

TEST_CASE("no wait ends early on a connection that is busy") {
  bootstrap::TcpStoreServer server({});
  bootstrap::TcpStore store(server.address(), "", 10s);
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i) {
    busy.emplace_back([&] {
      while (!stop) store.set("value", std::string(20'000, 'v'));
    });
  }
  auto shortest = Clock::duration::max();
  for (int i = 0; i < 300; ++i) {
    const auto begin = Clock::now();
    CHECK_THROWS_AS(store.get("never", 1ms), DistributedError);
    shortest = std::min(shortest, Clock::now() - begin);
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  CHECK(shortest >= 1ms);
}

TEST_CASE("sums of many clients and threads are each seen once") {
  bootstrap::TcpStoreServer server({});
  constexpr int clients = 4, threads_each = 3, rounds = 50;
  std::vector<std::unique_ptr<bootstrap::TcpStore>> stores;
  for (int i = 0; i < clients; ++i) {
    stores.push_back(std::make_unique<bootstrap::TcpStore>(server.address(), "", 20s));
  }
  std::vector<std::atomic<int>> seen(clients * threads_each * rounds + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < clients * threads_each; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) ++seen[stores[i % clients]->add("n", 1)];
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 1; i < seen.size(); ++i) CHECK(seen[i] == 1);
}

TEST_CASE("once the server is lost every call fails, without waiting") {
  auto server = std::make_unique<bootstrap::TcpStoreServer>(bootstrap::TcpStoreServerOptions{});
  const links::Address address = server->address();
  bootstrap::TcpStore store(address, "", 20s);
  std::string error;
  std::thread waiter([&] { error = message_of([&] { store.get("k", 60s); }); });
  CHECK(eventually([&] { return server->clients() == 1; }));
  const auto begin = Clock::now();
  server.reset();
  waiter.join();
  CHECK(Clock::now() - begin < 15s);
  CHECK(contains(error, "get of \"k\""));
  CHECK(contains(error, address.text() + " was lost"));
  CHECK(contains(message_of([&] { store.set("k", "v"); }), "was lost"));
  CHECK(contains(message_of([&] { store.add("k", 1); }), "was lost"));
  CHECK(contains(message_of([&] { store.check({"k"}); }), "was lost"));
  CHECK(store.lost());
  CHECK(contains(message_of([&] { bootstrap::TcpStore(address, "", 100ms); }), "nothing answers"));
}

TEST_CASE("a client without the token is not admitted") {
  bootstrap::TcpStoreServer server(with_token("right"));
  for (const char* token : {"", "r", "righ", "right ", "wrong"}) {
    const bootstrap::Connection connection =
        bootstrap::greet(server.address(), token, Clock::now() + 10s);
    CHECK(connection.greeting == bootstrap::Greeting::refused);
    CHECK(contains(connection.detail, "another job"));
  }
  CHECK(bootstrap::greet(server.address(), "right", Clock::now() + 10s).greeting ==
        bootstrap::Greeting::accepted);
}

TEST_CASE("an impostor of the server is detected, and learns no token") {
  const links::Fd listener = links::listen_at({"localhost", 0});
  std::string heard(bootstrap::protocol::kHello + bootstrap::protocol::kProof, '\0');
  std::thread pretender([&] {
    const auto deadline = Clock::now() + 10s;
    if (!links::wait_ready(listener.get(), POLLIN, deadline)) return;
    const links::Fd fd(accept(listener.get(), nullptr, nullptr));
    const std::string hello =
        bootstrap::protocol::hello(std::string(bootstrap::protocol::kNonce, 'n'));
    links::recv_all(fd, heard.data(), bootstrap::protocol::kHello, deadline);
    links::send_all(fd, hello, deadline);
    links::recv_all(fd, heard.data() + bootstrap::protocol::kHello, bootstrap::protocol::kProof,
                    deadline);
    links::send_all(fd, std::string(1 + bootstrap::protocol::kProof, '\0'), deadline);
  });
  const bootstrap::Connection connection = bootstrap::greet(
      {"localhost", links::local_address(listener).port}, "a secret token", Clock::now() + 10s);
  pretender.join();
  CHECK(connection.greeting == bootstrap::Greeting::stranger);
  CHECK(contains(connection.detail, "claims to know our token, but cannot prove it"));
  CHECK(heard.find("secret") == std::string::npos);
}

TEST_CASE("proofs agree with the standards") {
  // Cases 1, 2 and 6 of RFC 4231.
  CHECK(links::hexadecimal(links::hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(links::hexadecimal(links::hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(links::hexadecimal(links::hmac_sha256(
            std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(links::equal_secrets("", ""));
  CHECK(links::equal_secrets("ab", "ab"));
  CHECK_FALSE(links::equal_secrets("ab", "aB"));
  CHECK_FALSE(links::equal_secrets("a", ""));
  CHECK(links::random_bytes(16) != links::random_bytes(16));
  // Parts are distinguished, not only their bytes.
  CHECK(links::derive("key", {"a", "bc"}) != links::derive("key", {"ab", "c"}));
  CHECK(links::derive("key", {"a", ""}) != links::derive("key", {"a"}));
  CHECK(links::derive("key", {"a"}) != links::derive("Key", {"a"}));
}

TEST_CASE("a server listens only at its own address, and reports obstacles") {
  bootstrap::TcpStoreServerOptions options;
  options.host = "127.0.0.1";
  bootstrap::TcpStoreServer server(options);
  std::string error;
  // All of 127/8 belongs to this host, but only one of its addresses is listened at.
  CHECK_FALSE(
      links::connect_to({"127.0.0.2", server.address().port}, Clock::now() + 5s, error).valid());
  options.port = server.address().port;
  int code = 0;
  try {
    bootstrap::TcpStoreServer another(options);
  } catch (const std::system_error& caught) {
    code = caught.code().value();
  }
  CHECK(code == EADDRINUSE);
  options.host = "192.0.2.1";  // reserved for documentation, never in use
  code = 0;
  try {
    bootstrap::TcpStoreServer another(options);
  } catch (const std::system_error& caught) {
    code = caught.code().value();
  }
  CHECK(code == EADDRNOTAVAIL);
  options.host = "no-such-host.invalid";
  CHECK_THROWS_AS(bootstrap::TcpStoreServer{options}, DistributedError);
}

// ---- Strangers

links::Fd dial(const bootstrap::TcpStoreServer& server) {
  std::string error;
  links::Fd fd = links::connect_to(server.address(), Clock::now() + 10s, error);
  INFO(error);
  REQUIRE(fd.valid());
  return fd;
}

/// A client that has authenticated, and may then send anything.
bootstrap::Connection enter(const bootstrap::TcpStoreServer& server, std::string_view token) {
  return bootstrap::greet_until_accepted(server.address(), token, 20s);
}

/// Whether the server hangs up, whatever it sends before.
bool is_dropped(const links::Fd& fd) {
  const auto deadline = Clock::now() + 20s;
  char buffer[4096];
  for (;;) {
    if (!links::wait_ready(fd.get(), POLLIN, deadline)) return false;
    const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return true;
  }
}

TEST_CASE("strangers that send nothing, incomplete messages or nonsense are dropped") {
  bootstrap::TcpStoreServerOptions options = with_token("token");
  options.handshake_timeout = 1s;
  bootstrap::TcpStoreServer server(options);
  bootstrap::TcpStore friendly(server.address(), "token", 10s);
  friendly.set("k", "v");

  std::vector<links::Fd> strangers;
  const auto say = [&](std::string_view text) {
    strangers.push_back(dial(server));
    links::send_all(strangers.back(), text, Clock::now() + 5s);
  };
  const std::string hello =
      bootstrap::protocol::hello(std::string(bootstrap::protocol::kNonce, 'n'));
  say("");
  say("FERR");
  say(hello.substr(0, 16));
  say(hello);
  say(hello + "half a proof");
  say(hello + std::string(bootstrap::protocol::kProof, '\0'));
  say("GET / HTTP/1.1\r\n\r\n");
  say(std::string(100000, '\0'));
  say(bootstrap::protocol::hello(std::string(bootstrap::protocol::kNonce, 'n'), 99));
  const auto say_inside = [&](std::string_view text) {
    bootstrap::Connection connection = enter(server, "token");
    links::send_all(connection.fd, connection.channel->seal(text), Clock::now() + 5s);
    strangers.push_back(std::move(connection.fd));
  };
  strangers.push_back(enter(server, "token").fd);
  links::send_all(strangers.back(), std::string(100, '\1'), Clock::now() + 5s);  // not sealed
  say_inside(std::string("\xff\xff\xff\xff", 4));  // a message of 4 GiB
  say_inside(std::string("\0\0\0\0", 4));          // an empty one
  say_inside(std::string("\1\0\0\0\x63", 5));      // an unknown command
  say_inside(std::string("\6\0\0\0\1\0", 6));      // half a message
  say_inside(bootstrap::protocol::Writer(bootstrap::protocol::Command::set)
                 .number(1u)
                 .take());  // a set without arguments
  say_inside(bootstrap::protocol::Writer(bootstrap::protocol::Command::beat)
                 .number(1000000u)
                 .take());  // missing reports
  say_inside(bootstrap::protocol::Writer(bootstrap::protocol::Command::missing)
                 .number(1u)
                 .number(0xffffffffu)
                 .take());
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    CAPTURE(i);
    CHECK(is_dropped(strangers[i]));
  }
  // A client that has completed its messages is not dropped.
  std::this_thread::sleep_for(options.handshake_timeout);
  CHECK(friendly.get("k", 0ms) == "v");
  CHECK(eventually([&] { return server.clients() == 1; }));
}

TEST_CASE("there are no more clients and strangers than there may be") {
  bootstrap::TcpStoreServerOptions options;
  options.max_clients = 2;
  options.max_strangers = 4;
  bootstrap::TcpStoreServer server(options);
  bootstrap::TcpStore a(server.address(), "", 10s), b(server.address(), "", 10s);
  CHECK(bootstrap::greet(server.address(), "", Clock::now() + 10s).greeting ==
        bootstrap::Greeting::full);
  std::vector<links::Fd> strangers;
  for (int i = 0; i < 4; ++i) strangers.push_back(dial(server));
  CHECK(eventually([&] { return server.clients() == 6; }));
  // The oldest is dropped, not the newest.
  strangers.push_back(dial(server));
  CHECK(is_dropped(strangers.front()));
  CHECK(bootstrap::greet(server.address(), "", Clock::now() + 10s).greeting ==
        bootstrap::Greeting::full);
  CHECK(is_dropped(strangers[1]));
  for (std::size_t i = 2; i < strangers.size(); ++i)
    CHECK_FALSE(links::wait_ready(strangers[i].get(), POLLIN, Clock::now() + 20ms));
  a.set("k", "v");
  CHECK(b.get("k", 0ms) == "v");
}

TEST_CASE("a client that disconnects while it waits, or does not read, harms no other") {
  bootstrap::TcpStoreServer server({});
  bootstrap::TcpStore store(server.address(), "", 20s);
  store.set("large", std::string(bootstrap::protocol::kMaxValue, 'x'));
  {
    const bootstrap::Connection waiter = enter(server, "");
    std::string asking = bootstrap::protocol::Writer(bootstrap::protocol::Command::get)
                             .number(7u)
                             .text("k")
                             .number(std::uint64_t{60000})
                             .take();
    REQUIRE(links::send_all(waiter.fd, waiter.channel->seal(asking), Clock::now() + 5s));
    const bootstrap::Connection greedy = enter(server, "");
    asking.clear();
    for (int i = 0; i < 50; ++i) {
      asking += bootstrap::protocol::Writer(bootstrap::protocol::Command::get)
                    .number(7u)
                    .text("large")
                    .number(std::uint64_t{0})
                    .take();
    }
    REQUIRE(links::send_all(greedy.fd, greedy.channel->seal(asking), Clock::now() + 5s));
    CHECK(eventually([&] { return server.clients() == 2; }));  // the greedy one is dropped
  }
  CHECK(eventually([&] { return server.clients() == 1; }));
  store.set("k", "v");
  CHECK(store.get("k", 0ms) == "v");
}

TEST_CASE("whatever clients send, the server survives and keeps its data") {
  bootstrap::TcpStoreServerOptions options;
  options.handshake_timeout = 2s;
  options.max_bytes = 4 << 20;
  bootstrap::TcpStoreServer server(options);
  bootstrap::TcpStore friendly(server.address(), "", 20s);
  friendly.set("kept", "whole");
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<std::uint32_t>(random() % n); };
    // Half of them authenticate first; for the others the greeting is part of the random data.
    const bool inside = seed % 2 == 0;
    std::string bytes =
        inside ? "" : bootstrap::protocol::hello(std::string(bootstrap::protocol::kNonce, 'n'));
    // Messages that are almost right, some bytes of which then are not.
    for (unsigned i = below(6); i > 0; --i) {
      const auto command =
          static_cast<bootstrap::protocol::Command>(below(2) ? below(7) : 31 + below(7));
      bootstrap::protocol::Writer message(command);
      for (unsigned k = below(5); k > 0; --k) {
        if (below(2)) {
          message.number(below(4) ? below(5) : static_cast<std::uint32_t>(random()));
        } else if (below(2)) {
          message.number(std::uint64_t{random()} << below(33));
        } else {
          message.text(std::string(below(40), static_cast<char>('a' + below(3))));
        }
      }
      bytes += message.take();
    }
    for (unsigned i = bytes.empty() ? 0 : below(4); i > 0; --i) {
      bytes[below(static_cast<unsigned>(bytes.size()))] = static_cast<char>(random());
    }
    bytes.resize(bytes.size() - std::min<std::size_t>(below(4), bytes.size()));
    bootstrap::Connection member;
    if (inside) member = enter(server, "");
    const links::Fd stranger = inside ? std::move(member.fd) : dial(server);
    links::send_all(stranger, inside ? member.channel->seal(bytes) : bytes, Clock::now() + 5s);
    if (seed % 3 == 0) shutdown(stranger.get(), SHUT_WR);
    if (seed % 20 == 0) CHECK(friendly.get("kept", 1s) == "whole");
  }
  CHECK(friendly.get("kept", 1s) == "whole");
  CHECK(eventually([&] { return server.clients() == 1; }));
}

}  // namespace
