// Link: a two-way, ordered stream of bytes between this rank and one other, which never blocks:
// what send, recv and the ring of host memory are made of. Between processes of one host it goes
// through shared memory, between threads of one process through memory, else over TCP.
#pragma once

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

/// To be used by one thread at a time. DistributedError from all members where the other end has
/// gone.
class Link {
 public:
  virtual ~Link() = default;

  /// Takes what there is room for from the beginning of `bytes`; returns how much, 0 where none.
  virtual std::size_t try_send(std::span<const std::byte> bytes) = 0;
  /// What has arrived and was not consumed, in place, as far as it is in one piece; may be empty.
  virtual std::span<const std::byte> received() = 0;
  virtual void consume(std::size_t bytes) = 0;

  /// "memory", "shared memory" or "tcp".
  virtual std::string_view kind() const = 0;
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
  virtual ~LinkMesh() = default;
  virtual Link& to(int rank) = 0;
  /// Any thread: has both ends of every link fail from now on.
  virtual void close() = 0;
};

/// Of processes, which call it together.
std::unique_ptr<LinkMesh> connect_links(const GroupContext& context);
/// Of threads of this process, one mesh a rank.
std::vector<std::unique_ptr<LinkMesh>> make_memory_links(int ranks);

/// Blocking; they sleep where nothing moves for a while.
void send(Link& link, std::span<const std::byte> bytes, const Interrupt& interrupt);
void recv(Link& link, std::span<std::byte> bytes, const Interrupt& interrupt);

}  // namespace ferrite::parallel
