// Arrays of elements for kernels that take no strides.
#pragma once

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/kernels/copy.h"

namespace ferrite::optim {

/// Whether the elements of both lie densely in memory in the same order.
inline bool same_layout(const Tensor& a, const Tensor& b) {
  return (a.is_contiguous() && b.is_contiguous()) ||
         (a.is_contiguous(kChannelsLast) && b.is_contiguous(kChannelsLast));
}

inline bool is_dense(const Tensor& t) { return same_layout(t, t); }

/// `t` itself where it lies densely in memory as `like` does, else a copy that does.
inline Tensor laid_out_like(const Tensor& t, const Tensor& like) {
  if (same_layout(t, like)) return t;
  Tensor out = empty(
      t.shape(),
      {.dtype = t.dtype(), .device = t.device(), .memory_format = like.suggest_memory_format()});
  kernels::copy(current_stream(t.device()), out, t);
  return out;
}
/// `t` itself where it is dense, else a dense copy.
inline Tensor densely(const Tensor& t) { return is_dense(t) ? t : laid_out_like(t, t); }

}  // namespace ferrite::optim
