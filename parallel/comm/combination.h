// Reductions and memory ranges in the form that kernels take.
#pragma once

#include <cstdint>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/combine.h"
#include "ferrite/parallel/comm/reduce_op.h"

namespace ferrite::parallel::comm {

/// The operation on two values; averages are sums that are scaled at the end.
inline kernels::Combine combine_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return kernels::Combine::product;
    case ReduceOp::min:
      return kernels::Combine::min;
    case ReduceOp::max:
      return kernels::Combine::max;
    case ReduceOp::sum:
    case ReduceOp::avg:
      break;
  }
  return kernels::Combine::sum;
}

/// Contiguous elements. Kernels use one type for input and output.
inline kernels::View flat_view(const void* data, std::int64_t numel, DType dtype) {
  kernels::View view;
  view.data = const_cast<void*>(data);
  view.numel = view.sizes[0] = numel;
  view.ndim = 1;
  view.strides[0] = 1;
  view.dtype = dtype;
  return view;
}

}  // namespace ferrite::parallel::comm
