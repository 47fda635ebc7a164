// Reductions of any dimensions of a strided view.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class ReduceOp : std::uint8_t {
  sum,
  mean,
  prod,
  max,  // propagates NaN, as min does
  min,
  norm,
  // out is int64 (count_nonzero) or bool
  count_nonzero,
  any,
  all,
};

/// Reduces `in` over the dimensions in which `out` has size 1 and `in` has not; both have the same
/// number of dimensions. `out` has a dtype that can hold the result: that of `in`, or float32 for
/// 16-bit types, or int64 for integers and bool. mean and norm take floating dtypes only. An empty
/// range gives the operation's neutral element (max: -infinity or the smallest int64, of which a
/// narrower integer keeps the low bits, 0; mean: NaN). `p` is the exponent of norm.
FERRITE_KERNEL_FUNCTION(reduce, ReduceOp op, const View& out, const View& in, double p = 2);

}  // namespace ferrite::kernels
