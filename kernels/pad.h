// Padding and cropping.
#pragma once

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };

/// Where position `p` of a padded dimension reads in one of size `n`; below 0 or not below n:
/// nowhere (constant). `p` counts from the first element, and is at most n - 1 (reflect) or n
/// (circular) away from the range.
FERRITE_HOST_DEVICE inline std::int64_t pad_source(std::int64_t p, std::int64_t n, PadMode mode) {
  switch (mode) {
    case PadMode::reflect:
      return p < 0 ? -p : p >= n ? 2 * (n - 1) - p : p;
    case PadMode::circular:
      return p < 0 ? p + n : p >= n ? p - n : p;
    case PadMode::replicate:
      return p < 0 ? 0 : p >= n ? n - 1 : p;
    default:
      return p;
  }
}

/// out[i] = x[i - before], in every dimension; what lies outside of x is as `mode` says, or
/// `value`. One dtype, any strides. Negative amounts crop (constant), and a circular `out` of the
/// size of x is a roll.
FERRITE_KERNEL(pad, const View& out, const View& x, const Shape& before, PadMode mode,
               Scalar value);

/// The gradient of a pad along `dim` that is not constant: grad_x[j] = the sum of the elements of
/// `grad` that read j, in their order. Floating types.
FERRITE_KERNEL(pad_backward, const View& grad_x, const View& grad, int dim, std::int64_t before,
               PadMode mode);

}  // namespace ferrite::kernels
