// Links between threads.
#include <sys/socket.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/links/ring.h"

namespace ferrite::parallel::links {

namespace {

/// Shared by the meshes of all ranks: links requested by one end and not yet by the other.
class Exchange {
 public:
  explicit Exchange(int ranks) : gone_(static_cast<std::size_t>(ranks)) {}

  std::unique_ptr<RingLink> link(int from, int to) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<RingLink> mine;
    if (const auto found = halves_.find({from, to}); found != halves_.end()) {
      mine = std::move(found->second);
      halves_.erase(found);
    } else {
      const std::shared_ptr<RingMemory> memory = RingMemory::create(2);
      memory->close_fd();
      std::array<int, 2> sockets{};
      FERRITE_CHECK(
          socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets.data()) == 0,
          DistributedError, "link", "the system has no more sockets");
      mine = std::make_unique<RingLink>(memory, 0, Fd(sockets[0]), rank(to), "memory");
      auto other = std::make_unique<RingLink>(memory, 1, Fd(sockets[1]), rank(from), "memory");
      if (!gone_[static_cast<std::size_t>(to)]) halves_[{to, from}] = std::move(other);
    }
    return mine;
  }

  /// Ranks that connect to this rank later find their links closed.
  void leave(int rank) {
    std::map<std::pair<int, int>, std::unique_ptr<RingLink>> unused;
    const std::lock_guard lock(mutex_);
    gone_[static_cast<std::size_t>(rank)] = true;
    for (auto it = halves_.begin(); it != halves_.end();)
      it = it->first.first == rank ? (unused.insert(std::move(*it)), halves_.erase(it)) : ++it;
  }

 private:
  static std::string rank(int number) { return "rank " + std::to_string(number); }

  std::mutex mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<RingLink>> halves_;
  std::vector<bool> gone_;
};

class MemoryMesh final : public LinkMesh {
 public:
  MemoryMesh(std::shared_ptr<Exchange> exchange, int rank, int size)
      : exchange_(std::move(exchange)), rank_(rank), links_(static_cast<std::size_t>(size)) {}
  ~MemoryMesh() override { close(); }

  Link& to(int rank) override {
    FERRITE_CHECK(rank >= 0 && rank < static_cast<int>(links_.size()) && rank != rank_, ValueError,
                  "link", "expected another rank of {}, got {}", links_.size(), rank);
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Link>& link = links_[static_cast<std::size_t>(rank)];
    if (!link) {
      link = with_delay(exchange_->link(rank_, rank));
      if (closed_) link->close();
    }
    return *link;
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    exchange_->leave(rank_);
    for (const auto& link : links_)
      if (link) link->close();
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const int rank_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace

std::vector<std::unique_ptr<LinkMesh>> make_memory_links(int ranks) {
  FERRITE_CHECK(ranks >= 1, ValueError, "link", "expected at least one rank, got {}", ranks);
  const auto exchange = std::make_shared<Exchange>(ranks);
  std::vector<std::unique_ptr<LinkMesh>> meshes;
  meshes.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    meshes.push_back(std::make_unique<MemoryMesh>(exchange, rank, ranks));
  return meshes;
}

}  // namespace ferrite::parallel::links
