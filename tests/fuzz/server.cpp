// What a rank reads from the server of the store and the monitor, which may be broken, or another
// program.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/bootstrap/tcp_monitor.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"
#include "ferrite/tests/fuzz/fuzz.h"

namespace ferrite::fuzz {
namespace {

using namespace std::chrono_literals;
using namespace parallel;
namespace protocol = bootstrap::protocol;
using protocol::Answer;
using protocol::Writer;

constexpr const char* kToken = "a token";
const std::string kNonce(protocol::kNonce, 'n');

/// Reached only where the machine is busy: both sides close their connections.
links::Deadline soon() { return std::chrono::steady_clock::now() + 60s; }

/// The server's part of the greeting; sends nothing that the client has not accepted.
bool greet_client(const links::Fd& fd, std::string& client_nonce) {
  std::string hello(protocol::kHello, '\0'), proof(protocol::kProof, '\0');
  if (!links::recv_all(fd, hello.data(), hello.size(), soon()) ||
      !links::send_all(fd, protocol::hello(kNonce), soon()) ||
      !links::recv_all(fd, proof.data(), proof.size(), soon()))
    return false;
  client_nonce = hello.substr(hello.size() - protocol::kNonce);
  const auto reply = static_cast<char>(protocol::GreetingReply::accepted);
  return links::send_all(fd, reply + protocol::proof(kToken, "server", client_nonce, kNonce),
                         soon());
}

/// A server of one client, which sends `bytes`, sealed after the greeting or instead of it, and
/// closes its side.
class Server {
 public:
  Server(std::string_view bytes, bool greets)
      : thread_([bytes, greets] { serve(bytes, greets); }) {}
  ~Server() { thread_.join(); }
  static const links::Address& address() {
    static const links::Address here = links::local_address(listener());
    return here;
  }

 private:
  static const links::Fd& listener() {
    static const links::Fd fd = links::listen_at({"127.0.0.1", 0});
    return fd;
  }
  static void serve(std::string_view bytes, bool greets) {
    if (!links::wait_ready(listener().get(), POLLIN, soon())) std::abort();
    const links::Fd fd(accept4(listener().get(), nullptr, nullptr, SOCK_NONBLOCK));
    std::string sent(bytes), client_nonce;
    if (greets) {
      if (!greet_client(fd, client_nonce)) std::abort();
      links::SealedChannel channel(protocol::frame_key(kToken, "server", client_nonce, kNonce),
                                   protocol::frame_key(kToken, "client", client_nonce, kNonce));
      sent = channel.seal(bytes);
    }
    links::send_all(fd, sent, soon());
    shutdown(fd.get(), SHUT_WR);
    // Closing now would reset the connection, and lose what the client has not read.
    char rest[4096];
    while (links::wait_ready(fd.get(), POLLIN, soon()) &&
           recv(fd.get(), rest, sizeof rest, 0) > 0) {
    }
  }
  std::thread thread_;
};

void use_store(std::string_view bytes) {
  const Server server(bytes, true);
  bootstrap::TcpStore store(bootstrap::greet(Server::address(), kToken, soon()), Server::address(),
                            5s);
  const auto refusable = [](auto&& f) {
    try {
      f();
    } catch (const DistributedError&) {
    }
  };
  refusable([&] { store.set("key", "value"); });
  refusable([&] {
    if (store.get("key", 1s).size() > protocol::kMaxValue) std::abort();
  });
  refusable([&] { store.add("sum", 1); });
  refusable([&] {
    if (store.missing({"one", "two"}).size() > 2) std::abort();
  });
  refusable([&] { store.erase("key"); });
}

void use_monitor(std::string_view bytes) {
  const Server server(bytes, true);
  std::atomic<int> calls = 0;
  {
    bootstrap::TcpMonitor monitor(
        Server::address(), kToken,
        {.run = "run", .rank = 0, .world_size = 2, .timeout = 5s, .server_owner = "rank 1"});
    monitor.watch("group", [&](const std::string&) { ++calls; });
    monitor.begin("group", 1, "all_reduce");
    monitor.blame("group", 1);
  }
  if (calls > 1) std::abort();
}

/// The first byte says to whom the rest is sent: to a greeting, a store or a monitor.
void run_server(data::Bytes bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = text_of(bytes.subspan(1));
  if (bytes[0] % 3 == 1) return use_store(rest);
  if (bytes[0] % 3 == 2) return use_monitor(rest);
  const Server server(rest, false);
  const auto connection = bootstrap::greet(Server::address(), kToken, soon());
  if (connection.greeting == bootstrap::Greeting::accepted) std::abort();
}

std::vector<std::string> seeds_of_server() {
  const auto done = [](std::uint32_t id, std::string_view value) {
    return Writer(Answer::done).number(id).text(value).take();
  };
  std::string store = "\1" + done(0, "") + done(1, "value") + done(2, "7") +
                      done(3, std::string_view("\0\1", 2)) + done(4, "\1");
  std::string refusals = "\1" + Writer(Answer::store_full).number(0u).take() +
                         Writer(Answer::timed_out).number(1u).take() +
                         Writer(Answer::not_a_number).number(2u).take();
  const std::string joined = "\2" + Writer(Answer::joined).take();
  const std::string heard = Writer(Answer::heard).take();
  std::string events = joined + heard + Writer(Answer::report).take() +
                       Writer(Answer::failed).text("group").text("why").take() +
                       Writer(Answer::blamed).number(0u).text("rank 1").take() +
                       Writer(Answer::lost).text("rank 1 was lost").take() +
                       Writer(Answer::closing).take();
  std::string replies = "\1", beats = joined;
  for (std::uint32_t i = 0; i < 50'000; ++i) replies += done(i + 9, "v"), beats += heard;
  const std::string_view refused = "\2";
  return {std::string(1, '\0') + protocol::hello(kNonce) + std::string(refused) +
              std::string(protocol::kProof, '\0'),
          std::string(1, '\0') + protocol::hello(kNonce, 9),
          store,
          refusals,
          events,
          replies,
          beats,
          "\1" + done(1, std::string(1'000'000, 'v'))};
}

const Registered kServer({.name = "server",
                          .run = run_server,
                          .seeds = seeds_of_server,
                          .microseconds_per_byte = 10,
                          .memory_per_byte = 100});

}  // namespace
}  // namespace ferrite::fuzz
