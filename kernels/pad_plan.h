// A padding with as few dimensions as possible, for the CPU and CUDA kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ferrite/kernels/pad.h"

namespace ferrite::kernels {

struct PadDim {
  std::int64_t size = 1, x_size = 1;  ///< of the result, of the input
  std::int64_t before = 0;
  std::int64_t out_stride = 0, x_stride = 0;

  bool is_whole() const { return before == 0 && size == x_size; }
};

/// The dimensions of a padding in the result's order in memory, innermost last, at least one.
/// Dimensions that are not padded are merged where the strides allow it.
struct PadPlan {
  int ndim = 0;
  PadDim dims[kMaxDims];

  PadPlan(const View& out, const View& x, const Shape& before) {
    for (int d = 0; d < out.ndim; ++d) {
      const PadDim dim{out.sizes[d], x.sizes[d], before[d], out.strides[d], x.strides[d]};
      if (dim.size == 1 && dim.is_whole()) continue;
      int at = ndim++;
      for (; at > 0 && dims[at - 1].out_stride < dim.out_stride; --at) dims[at] = dims[at - 1];
      dims[at] = dim;
    }
    ndim = std::max(merge(), 1);
  }
  std::int64_t numel() const {
    std::int64_t product = 1;
    for (int d = 0; d < ndim; ++d) product *= dims[d].size;
    return product;
  }

 private:
  int merge() {
    int count = 0;
    for (int d = 0; d < ndim; ++d) {
      const PadDim dim = dims[d];
      PadDim* const outer = count > 0 ? &dims[count - 1] : nullptr;
      if (outer && outer->is_whole() && dim.is_whole() &&
          outer->out_stride == dim.out_stride * dim.size &&
          outer->x_stride == dim.x_stride * dim.size) {
        outer->size = outer->x_size = outer->size * dim.size;
        outer->out_stride = dim.out_stride;
        outer->x_stride = dim.x_stride;
      } else {
        dims[count++] = dim;
      }
    }
    return count;
  }
};

/// The bits of `value` converted to `dtype`, in the lowest bytes.
inline std::uint64_t element_bits(DType dtype, Scalar value) {
  std::uint64_t bits = 0;
  dispatch_all(dtype, "pad", [&]<class T>() {
    const T element = value.cast<T>();
    std::memcpy(&bits, &element, sizeof(T));
  });
  return bits;
}

/// Calls add(p) for the positions p of a padded dimension that read element `j`, in order. `size`
/// is the size of the padded dimension, n that of the original.
template <class Add>
FERRITE_HOST_DEVICE inline void for_each_reader(std::int64_t j, std::int64_t n, std::int64_t before,
                                                std::int64_t size, PadMode mode, Add&& add) {
  const std::int64_t first = -before, last = size - before - 1;
  if (mode == PadMode::replicate) {
    const std::int64_t end = j == n - 1 ? last : j;
    for (std::int64_t p = j == 0 ? first : j; p <= end; ++p) add(p);
    return;
  }
  const bool reflects = mode == PadMode::reflect;
  const std::int64_t below = reflects ? -j : j - n, above = reflects ? 2 * (n - 1) - j : j + n;
  if (below >= first && below < 0) add(below);
  add(j);
  if (above <= last && above >= n) add(above);
}

}  // namespace ferrite::kernels
