// Links through memory shared by both ends: threads of one process, or processes of one host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::links {

/// Memory of one or two byte rings, one per direction, behind an anonymous file descriptor. Each
/// ring is mapped twice in a row, so that its contents are always contiguous.
class RingMemory {
 public:
  /// Bytes of each ring: some hundred microseconds of transfer, and fits in a core's L2 cache.
  static constexpr std::size_t kCapacity = std::size_t{512} << 10;

  /// The counters shared by the ends; initially zero.
  struct Direction {
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
    alignas(64) std::atomic<std::uint32_t> sender_sleeps;
    std::atomic<std::uint32_t> receiver_sleeps;
    std::atomic<std::uint32_t> closed;
  };

  /// DistributedError if the system has no memory for it.
  static std::shared_ptr<RingMemory> create(int rings);
  /// Opens a single ring created by another process; DistributedError for anything else.
  static std::shared_ptr<RingMemory> open(Fd fd);
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }  ///< the mapping stays
  Direction& direction(int which) const;
  std::byte* bytes(int which) const;

 private:
  RingMemory(Fd fd, std::size_t rings) : fd_(std::move(fd)), rings_(rings) {}
  void map();

  Fd fd_;
  const std::size_t rings_;
  std::byte* base_ = nullptr;
};

/// One of the two ends. A sleeping end is woken by a byte through a socket, whose hang-up also
/// reports that the other process has died.
class RingLink final : public Link {
 public:
  /// End 0 writes to direction 0; with a single ring, end 1 can only receive, and end 0 only send.
  /// `socket` is connected and non-blocking; `peer` is for messages: "rank 3".
  RingLink(std::shared_ptr<RingMemory> memory, int end, Fd socket, std::string peer,
           std::string_view kind);
  ~RingLink() override;
  RingLink(const RingLink&) = delete;
  RingLink& operator=(const RingLink&) = delete;

  std::size_t try_send(std::span<const std::byte> bytes) override;
  std::span<const std::byte> received() override;
  void consume(std::size_t bytes) override;
  std::size_t try_recv(std::span<std::byte> bytes) override;
  std::string_view kind() const override { return kind_; }
  bool ready(const Interest& interest) override;
  PollRequest arm(const Interest& interest) override;
  void disarm(const PollRequest& request) override;
  void close() override;

 private:
  bool is_over() const;
  [[noreturn]] void fail_lost() const;
  void look_for_more();
  std::size_t room() const;
  void ring_bell() const;

  const std::shared_ptr<RingMemory> memory_;
  RingMemory::Direction& out_;
  RingMemory::Direction& in_;
  std::byte* const out_bytes_;
  const std::byte* const in_bytes_;
  const Fd socket_;
  const std::string peer_;
  const std::string_view kind_;
  std::uint64_t written_ = 0, read_by_peer_ = 0;  // of out_
  std::uint64_t read_ = 0, written_by_peer_ = 0;  // of in_
  bool armed_send_ = false, armed_recv_ = false;
  bool peer_gone_ = false;
  std::atomic<bool> closed_ = false;
};

}  // namespace ferrite::parallel::links
