// The kept or the reduced dimensions of a reduction inside kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/rolled.cuh"
#include "ferrite/kernels/reduce_nest.h"

namespace ferrite::kernels::cuda {

/// The dimensions of a ReduceNest in the form for a kernel argument: maps the index of an element
/// to its offsets in the input and the output.
class ReduceDims {
 public:
  struct alignas(16) Offsets {
    std::int64_t in, out;
  };

  /// `unit` adjacent elements of the innermost dimension, whose size is a multiple of `unit`, count
  /// as one.
  explicit ReduceDims(const ReduceNest::Dims& dims, int unit = 1) : ndim_(dims.n) {
    std::int64_t numel = 1;
    for (int d = 0; d < ndim_; ++d) {
      const ReduceNest::Dim& from = dims.dims[static_cast<std::size_t>(ndim_ - 1 - d)];
      const int step = d == 0 ? unit : 1;
      sizes_[d] = std::max<std::int64_t>(1, from.size / step);
      strides_[d] = {from.in * step, from.out * step};
      numel *= sizes_[d];
    }
    wide_ = numel >= std::int64_t{1} << 31;
    for (int d = 0; d < ndim_; ++d) {
      const auto size = static_cast<std::uint64_t>(sizes_[d]);
      if (wide_)
        wide_divisors_[d] = WideDivisor(size);
      else
        divisors_[d] = Divisor(static_cast<std::uint32_t>(size));
    }
  }

  FERRITE_HOST_DEVICE Offsets offsets(std::int64_t element) const {
    Offsets o{0, 0};
    FERRITE_ROLLED
    for (int d = 0; d + 1 < ndim_; ++d) {
      const auto quotient = static_cast<std::int64_t>(
          wide_ ? wide_divisors_[d].quotient(static_cast<std::uint64_t>(element))
                : divisors_[d].quotient(static_cast<std::uint32_t>(element)));
      add(o, element - quotient * sizes_[d], d);
      element = quotient;
    }
    add(o, element, ndim_ - 1);
    return o;
  }

  /// Whether there is one dimension, in which the input moves by in_step().
  FERRITE_HOST_DEVICE bool is_flat() const { return ndim_ == 1; }
  FERRITE_HOST_DEVICE std::int64_t in_step() const { return strides_[0].in; }

 private:
  FERRITE_HOST_DEVICE void add(Offsets& o, std::int64_t index, int d) const {
    o.in += index * strides_[d].in;
    o.out += index * strides_[d].out;
  }

  int ndim_;   // innermost first
  bool wide_;  // too many elements for `divisors_`
  Divisor divisors_[kMaxDims];
  WideDivisor wide_divisors_[kMaxDims];
  std::int64_t sizes_[kMaxDims] = {};
  Offsets strides_[kMaxDims] = {};
};

}  // namespace ferrite::kernels::cuda
