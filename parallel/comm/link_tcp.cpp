#include "parallel/comm/link_tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/error.h"

namespace ferrite::parallel {

namespace {

// What is read at once stays in a core's second cache until it is reduced.
constexpr std::size_t kBuffer = std::size_t{256} << 10;
// Below this, bytes go through the buffer, many messages to a system call.
constexpr std::size_t kDirect = std::size_t{4} << 10;

}  // namespace

TcpLink::TcpLink(Fd socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)), buffer_(kBuffer) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

TcpLink::~TcpLink() = default;

void TcpLink::close() {
  closed_.store(true, std::memory_order_release);
  shutdown(socket_.get(), SHUT_RDWR);  // what was sent still arrives
}

void TcpLink::fail_lost() const {
  if (closed_.load(std::memory_order_acquire))
    fail<DistributedError>("link", "the link to {} was closed", peer_);
  if (error_ == 0 || error_ == ECONNRESET || error_ == EPIPE)
    fail<DistributedError>("link", "{} has closed its link (tcp), or has died", peer_);
  fail<DistributedError>("link", "the link to {} failed (tcp): {}", peer_,
                         std::generic_category().message(error_));
}

std::size_t TcpLink::try_send(std::span<const std::byte> bytes) {
  while (true) {
    const ssize_t n =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) return 0;
    error_ = errno;
    fail_lost();
  }
}

std::size_t TcpLink::read(std::byte* to, std::size_t size) {
  if (closed_.load(std::memory_order_acquire)) fail_lost();
  while (!over_) {
    const ssize_t n = ::recv(socket_.get(), to, size, MSG_DONTWAIT);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return 0;
    over_ = true;
    if (n < 0) error_ = errno;
  }
  return 0;
}

std::span<const std::byte> TcpLink::received() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (buffered() < kBuffer / 4) {
    if (end_ > kBuffer / 2) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
      end_ = buffered();
      begin_ = 0;
    }
    end_ += read(buffer_.data() + end_, kBuffer - end_);
    if (buffered() == 0 && over_) fail_lost();
  }
  return {buffer_.data() + begin_, buffered()};
}

void TcpLink::consume(std::size_t bytes) { begin_ += bytes; }

std::size_t TcpLink::try_recv(std::span<std::byte> bytes) {
  if (buffered() > 0 || bytes.size() < kDirect) return Link::try_recv(bytes);
  const std::size_t n = read(bytes.data(), bytes.size());
  if (n == 0 && over_) fail_lost();
  return n;
}

bool TcpLink::ready(const Wish& wish) {
  if (!wish.recv) return false;
  if (buffered() > wish.have) return true;
  if (over_) fail_lost();
  return false;
}

Link::Sleep TcpLink::arm(const Wish& wish) {
  const int events = (wish.send ? POLLOUT : 0) | (wish.recv ? POLLIN : 0);
  Sleep sleep;
  sleep.fds[0] = {socket_.get(), static_cast<short>(events), 0};
  return sleep;
}

}  // namespace ferrite::parallel
