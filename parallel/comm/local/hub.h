// Hub: where the ranks of a local group meet, and see what each of them brings.
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

/// What a rank brings to an operation.
struct Brought {
  comm::Signature signature;
  Device device;  ///< of its tensors
  /// What it reduces or gives, its `in`, or `out` where it works in place; and what it writes.
  Place source, out;
};

/// A rank, for the others to look at.
struct alignas(64) Seat {
  // How many meetings it has come to.
  std::atomic<std::uint64_t> meetings{0};
  // Its last call, for messages: the kind above kKindShift, its number below.
  std::atomic<std::uint64_t> called{0};
  // Whether it is between meetings, where it may read what the others brought.
  std::atomic<bool> reads{false};
  std::atomic<bool> left{false};
  // Of this operation and the one before, which others may not have left yet.
  Brought brought[2];
  std::uint64_t operations = 0;  // the rank's own
};

class Hub {
 public:
  /// `names`: what errors call the ranks.
  explicit Hub(std::vector<int> names);

  int size() const { return static_cast<int>(seats_.size()); }

  /// Brings something and waits for all others. DistributedError where they called something else.
  /// From here on this rank may read what the others brought, until end().
  void begin(int rank, const Brought& bring, const links::Interrupt& interrupt);
  /// Has the others read elsewhere, from the next meeting on.
  void bring_instead(int rank, const Place& source, const Place& out);
  /// Waits until all have come here.
  void meet(int rank, const links::Interrupt& interrupt);
  /// This rank reads no more; it has left the operation, well or not.
  void end(int rank);
  /// What `of` brought to the operation that `rank` is in.
  const Brought& brought(int rank, int of) const {
    return seat(of).brought[seat(rank).operations % 2];
  }
  /// After an abort: waits until nobody reads what others brought, which takes no longer than
  /// copying it.
  void wait_for_readers(int rank);

  /// The rank comes no more.
  void leave(int rank);
  /// Tells those who listen but `rank`, then ends all waits; once.
  void abort(int rank, const std::string& reason);
  /// Why; "" before.
  std::string abort_reason();
  /// Adds, or with null takes away, who hears of an abort.
  void listen(int rank, std::function<void(const std::string& reason)> f);

  /// Links of one rank, for ring_all_reduce.
  links::LinkMesh& ring(int rank);
  /// Links of one rank for send and recv; to be taken once.
  std::unique_ptr<links::LinkMesh> take_links(int rank);
  /// The hub of the sub-group `name`; the same for all that ask. DistributedError where another
  /// rank has asked for one of other ranks.
  std::shared_ptr<Hub> subgroup(const std::string& name, const std::vector<int>& ranks);

 private:
  Seat& seat(int rank) { return *seats_[static_cast<std::size_t>(rank)]; }
  const Seat& seat(int rank) const { return *seats_[static_cast<std::size_t>(rank)]; }
  bool all_came(std::uint64_t meeting);
  void check(int rank, std::uint64_t meeting, const links::Interrupt& interrupt);
  std::string last_call(int rank) const;

  struct Subgroup {
    std::vector<int> ranks;
    std::shared_ptr<Hub> hub;
    std::size_t taken = 0;
  };

  const std::vector<int> names_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::atomic<bool> told_{false}, aborted_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;  // also of what follows
  std::string reason_;
  std::condition_variable came_;
  std::vector<std::unique_ptr<links::LinkMesh>> ring_, links_;
  std::map<std::string, Subgroup> subgroups_;
  std::mutex listeners_mutex_;
  std::vector<std::function<void(const std::string&)>> listeners_;
};

}  // namespace ferrite::parallel::local
