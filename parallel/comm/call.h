// Call: an operation requested from a group, for its implementation and for messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/reduce_op.h"

namespace ferrite::parallel::comm {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  send,
  recv,
  barrier,
  ring_all_reduce
};

/// "all_reduce", a literal.
const char* name(Collective kind);

struct Call {
  Collective kind = Collective::barrier;
  ReduceOp op = ReduceOp::sum;  ///< for operations that reduce
  int peer = 0;                 ///< the root; the other rank of send and recv
  Tensor out = {};              ///< written; undefined for send and barrier
  Tensor in = {};               ///< read; undefined for in-place operations, recv and barrier
};

/// The properties that must agree between ranks, in a form that is cheap to compare and to send:
/// everything that describe() shows.
struct Signature {
  Collective kind = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = kFloat32;
  std::uint8_t dims = 0;
  std::uint8_t channels_last = 0;  ///< 1 if `in` is in this order; a received bool could be neither
  std::int32_t peer = 0;
  std::uint64_t sequence = 0;  ///< number of the call in its group
  /// Sizes of `in` if the call has one, else of `out`; zeros after the first `dims`.
  std::int64_t sizes[kMaxDims] = {};
  friend bool operator==(const Signature&, const Signature&) = default;
};
Signature signature(const Call& call, std::uint64_t sequence);

/// "all_reduce(sum) of float32[2, 3]", "broadcast from rank 1 of uint8[7]". `names`: the ranks'
/// names; their numbers in the group if empty. A signature from another rank may be anything.
std::string describe(const Signature& signature, std::span<const int> names = {});
std::string describe(const Call& call, std::span<const int> names = {});

}  // namespace ferrite::parallel::comm
