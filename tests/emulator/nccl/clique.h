// Clique: the ranks that share an id, and the matching of their requests.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace emulator::nccl {

enum class Kind { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, recv };

struct Request {
  Kind kind;
  const void* in;
  void* out;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  // the root, or the other rank

  std::size_t in_bytes(int ranks) const;   // 0 if nothing is read
  std::size_t out_bytes(int ranks) const;  // the maximum that this kind writes on any rank
  bool agrees_with(const Request& other) const;
};

/// A request that its rank's stream has reached.
struct Posted {
  Request request;
  bool done = false;
  bool withdrawn = false;  // its rank has aborted: it is never matched
};
using PostedPtr = std::shared_ptr<Posted>;

/// All members are called with the runtime's lock held.
class Clique {
 public:
  explicit Clique(int ranks)
      : devices(static_cast<std::size_t>(ranks), -1), next_(devices.size()) {}

  int size() const { return static_cast<int>(devices.size()); }
  bool is_complete() const;
  /// Matches requests of the ranks by their order; the last one to arrive executes them. Requests
  /// that do not agree are never executed. Returns whether anything was executed.
  bool post(int rank, const PostedPtr& posted);

  std::vector<int> devices;  // of the ranks that have arrived; -1: not yet

 private:
  struct Meeting {
    std::map<int, PostedPtr> by_rank;
  };
  bool post_collective(int rank, const PostedPtr& posted);
  bool post_transfer(int from, int to);

  std::vector<std::uint64_t> next_;  // per rank, its next collective
  std::map<std::uint64_t, Meeting> meetings_;
  std::map<std::pair<int, int>, std::deque<PostedPtr>> sends_, recvs_;  // from, to
};

std::size_t bytes_of(ncclDataType_t type);

/// Reduces `count` elements at each of `in`, which may include `out`. Each addition is rounded to
/// the type, and averages scale first, as in NCCL.
void reduce(const std::vector<const void*>& in, void* out, std::size_t count, ncclDataType_t type,
            ncclRedOp_t op);

}  // namespace emulator::nccl
