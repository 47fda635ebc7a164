// Link: a two-way, ordered, non-blocking stream of bytes between this rank and one other, on which
// send, recv and the host ring are built. Between processes of one host it uses shared memory,
// between threads of one process memory, otherwise TCP.
//
// Only ranks of the job can connect (address.h), and TCP traffic is sent in sealed frames
// (sealed_frames.h) unless FERRITE_TCP_INTEGRITY=off on all ranks. GLOO_SOCKET_IFNAME names the
// interface on which TCP links listen.
//
// Environment, for tests and benchmarks: FERRITE_LINK=tcp or shm forces that transport between
// processes; FERRITE_LINK_DELAY_US and FERRITE_LINK_GBPS simulate a network with that latency and
// bandwidth, in 10^9 bytes per second, in each direction of each link.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::parallel {
struct GroupContext;
}

namespace ferrite::parallel::links {

/// Not thread-safe. Sent data is buffered in the link until it is received: some hundred kilobytes,
/// independently of the other end. All members throw DistributedError if the other end has gone;
/// data it sent before can still be received.
class Link {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Link() = default;

  /// Accepts as many bytes from the front of `bytes` as there is room for; returns their number,
  /// possibly 0. The next call must begin with the bytes that were not accepted.
  virtual std::size_t try_send(std::span<const std::byte> bytes) = 0;
  /// Received and unconsumed data, in place, as far as it is contiguous; may be empty. It grows as
  /// more arrives, to at least 64 bytes.
  virtual std::span<const std::byte> received() = 0;
  virtual void consume(std::size_t bytes) = 0;
  /// Moves received data to the front of `bytes`; returns the number of bytes, possibly 0.
  virtual std::size_t try_recv(std::span<std::byte> bytes);

  /// "memory", "shared memory" or "tcp".
  virtual std::string_view kind() const = 0;
  /// Makes both ends fail from now on. Thread-safe.
  virtual void close() = 0;

  // The building blocks of wait_any().

  /// The events to wait for: room for bytes to send, or more than `have` received bytes.
  struct Interest {
    bool send = false, recv = false;
    std::size_t have = 0;
  };
  /// What poll(2) must watch for the link, and when to check again at the latest.
  struct PollRequest {
    std::array<pollfd, 2> fds{{{-1, 0, 0}, {-1, 0, 0}}};
    Time until = Time::max();
  };
  /// Whether the interest is satisfied, as far as that is known without a system call.
  virtual bool ready(const Interest& interest) = 0;
  /// Whether ready() can become true while spinning.
  virtual bool worth_looking(const Interest&) const { return true; }
  /// From here on the other end wakes the polling thread; call ready() once more after it.
  virtual PollRequest arm(const Interest& interest) = 0;
  /// Ends the above, given the result of poll(2).
  virtual void disarm(const PollRequest& request) = 0;
};

/// Tells the processor that this thread spins.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Ends a wait that would otherwise not end.
struct Interrupt {
  std::string_view op;               ///< for messages
  const std::atomic<bool>& aborted;  ///< set by another thread
  std::chrono::steady_clock::time_point deadline;
  /// DistributedError if the deadline has passed or the flag is set. Cheap enough for frequent
  /// calls.
  void check() const;
};

/// All links of one rank of a group.
class LinkMesh {
 public:
  virtual ~LinkMesh() = default;  ///< closes
  /// Never blocks: the link connects on first use. ValueError unless `rank` is another rank.
  virtual Link& to(int rank) = 0;
  /// Makes both ends of every link fail from now on. Thread-safe.
  virtual void close() = 0;
};

/// Between processes, which call it together. Meshes of one group have different names.
/// DistributedError, naming a rank, if one does not arrive; ValueError if settings are invalid, or
/// differ.
std::unique_ptr<LinkMesh> connect_links(const GroupContext& context,
                                        std::string_view name = "links");
/// Between threads of this process, one mesh per rank.
std::vector<std::unique_ptr<LinkMesh>> make_memory_links(int ranks);

/// Blocking; they sleep if nothing moves for a while.
void send(Link& link, std::span<const std::byte> bytes, const Interrupt& interrupt);
void recv(Link& link, std::span<std::byte> bytes, const Interrupt& interrupt);

struct Wait {
  Link* link = nullptr;
  Link::Interest interest;
};
/// Returns when one of the interests may be satisfied: spins briefly, then sleeps.
void wait_any(std::span<const Wait> waits, const Interrupt& interrupt);

/// The same for a ring's neighbours, which may be one: for more than `have` bytes from `from`, or
/// for room to `to`.
void wait_neighbours(Link& from, bool recv, std::size_t have, Link& to, bool send,
                     const Interrupt& interrupt);

/// Returns `link`, or a wrapper that slows it down by FERRITE_LINK_DELAY_US and FERRITE_LINK_GBPS.
/// Bytes are sent at most at that rate, and become visible to the receiver only after that delay.
/// ValueError if the variables are not numbers.
std::unique_ptr<Link> with_delay(std::unique_ptr<Link> link);

}  // namespace ferrite::parallel::links
