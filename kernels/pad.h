// Padding and cropping.
#pragma once

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// What stands around the input.
enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };

/// The index, in a dimension of size `n`, that position `p` of the padded dimension reads; an index
/// outside [0, n) stands for the constant. `p` is relative to the first element of the original,
/// and is at most n - 1 (reflect) or n (circular) outside of it.
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

/// out[i] = x[i - before], in every dimension; `mode` defines the elements outside of x, which are
/// `value` for constant. One dtype, any strides. With constant, negative amounts crop; with
/// circular, an `out` of the size of x is a roll.
FERRITE_KERNEL(pad, const View& out, const View& x, const Shape& before, PadMode mode,
               Scalar value);

/// The gradient of a pad along `dim` whose mode is not constant: grad_x[j] = the sum of the
/// elements of `grad` whose positions read x[j], in order. Floating dtypes.
FERRITE_KERNEL(pad_backward, const View& grad_x, const View& grad, int dim, std::int64_t before,
               PadMode mode);

}  // namespace ferrite::kernels
