// Common code of kernels that read an index.
#pragma once

#include <algorithm>

#include "ferrite/core/cuda/report.cuh"
#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/strided.cuh"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

/// How a kernel reports an index outside [0, size).
struct IndexCheck {
  ferrite::cuda::DeviceReport* report;
  const char* op;
  std::int64_t size;
  // The geometry of the index itself, which gives the position for the message.
  int ndim;
  std::int64_t sizes[kMaxDims], strides[kMaxDims];

  IndexCheck(const Stream& stream, const char* op, std::int64_t size, const View& index)
      : report(ferrite::cuda::report_slot(stream)), op(op), size(size), ndim(index.ndim) {
    std::copy_n(index.sizes, ndim, sizes);
    std::copy_n(index.strides, ndim, strides);
  }

  __device__ __forceinline__ bool fits(std::int64_t value) const {
    return static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(size);
  }
};

/// `value` was read `offset` elements from the first one of the index.
[[gnu::noinline]] static __device__ void report_bad_index(IndexCheck check, std::int64_t value,
                                                          std::int64_t offset) {
  // Coordinates from an offset: the dimension with the widest steps first.
  std::int64_t position[kMaxDims] = {};
  unsigned left = (1u << check.ndim) - 1;
  while (left != 0) {
    int widest = -1;
    for (int d = 0; d < check.ndim; ++d)
      if ((left >> d & 1u) && (widest < 0 || check.strides[d] > check.strides[widest])) widest = d;
    left &= ~(1u << widest);
    const std::int64_t stride = check.strides[widest], last = check.sizes[widest] - 1;
    if (stride == 0) continue;
    position[widest] = offset / stride < last ? offset / stride : last;
    offset -= position[widest] * stride;
  }
  std::int64_t linear = 0;
  for (int d = 0; d < check.ndim; ++d) linear = linear * check.sizes[d] + position[d];
  ferrite::cuda::report_index(check.report, check.op, value, check.size, linear, check.ndim,
                              check.sizes);
}

/// Calls body.operator()<Word>() with an unsigned type of the size of an element, which suffices to
/// move elements.
template <class Body>
void dispatch_words(std::size_t bytes, Body&& body) {
  switch (bytes) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

}  // namespace ferrite::kernels::cuda
