// Clique: the ranks that share an id, and how what they ask for meets.
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

  std::size_t in_bytes(int ranks) const;   // 0 where nothing is read
  std::size_t out_bytes(int ranks) const;  // as far as this kind writes on any rank
  bool agrees_with(const Request& other) const;
};

/// A request whose rank's stream has come to it.
struct Posted {
  Request request;
  bool done = false;
  bool withdrawn = false;  // its rank has aborted: it never meets others
};
using PostedPtr = std::shared_ptr<Posted>;

/// All members under the runtime's lock.
class Clique {
 public:
  explicit Clique(int ranks)
      : devices(static_cast<std::size_t>(ranks), -1), next_(devices.size()) {}

  int size() const { return static_cast<int>(devices.size()); }
  bool is_complete() const;
  /// Meets those of the other ranks by their order, and is carried out by who comes last. Requests
  /// that do not agree never are. Whether something was carried out.
  bool post(int rank, const PostedPtr& posted);

  std::vector<int> devices;  // of the ranks that have come; -1: it has not

 private:
  struct Meeting {
    std::map<int, PostedPtr> by_rank;
  };
  bool post_collective(int rank, const PostedPtr& posted);
  bool post_transfer(int from, int to);

  std::vector<std::uint64_t> next_;  // of each rank, its next collective
  std::map<std::uint64_t, Meeting> meetings_;
  std::map<std::pair<int, int>, std::deque<PostedPtr>> sends_, recvs_;  // from, to
};

std::size_t bytes_of(ncclDataType_t type);

/// Reduces `count` elements at each of `in`, which may be `out` too. Each addition is rounded to
/// the type, and averages scale first, as NCCL has it.
void reduce(const std::vector<const void*>& in, void* out, std::size_t count, ncclDataType_t type,
            ncclRedOp_t op);

}  // namespace emulator::nccl
