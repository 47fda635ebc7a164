#include "ferrite/tests/parallel/relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <list>
#include <utility>
#include <vector>

namespace ferrite::test {

using namespace parallel;
using namespace std::chrono_literals;
using RelayClock = std::chrono::steady_clock;

namespace {

/// One direction of a connection.
struct RelayedStream {
  Passing passing;
  bool over = false;
};

struct Relayed {
  std::array<links::Fd, 2> ends;  // the opener, and the target
  std::array<RelayedStream, 2> streams;
};

}  // namespace

Relay::Relay(links::Address target, Change change)
    : target_(std::move(target)),
      change_(std::move(change)),
      listener_(links::listen_at({"127.0.0.1", 0})),
      address_(links::local_address(listener_)),
      thread_([this] { serve(); }) {}

Relay::~Relay() {
  stopping_ = true;
  thread_.join();
}

void Relay::serve() {
  std::list<Relayed> all;
  std::vector<char> buffer(1 << 16);
  int connections = 0;
  while (!stopping_) {
    std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
    for (const Relayed& one : all)
      for (std::size_t way = 0; way < 2; ++way)
        fds.push_back({one.streams[way].over ? -1 : one.ends[way].get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), 20) <= 0) continue;
    std::size_t at = 1;
    for (Relayed& one : all)
      for (std::size_t way = 0; way < 2; ++way) {
        RelayedStream& stream = one.streams[way];
        if (fds[at++].revents == 0) continue;
        const ssize_t n = recv(one.ends[way].get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) {
          stream.over = true;
          shutdown(one.ends[1 - way].get(), SHUT_WR);
          continue;
        }
        std::string bytes(buffer.data(), static_cast<std::size_t>(n));
        bytes_ += bytes.size();
        const std::size_t size = bytes.size();
        if (change_) change_(stream.passing, bytes);
        stream.passing.from += size;
        if (!links::send_all(one.ends[1 - way], bytes, RelayClock::now() + 10s)) stream.over = true;
      }
    std::erase_if(all,
                  [](const Relayed& one) { return one.streams[0].over && one.streams[1].over; });
    if (fds[0].revents == 0) continue;
    std::string error;
    Relayed one;
    one.ends[0] =
        links::Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    one.ends[1] = links::connect_to(target_, RelayClock::now() + 5s, error);
    for (std::size_t way = 0; way < 2; ++way) one.streams[way].passing = {connections, way == 0, 0};
    ++connections;
    if (one.ends[0].valid() && one.ends[1].valid()) all.push_back(std::move(one));
  }
}

Relay::Change Relay::flip(int connection, bool forth, std::size_t bit) {
  return [=](const Passing& passing, std::string& bytes) {
    const std::size_t byte = bit / 8;
    if (passing.connection != connection || passing.forth != forth || byte < passing.from ||
        byte >= passing.from + bytes.size())
      return;
    char& one = bytes[byte - passing.from];
    one = static_cast<char>(one ^ (1 << bit % 8));
  };
}

}  // namespace ferrite::test
