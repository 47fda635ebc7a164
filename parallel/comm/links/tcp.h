// One-way links over TCP: the end that opened the connection sends.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/links/sealed_frames.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::links {

/// Unprotected bytes: an attacker who controls the network can modify them.
class TcpLink : public Link {
 public:
  /// `socket` is connected and non-blocking; `peer` is for messages: "rank 3". `expected` is the
  /// first message of the other end: DistributedError if it sends anything else.
  TcpLink(Fd socket, std::string peer, std::string expected);
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  std::size_t try_send(std::span<const std::byte> bytes) override;
  std::span<const std::byte> received() override;
  void consume(std::size_t bytes) override;
  std::size_t try_recv(std::span<std::byte> bytes) override;
  std::string_view kind() const override { return "tcp"; }
  void close() override;
  bool ready(const Interest& interest) override;
  bool worth_looking(const Interest&) const override { return false; }
  PollRequest arm(const Interest& interest) override;
  void disarm(const PollRequest&) override {}

 protected:
  std::size_t buffered() const { return end_ - begin_; }
  /// Like recvmsg(2) and sendmsg(2), without blocking: the number of bytes, possibly 0.
  std::size_t read(std::byte* to, std::size_t size);
  std::size_t write(const iovec* parts, std::size_t count);  ///< three parts at most
  [[noreturn]] void fail_lost() const;
  const std::string& peer() const { return peer_; }

  std::vector<std::byte> buffer_;  // [begin_, end_): received and not consumed
  std::size_t begin_ = 0, end_ = 0;
  bool over_ = false;  // the other end sends no more

 private:
  void look_for_expected();
  bool is_proved() const { return heard_ == expected_.size(); }
  bool may_send() const;

  const Fd socket_;
  const std::string peer_, expected_;
  std::size_t heard_ = 0;  // received part of expected_
  std::size_t sent_before_proof_ = 0;
  bool impostor_ = false;  // it sent something else
  int error_ = 0;
  std::atomic<bool> closed_ = false;
};

/// With sealed frames: DistributedError, naming the peer, if received data is not what it sent.
class SealedTcpLink final : public TcpLink {
 public:
  SealedTcpLink(Fd socket, std::string peer, std::string expected, std::string_view key);

  /// Bytes that were not taken must be passed again: some of them may already be in transit.
  std::size_t try_send(std::span<const std::byte> bytes) override;
  std::span<const std::byte> received() override;
  std::size_t try_recv(std::span<std::byte> bytes) override { return Link::try_recv(bytes); }
  bool ready(const Interest& interest) override;
  PollRequest arm(const Interest& interest) override;

 private:
  void begin_frame(std::span<const std::byte> payload);
  bool flush();
  bool has_frame() const;
  bool open_frame();
  bool fill();

  FrameMac mac_;
  // The frame being sent: its payload not yet reported as taken, and its bytes already sent.
  std::size_t under_way_ = 0, flushed_ = 0;
  std::vector<std::byte> unsent_;
  // The buffer holds verified payload, [begin_, end_), and frames from next_ on.
  std::size_t next_ = 0, raw_end_ = 0;
};

}  // namespace ferrite::parallel::links
