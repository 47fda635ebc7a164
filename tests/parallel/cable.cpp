#include "ferrite/tests/parallel/cable.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <list>
#include <string>
#include <vector>

namespace ferrite::test {
namespace {

using parallel::links::Fd;

/// One direction of a connection.
struct Way {
  int from, to;
  std::string waiting = {};
  bool ended = false;

  /// False if the connection has ended.
  bool carry() {
    std::array<char, 65536> buffer;
    while (!ended && waiting.size() < buffer.size()) {
      const ssize_t got = recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (got < 0) return false;
      if (got == 0) ended = true;
      waiting.append(buffer.data(), static_cast<std::size_t>(got));
    }
    while (!waiting.empty()) {
      const ssize_t sent = send(to, waiting.data(), waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (sent < 0) return false;
      waiting.erase(0, static_cast<std::size_t>(sent));
    }
    return !ended;
  }
};

struct CableConnection {
  CableConnection(parallel::links::Fd a, parallel::links::Fd b)
      : near(std::move(a)),
        far(std::move(b)),
        out{near.get(), far.get()},
        in{far.get(), near.get()} {}
  parallel::links::Fd near, far;
  Way out, in;
};

}  // namespace

Cable::Cable(std::uint16_t port)
    : to_{"127.0.0.1", port},
      listener_(parallel::links::listen_at({"127.0.0.1", 0})),
      port_(parallel::links::local_address(listener_).port),
      thread_([this] { run(); }) {}

Cable::~Cable() {
  stop_ = true;
  thread_.join();
}

void Cable::run() {
  std::list<CableConnection> connections;
  while (!stop_) {
    std::vector<pollfd> fds = {{listener_.get(), POLLIN, 0}};
    for (const auto& c : connections)
      for (const parallel::links::Fd* fd : {&c.near, &c.far}) fds.push_back({fd->get(), POLLIN, 0});
    // What cannot be sent yet, and flags, are looked at again soon.
    poll(fds.data(), cut_ ? 0 : fds.size(), 5);
    if (drop_.exchange(false)) connections.clear();
    if (cut_) continue;
    if (parallel::links::Fd near(accept(listener_.get(), nullptr, nullptr)); near.valid()) {
      std::string error;
      parallel::links::Fd far = parallel::links::connect_to(
          to_, std::chrono::steady_clock::now() + std::chrono::seconds(1), error);
      // The target does not answer: the new connection is closed.
      if (far.valid()) connections.emplace_back(std::move(near), std::move(far));
    }
    std::erase_if(connections, [](CableConnection& c) { return !c.out.carry() || !c.in.carry(); });
  }
}

}  // namespace ferrite::test
