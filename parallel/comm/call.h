// Call: what a rank asked a group to do, for those who do it and for messages.
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
  ReduceOp op = ReduceOp::sum;  ///< of those that reduce
  int peer = 0;                 ///< the root; the other rank of send and recv
  Tensor out = {};              ///< what is written; undefined for send and barrier
  Tensor in = {};  ///< what is read; undefined for those that work in place, for recv and barrier
};

/// What must agree between ranks, in a form that is cheap to compare and to send: all that
/// describe() says.
struct Signature {
  Collective kind = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = kFloat32;
  std::uint8_t dims = 0;
  bool channels_last = false;
  std::int32_t peer = 0;
  std::uint64_t sequence = 0;  ///< of the call in its group
  /// Of `in` where the call has one, else of `out`; zeros behind the first `dims`.
  std::int64_t sizes[kMaxDims] = {};
  friend bool operator==(const Signature&, const Signature&) = default;
};
Signature signature(const Call& call, std::uint64_t sequence);

/// "all_reduce(sum) of float32[2, 3]", "broadcast from rank 1 of uint8[7]".
/// `names`: what each rank of the group is called; its number in the group where there are none.
std::string describe(const Signature& signature, std::span<const int> names = {});
std::string describe(const Call& call, std::span<const int> names = {});

}  // namespace ferrite::parallel::comm
