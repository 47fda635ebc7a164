// Reductions of any dimensions of a strided view.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class ReduceOp : std::uint8_t {
  sum,
  mean,
  prod,
  max,  // NaN wins
  min,
  norm,
  // out is int64 (count_nonzero) or bool
  count_nonzero,
  any,
  all,
};

/// Reduces `in` over the dimensions where `out` (as many dimensions) has size 1 and `in` has not.
/// `out` has a dtype that holds the result: that of `in`, float32 for 16-bit types, int64 for
/// integers and bool; mean and norm take floating types only. An empty range gives the operation's
/// neutral element (max: -infinity or the smallest integer; mean: NaN). `p` is norm's.
FERRITE_KERNEL_FUNCTION(reduce, ReduceOp op, const View& out, const View& in, double p = 2);

}  // namespace ferrite::kernels
