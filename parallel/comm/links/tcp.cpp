#include "ferrite/parallel/comm/links/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel::links {

namespace {

// Data read at once stays in a core's L2 cache until it is reduced.
constexpr std::size_t kBuffer = std::size_t{256} << 10;
// Smaller messages go through the buffer, many per system call.
constexpr std::size_t kDirect = std::size_t{4} << 10;
// Parts written at once: those of a frame.
constexpr std::size_t kMaxParts = 3;
// Amount sent before the other end has authenticated: the capacity of any link.
constexpr std::size_t kBeforeProof = std::size_t{256} << 10;

}  // namespace

TcpLink::TcpLink(Fd socket, std::string peer, std::string expected)
    : buffer_(kBuffer),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      expected_(std::move(expected)) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

TcpLink::~TcpLink() = default;

void TcpLink::close() {
  closed_.store(true, std::memory_order_release);
  shutdown(socket_.get(), SHUT_RDWR);  // sent data still arrives
}

void TcpLink::fail_lost() const {
  if (closed_.load(std::memory_order_acquire))
    fail<DistributedError>("link", "the link to {} was closed", peer_);
  if (error_ == 0 || error_ == ECONNRESET || error_ == EPIPE)
    fail<DistributedError>("link", "{} has closed its link (tcp), or has died", peer_);
  fail<DistributedError>("link", "the link to {} failed (tcp): {}", peer_,
                         std::generic_category().message(error_));
}

std::size_t TcpLink::write(const iovec* parts, std::size_t count) {
  look_for_expected();
  if (!may_send()) {
    if (over_) fail_lost();
    return 0;
  }
  std::array<iovec, kMaxParts> clipped{};
  if (!is_proved()) {
    std::size_t room = kBeforeProof - sent_before_proof_;
    for (std::size_t i = 0; i < count; ++i) {
      clipped[i] = {parts[i].iov_base, std::min(parts[i].iov_len, room)};
      room -= clipped[i].iov_len;
    }
    parts = clipped.data();
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = count;
  while (true) {
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      if (!is_proved()) sent_before_proof_ += static_cast<std::size_t>(n);
      return static_cast<std::size_t>(n);
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) return 0;
    error_ = errno;
    fail_lost();
  }
}

std::size_t TcpLink::read(std::byte* to, std::size_t size) {
  if (closed_.load(std::memory_order_acquire)) fail_lost();
  look_for_expected();
  if (!is_proved()) return 0;  // what arrives from now on begins with the proof
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

void TcpLink::look_for_expected() {
  std::array<char, 64> said;
  while (!is_proved() && !over_ && !impostor_) {
    const std::size_t missing = std::min(said.size(), expected_.size() - heard_);
    const ssize_t n = ::recv(socket_.get(), said.data(), missing, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      over_ = true;
      if (n < 0) error_ = errno;
      return;
    }
    const auto size = static_cast<std::size_t>(n);
    impostor_ =
        !equal_secrets({said.data(), size}, std::string_view(expected_).substr(heard_, size));
    heard_ += size;
  }
  FERRITE_CHECK(!impostor_, DistributedError, "link",
                "the process listening in place of {} does not prove that it belongs to this job",
                peer_);
}

bool TcpLink::may_send() const { return is_proved() || sent_before_proof_ < kBeforeProof; }

std::size_t TcpLink::try_send(std::span<const std::byte> bytes) {
  const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return write(&part, 1);
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

bool TcpLink::ready(const Interest& interest) {
  if (!interest.recv) return false;
  if (buffered() > interest.have) return true;
  if (over_) fail_lost();
  return false;
}

Link::PollRequest TcpLink::arm(const Interest& interest) {
  const int to_send = may_send() ? POLLOUT : POLLIN;
  const int events = (interest.send ? to_send : 0) | (interest.recv ? POLLIN : 0);
  PollRequest request;
  request.fds[0] = {socket_.get(), static_cast<short>(events), 0};
  return request;
}

// ---- in frames

namespace {

// At least this much verified payload is contiguous; no more needs to be moved together.
constexpr std::size_t kInOnePiece = 64;
constexpr std::size_t kAround = kFrameHeader + kFrameTag;
// After sending this much, check for received data.
constexpr std::size_t kSentAtOnce = std::size_t{256} << 10;

}  // namespace

SealedTcpLink::SealedTcpLink(Fd socket, std::string peer, std::string expected,
                             std::string_view key)
    : TcpLink(std::move(socket), std::move(peer), std::move(expected)), mac_(key) {}

/// Only completely sent frames count as taken, because nothing else would send the rest.
std::size_t SealedTcpLink::try_send(std::span<const std::byte> bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && taken < kSentAtOnce) {
    const std::span<const std::byte> rest = bytes.subspan(taken);
    if (under_way_ == 0) begin_frame(rest.first(std::min(rest.size(), kMaxFrame)));
    if (!flush()) break;
    const std::size_t n = std::min(under_way_, rest.size());
    under_way_ -= n;
    taken += n;
  }
  return taken;
}

/// The part for which there is no room is kept: the next call may come with fewer bytes.
void SealedTcpLink::begin_frame(std::span<const std::byte> payload) {
  const auto header = FrameMac::header(payload.size());
  const FrameMac::Tag tag = mac_.next(payload);
  const std::array<std::span<const std::byte>, 3> pieces{header, payload, tag};
  std::array<iovec, kMaxParts> parts;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    parts[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
  std::size_t sent = write(parts.data(), parts.size());
  under_way_ = payload.size();
  for (const std::span<const std::byte> piece : pieces) {
    const std::size_t gone = std::min(sent, piece.size());
    sent -= gone;
    unsent_.insert(unsent_.end(), piece.begin() + static_cast<std::ptrdiff_t>(gone), piece.end());
  }
}

/// Whether the whole frame has been sent.
bool SealedTcpLink::flush() {
  if (unsent_.empty()) return true;
  const iovec part{unsent_.data() + flushed_, unsent_.size() - flushed_};
  flushed_ += write(&part, 1);
  if (flushed_ < unsent_.size()) return false;
  unsent_.clear();
  flushed_ = 0;
  return true;
}

std::span<const std::byte> SealedTcpLink::received() {
  while (buffered() < kInOnePiece)
    if (!open_frame() && !fill()) break;
  if (buffered() == 0 && over_) fail_lost();
  return {buffer_.data() + begin_, buffered()};
}

bool SealedTcpLink::has_frame() const {
  if (raw_end_ - next_ < kFrameHeader) return false;
  const std::size_t size = FrameMac::payload_of({buffer_.data() + next_, kFrameHeader});
  return size == 0 || raw_end_ - next_ >= size + kAround;
}

/// Whether there was a complete one. The rest of the previous payload is moved next to it.
bool SealedTcpLink::open_frame() {
  if (!has_frame()) return false;
  const std::byte* const frame = buffer_.data() + next_;
  const std::size_t size = FrameMac::payload_of({frame, kFrameHeader});
  FERRITE_CHECK(size > 0 && mac_.matches_next({frame + kFrameHeader, size},
                                              {frame + kFrameHeader + size, kFrameTag}),
                DistributedError, "link",
                "what came from {} over TCP is not what it sent: bytes were changed, left out or "
                "repeated on the way",
                peer());
  const std::size_t payload = next_ + kFrameHeader, rest = buffered();
  std::memmove(buffer_.data() + payload - rest, buffer_.data() + begin_, rest);
  begin_ = payload - rest;
  end_ = payload + size;
  next_ = end_ + kFrameTag;
  return true;
}

/// Whether anything arrived.
bool SealedTcpLink::fill() {
  if (buffered() == 0) begin_ = end_ = next_;
  if (begin_ == raw_end_) begin_ = end_ = next_ = raw_end_ = 0;
  if (kBuffer - raw_end_ < kMaxFrame + kAround) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, raw_end_ - begin_);
    end_ -= begin_, next_ -= begin_, raw_end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t n = read(buffer_.data() + raw_end_, kBuffer - raw_end_);
  raw_end_ += n;
  return n > 0;
}

bool SealedTcpLink::ready(const Interest& interest) {
  if (!interest.recv) return false;
  if (buffered() > interest.have || (buffered() < kInOnePiece && has_frame())) return true;
  if (over_) fail_lost();
  return false;
}

Link::PollRequest SealedTcpLink::arm(const Interest& interest) {
  Interest mine = interest;
  // More is read once the buffered data was consumed.
  mine.recv = interest.recv && buffered() < kInOnePiece;
  return TcpLink::arm(mine);
}

}  // namespace ferrite::parallel::links
