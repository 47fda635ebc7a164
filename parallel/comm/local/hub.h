// Hub: where the ranks of a local group synchronize, and see each other's arguments.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/host_worker.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/local/engine.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::local {

/// A rank's arguments of an operation.
struct Arguments {
  comm::Signature signature;
  Device device;  ///< of its tensors
  /// The memory it reduces or sends, its `in`, or `out` if it works in place; and the memory it
  /// writes.
  Place source, out;
};

/// A rank's state, visible to the others.
struct alignas(64) RankState {
  // Number of synchronization points it has reached.
  std::atomic<std::uint64_t> sync_points{0};
  // Its last call, for messages: the kind above kKindShift, its number below.
  std::atomic<std::uint64_t> called{0};
  // Whether it is between begin() and end(), where it may read the others' memory.
  std::atomic<bool> reads{false};
  std::atomic<bool> left{false};
  // Arguments of this operation and of the previous one, which others may not have left yet.
  Arguments arguments[2];
  std::uint64_t operations = 0;  // the rank's own
};

class Hub {
 public:
  /// `names`: the ranks' names in errors.
  explicit Hub(std::vector<int> names);

  int size() const { return static_cast<int>(ranks_.size()); }

  /// Publishes the arguments and waits for all others. DistributedError if they called something
  /// else. From here to end() this rank may read the others' memory.
  void begin(int rank, const Arguments& own, const links::Interrupt& interrupt);
  /// Makes the others read elsewhere, from the next synchronization point on.
  void republish(int rank, const Place& source, const Place& out);
  /// Waits until all ranks are here.
  void meet(int rank, const links::Interrupt& interrupt);
  /// This rank reads no more; it has left the operation, successfully or not.
  void end(int rank);
  /// The arguments of rank `of` in the current operation of `rank`.
  const Arguments& arguments(int rank, int of) const {
    return state(of).arguments[state(rank).operations % 2];
  }
  /// After an abort: waits until no rank reads another's memory, which takes no longer than copying
  /// it.
  void wait_for_readers(int rank);

  /// The rank takes part in nothing from now on.
  void leave(int rank);
  /// Notifies all listeners but `rank`'s, then ends all waits; once.
  void abort(int rank, const std::string& reason);
  /// The reason; "" before an abort.
  std::string abort_reason();
  /// Sets, or with null removes, the listener for an abort.
  void listen(int rank, std::function<void(const std::string& reason)> f);

  /// One rank's links for ring_all_reduce.
  links::LinkMesh& ring(int rank);
  /// One rank's links for send and recv; call it once.
  std::unique_ptr<links::LinkMesh> take_links(int rank);
  /// The hub of the sub-group `name`; the same for all callers. DistributedError if another rank
  /// has requested it with other ranks.
  std::shared_ptr<Hub> subgroup(const std::string& name, const std::vector<int>& ranks);

 private:
  RankState& state(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  const RankState& state(int rank) const { return *ranks_[static_cast<std::size_t>(rank)]; }
  bool all_reached(std::uint64_t sync_point);
  void check(int rank, std::uint64_t sync_point, const links::Interrupt& interrupt);
  std::string last_call(int rank) const;

  struct Subgroup {
    std::vector<int> ranks;
    std::shared_ptr<Hub> hub;
    std::size_t taken = 0;
  };

  const std::vector<int> names_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::atomic<bool> told_{false}, aborted_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;  // protects the following members too
  std::string reason_;
  std::condition_variable came_;
  std::vector<std::unique_ptr<links::LinkMesh>> ring_, links_;
  std::map<std::string, Subgroup> subgroups_;
  std::mutex listeners_mutex_;
  std::vector<std::function<void(const std::string&)>> listeners_;
};

}  // namespace ferrite::parallel::local
