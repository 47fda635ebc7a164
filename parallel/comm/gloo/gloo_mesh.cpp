#include "ferrite/parallel/comm/gloo/gloo_mesh.h"

#include <fmt/format.h>
#include <gloo/transport/address.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/core/error.h"

namespace ferrite::parallel::gloo {

namespace {

/// Precedes the bytes of a message.
struct MessageHeader {
  std::uint64_t slot = 0, bytes = 0;
};

[[noreturn]] void fail_unsupported(const char* what) {
  fail<ValueError>("gloo", "{} is not there for groups whose ranks are connected by links", what);
}

/// Algorithms check that a pair exists for each rank they need, and then use buffers.
class LinkPair final : public ::gloo::transport::Pair {
 public:
  const ::gloo::transport::Address& address() const override { fail_unsupported("an address"); }
  void connect(const std::vector<char>&) override { fail_unsupported("connect"); }
  void close() override { fail_unsupported("close"); }
  void setSync(bool, bool) override { fail_unsupported("setSync"); }
  std::unique_ptr<::gloo::transport::Buffer> createSendBuffer(int, void*, size_t) override {
    fail_unsupported("a bound buffer");
  }
  std::unique_ptr<::gloo::transport::Buffer> createRecvBuffer(int, void*, size_t) override {
    fail_unsupported("a bound buffer");
  }
  void send(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override {
    fail_unsupported("Pair::send");
  }
  void recv(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override {
    fail_unsupported("Pair::recv");
  }
};

// Messages up to this size are sent in one piece with the header, which saves a wake-up, or a
// packet.
constexpr std::size_t kSmallMessage = std::size_t{4} << 10;
/// Room for a message that is kept, at first.
constexpr std::size_t kFirstRoom = std::size_t{256} << 10;

}  // namespace

/// Memory that Gloo sends from or receives into.
class GlooMesh::Buffer final : public ::gloo::transport::UnboundBuffer {
 public:
  Buffer(std::shared_ptr<Transport> transport, void* data, std::size_t bytes)
      : UnboundBuffer(data, bytes), transport_(std::move(transport)) {}
  ~Buffer() override;

  using UnboundBuffer::waitRecv;
  using UnboundBuffer::waitSend;
  bool waitRecv(int* rank, std::chrono::milliseconds) override;
  bool waitSend(int* rank, std::chrono::milliseconds) override;
  // Waits end by their Interrupt.
  void abortWaitRecv() override { fail_unsupported("abortWaitRecv"); }
  void abortWaitSend() override { fail_unsupported("abortWaitSend"); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    recv(std::vector<int>{from}, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override;

  std::deque<int> sent, received;  // peers of finished transfers not waited for yet

 private:
  std::span<std::byte> part(std::size_t offset, std::size_t bytes) const {
    FERRITE_CHECK(offset <= size && (bytes == kUnspecifiedByteCount || bytes <= size - offset),
                  ValueError, "gloo", "expected a part of {} bytes, got {} from {} on", size, bytes,
                  offset);
    return {static_cast<std::byte*>(ptr) + offset,
            bytes == kUnspecifiedByteCount ? size - offset : bytes};
  }
  bool wait(std::deque<int>& ended, int* rank);

  const std::shared_ptr<Transport> transport_;
};

class GlooMesh::Transport final : public ::gloo::transport::Context,
                                  public std::enable_shared_from_this<Transport> {
 public:
  Transport(links::LinkMesh& links, int rank, int size)
      : Context(rank, size), links_(links), peers_(static_cast<std::size_t>(size)) {
    pairs_.resize(static_cast<std::size_t>(size));
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) pairs_[static_cast<std::size_t>(peer)] = std::make_unique<LinkPair>();
  }

  std::unique_ptr<::gloo::transport::Pair>& createPair(int peer) override { return getPair(peer); }
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                        size_t bytes) override {
    return std::make_unique<Buffer>(shared_from_this(), data, bytes);
  }

  const links::Interrupt* interrupt = nullptr;

  void send(Buffer& buffer, int to, std::uint64_t slot, std::span<const std::byte> bytes) {
    check_peer(to);
    peers_[static_cast<std::size_t>(to)].sends.push_back({&buffer, {slot, bytes.size()}, bytes, 0});
    advance();
  }

  void recv(Buffer& buffer, std::vector<int> from, std::uint64_t slot, std::span<std::byte> bytes) {
    for (const int peer : from) check_peer(peer);
    for (const int peer : from) {
      std::list<Early>& early = peers_[static_cast<std::size_t>(peer)].early;
      const auto found = std::find_if(early.begin(), early.end(),
                                      [&](const Early& one) { return one.slot == slot; });
      if (found == early.end()) continue;
      check_size(peer, found->bytes.size(), bytes.size());
      std::copy(found->bytes.begin(), found->bytes.end(), bytes.begin());
      early.erase(found);
      buffer.received.push_back(peer);
      return;
    }
    recvs_.push_back({&buffer, std::move(from), slot, bytes});
  }

  /// Sends and receives until `ended` is not empty.
  void run_until_any(const std::deque<int>& ended) {
    while (ended.empty()) {
      if (advance())
        interrupt->check();
      else
        wait();
    }
  }

  /// Half a message may have been sent or received, so the rest of the stream is unusable.
  void forget(const Buffer& buffer) {
    const auto is_its = [&](const auto& one) { return one.buffer == &buffer; };
    broken_ |= std::erase_if(recvs_, is_its) > 0;
    for (Peer& peer : peers_) {
      broken_ |= std::erase_if(peer.sends, is_its) > 0;
      if (!peer.receiving || peer.target.buffer != &buffer) continue;
      peer.receiving = false;
      broken_ = true;
    }
  }

 private:
  struct Send {
    Buffer* buffer;
    MessageHeader header;
    std::span<const std::byte> bytes;
    std::size_t done;  // of header and bytes
  };
  struct Recv {
    Buffer* buffer = nullptr;
    std::vector<int> from;
    std::uint64_t slot = 0;
    std::span<std::byte> into;
  };
  /// A message that arrived before its receive was posted.
  struct Early {
    std::uint64_t slot;
    std::vector<std::byte> bytes;
  };
  struct Peer {
    std::deque<Send> sends;
    MessageHeader header;  // of the message being received
    std::size_t header_done = 0, done = 0;
    bool receiving = false;  // the header has arrived
    Recv target;             // without a buffer: the message is kept for later
    Early kept;
    std::list<Early> early;
  };

  void check_peer(int peer) const {
    FERRITE_CHECK(interrupt, ValueError, "gloo", "expected to be within an operation");
    FERRITE_CHECK(!broken_, DistributedError, "gloo", "an operation before has failed");
    FERRITE_CHECK(peer >= 0 && peer < size && peer != rank, ValueError, "gloo",
                  "expected another rank of {}, got {}", size, peer);
  }
  static void check_size(int peer, std::size_t sent, std::size_t expected) {
    FERRITE_CHECK(sent == expected, DistributedError, "gloo",
                  "the ranks disagree: expected {} bytes from rank {} of the group, got {}",
                  expected, peer, sent);
  }

  bool wants_from(int peer) const {
    return peers_[static_cast<std::size_t>(peer)].receiving ||
           std::any_of(recvs_.begin(), recvs_.end(), [&](const Recv& one) {
             return std::find(one.from.begin(), one.from.end(), peer) != one.from.end();
           });
  }

  /// Whether anything moved.
  bool advance() {
    bool moved = false;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      if (!peers_[static_cast<std::size_t>(peer)].sends.empty()) moved |= advance_send(peer);
      if (wants_from(peer)) moved |= advance_recv(peer);
    }
    return moved;
  }

  bool advance_send(int to) {
    std::deque<Send>& sends = peers_[static_cast<std::size_t>(to)].sends;
    Send& first = sends.front();
    const std::size_t sent = links_.to(to).try_send(rest_of(first));
    first.done += sent;
    if (first.done < sizeof(MessageHeader) + first.bytes.size()) return sent > 0;
    first.buffer->sent.push_back(to);
    sends.pop_front();
    return true;
  }

  std::span<const std::byte> rest_of(const Send& send) {
    const auto header = std::as_bytes(std::span(&send.header, 1));
    if (send.done >= header.size()) return send.bytes.subspan(send.done - header.size());
    if (send.bytes.size() > kSmallMessage) return header.subspan(send.done);
    std::byte* const end = std::copy(header.begin(), header.end(), small_.begin());
    std::copy(send.bytes.begin(), send.bytes.end(), end);
    return std::span(small_).subspan(send.done, header.size() + send.bytes.size() - send.done);
  }

  bool advance_recv(int from) {
    Peer& peer = peers_[static_cast<std::size_t>(from)];
    links::Link& link = links_.to(from);
    bool moved = false;
    if (!peer.receiving) {
      const auto header = std::as_writable_bytes(std::span(&peer.header, 1));
      const std::size_t got = link.try_recv(header.subspan(peer.header_done));
      peer.header_done += got;
      if (peer.header_done < header.size()) return got > 0;
      begin(peer, from);
      moved = true;
    }
    if (!peer.target.buffer && peer.done == peer.target.into.size()) grow(peer);
    const std::span<std::byte> rest = peer.target.into.subspan(peer.done);
    const std::size_t got = rest.empty() ? 0 : link.try_recv(rest);
    peer.done += got;
    if (peer.done < peer.header.bytes) return moved || got > 0;
    peer.receiving = false;
    if (peer.target.buffer)
      peer.target.buffer->received.push_back(from);
    else
      peer.early.push_back(std::move(peer.kept));
    return true;
  }

  /// Finds the destination of the message whose header has arrived.
  void begin(Peer& peer, int from) {
    peer.header_done = peer.done = 0;
    peer.receiving = true;
    const auto target = std::find_if(recvs_.begin(), recvs_.end(), [&](const Recv& one) {
      return one.slot == peer.header.slot &&
             std::find(one.from.begin(), one.from.end(), from) != one.from.end();
    });
    if (target != recvs_.end()) {
      check_size(from, peer.header.bytes, target->into.size());
      peer.target = std::move(*target);
      recvs_.erase(target);
    } else {
      peer.kept = {peer.header.slot, {}};
      peer.target = {nullptr, {}, peer.header.slot, {}};
    }
  }

  /// Makes room for more of a message that is kept: in proportion to what has arrived, whatever
  /// size the other rank has announced.
  static void grow(Peer& peer) {
    std::vector<std::byte>& bytes = peer.kept.bytes;
    bytes.resize(std::min<std::size_t>(peer.header.bytes, std::max(2 * bytes.size(), kFirstRoom)));
    peer.target.into = bytes;
  }

  void wait() {
    waits_.clear();
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const links::Link::Interest interest{
          .send = !peers_[static_cast<std::size_t>(peer)].sends.empty(), .recv = wants_from(peer)};
      if (interest.send || interest.recv) waits_.push_back({&links_.to(peer), interest});
    }
    links::wait_any(waits_, *interrupt);
  }

  links::LinkMesh& links_;
  std::vector<Peer> peers_;
  std::list<Recv> recvs_;  // receives without a matching message yet
  std::vector<links::Wait> waits_;
  std::array<std::byte, sizeof(MessageHeader) + kSmallMessage> small_;
  bool broken_ = false;
};

// ---- Buffers

GlooMesh::Buffer::~Buffer() { transport_->forget(*this); }

bool GlooMesh::Buffer::wait(std::deque<int>& ended, int* rank) {
  transport_->run_until_any(ended);
  if (rank) *rank = ended.front();
  ended.pop_front();
  return true;
}

bool GlooMesh::Buffer::waitRecv(int* rank, std::chrono::milliseconds) {
  return wait(received, rank);
}
bool GlooMesh::Buffer::waitSend(int* rank, std::chrono::milliseconds) { return wait(sent, rank); }

void GlooMesh::Buffer::send(int to, uint64_t slot, size_t offset, size_t bytes) {
  transport_->send(*this, to, slot, part(offset, bytes));
}

void GlooMesh::Buffer::recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) {
  transport_->recv(*this, std::move(from), slot, part(offset, bytes));
}

// ---- The context

GlooMesh::GlooMesh(links::LinkMesh& links, int rank, int size)
    : ::gloo::Context(rank, size), transport_(std::make_shared<Transport>(links, rank, size)) {
  transportContext_ = transport_;
}
GlooMesh::~GlooMesh() = default;

GlooMesh::Operation::Operation(GlooMesh& mesh, const links::Interrupt& interrupt) : mesh_(mesh) {
  mesh_.transport_->interrupt = &interrupt;
}
GlooMesh::Operation::~Operation() { mesh_.transport_->interrupt = nullptr; }

}  // namespace ferrite::parallel::gloo
