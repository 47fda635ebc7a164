// Link: a two-way, ordered stream of bytes between this rank and one other, which never blocks:
// what send, recv and the ring of host memory are made of. Between processes of one host it goes
// through shared memory, between threads of one process through memory, else over TCP.
//
// Who is no rank of the job cannot take part (address.h), and over TCP everything goes in sealed
// frames (sealed_frames.h); FERRITE_TCP_INTEGRITY=off, on all ranks, leaves the latter out.
// GLOO_SOCKET_IFNAME names the interface at which links of TCP listen.
//
// Environment, for tests and benchmarks: FERRITE_LINK=tcp or shm has processes use that alone;
// FERRITE_LINK_DELAY_US and FERRITE_LINK_GBPS play a network of that latency and of so many 10^9
// bytes a second, in each direction of each link.
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

/// To be used by one thread at a time. What is sent lies in the link until it is received: some
/// hundred kilobytes, whatever the other end does meanwhile. DistributedError from all members
/// where the other end has gone; what it sent before can still be received.
class Link {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Link() = default;

  /// Takes what there is room for from the beginning of `bytes`; returns how much, 0 where none.
  /// What was not taken is what the next call begins with.
  virtual std::size_t try_send(std::span<const std::byte> bytes) = 0;
  /// What has arrived and was not consumed, in place, as far as it is in one piece; may be empty.
  /// It grows as more arrives, to 64 bytes at least.
  virtual std::span<const std::byte> received() = 0;
  virtual void consume(std::size_t bytes) = 0;
  /// Moves what has arrived to the beginning of `bytes`; returns how much, 0 where nothing.
  virtual std::size_t try_recv(std::span<std::byte> bytes);

  /// "memory", "shared memory" or "tcp".
  virtual std::string_view kind() const = 0;
  /// Any thread: has both ends fail from now on.
  virtual void close() = 0;

  // What wait_any() is made of.

  /// What a thread waits for: room for bytes to send, or more than `have` received bytes.
  struct Interest {
    bool send = false, recv = false;
    std::size_t have = 0;
  };
  /// What poll(2) is to look at on the link's behalf, and when to ask again at the latest.
  struct PollRequest {
    std::array<pollfd, 2> fds{{{-1, 0, 0}, {-1, 0, 0}}};
    Time until = Time::max();
  };
  /// Whether the interest has come true, as far as that is known without a system call.
  virtual bool ready(const Interest& interest) = 0;
  /// Whether ready() can come true by itself.
  virtual bool worth_looking(const Interest&) const { return true; }
  /// From here on the other end wakes who polls; then ready() is to be asked once more.
  virtual PollRequest arm(const Interest& interest) = 0;
  /// Ends that; with what poll(2) has found.
  virtual void disarm(const PollRequest& request) = 0;
};

/// What ends a wait that would not end by itself.
struct Interrupt {
  std::string_view op;               ///< for messages
  const std::atomic<bool>& aborted;  ///< set by another thread
  std::chrono::steady_clock::time_point deadline;
  /// DistributedError where the time has come or the flag is set. Cheap enough to be asked often.
  void check() const;
};

/// All links of one rank of a group.
class LinkMesh {
 public:
  virtual ~LinkMesh() = default;  ///< closes
  /// Never blocks: the link connects when it is first used. ValueError for no other rank.
  virtual Link& to(int rank) = 0;
  /// Any thread: has both ends of every link fail from now on.
  virtual void close() = 0;
};

/// Of processes, which call it together. Meshes of one group have different names.
/// DistributedError, naming a rank, where one does not come; ValueError where settings are wrong,
/// or differ.
std::unique_ptr<LinkMesh> connect_links(const GroupContext& context,
                                        std::string_view name = "links");
/// Of threads of this process, one mesh a rank.
std::vector<std::unique_ptr<LinkMesh>> make_memory_links(int ranks);

/// Blocking; they sleep where nothing moves for a while.
void send(Link& link, std::span<const std::byte> bytes, const Interrupt& interrupt);
void recv(Link& link, std::span<std::byte> bytes, const Interrupt& interrupt);

struct Wait {
  Link* link = nullptr;
  Link::Interest interest;
};
/// Returns when one of the interests may have come true: looks a few times, then sleeps.
void wait_any(std::span<const Wait> waits, const Interrupt& interrupt);

}  // namespace ferrite::parallel::links
