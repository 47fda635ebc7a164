// What the tests of norms draw.
#pragma once

#include <cmath>

#include "ferrite/kernels/norm.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

inline DType draw_dtype(kit::KernelCase& c) {
  return c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
}

/// The dtype of statistics and parameters.
inline DType statistics(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

/// Error of float32 sums of a few thousand values of size `scale`, plus the result's own rounding.
inline kit::Tolerance tolerance(DType dtype, double scale) {
  return {.rtol = rounding_of(dtype), .atol = (dtype == kFloat64 ? 1e-13 : 3e-6) * scale};
}

/// NHWC with all kinds of channel counts, and NCHW with planes that are whole packs, short, odd or
/// of several pieces.
inline kernels::ChannelLayout draw_layout(kit::KernelCase& c) {
  switch (c.integer(0, 6)) {
    case 0:  // NHWC in packs
      return {.outer = c.integer(1, 300), .channels = 8 * c.integer(1, 12), .inner = 1};
    case 1:  // any number of channels; rows joined if 8 divides the outer size
      return {.outer = c.coin() ? 8 * c.integer(1, 30) : c.integer(1, 99),
              .channels = c.size(40, 1),
              .inner = 1};
    case 2:  // more channels than the width of a tile
      return {.outer = c.integer(1, 20), .channels = c.integer(250, 600), .inner = 1};
    case 3:  // planes of whole packs
      return {.outer = c.integer(1, 9), .channels = c.integer(1, 9), .inner = 8 * c.integer(8, 60)};
    case 4:  // short planes, many images: by columns
      return {
          .outer = 8 * c.integer(8, 12), .channels = c.integer(1, 8), .inner = c.integer(2, 20)};
    case 5:  // planes of odd sizes
      return {.outer = c.integer(1, 7), .channels = c.integer(1, 9), .inner = c.integer(2, 99)};
    default:  // several pieces per channel
      return {.outer = 3, .channels = 2, .inner = c.coin() ? 8 * 701 : 4099};
  }
}

inline Shape shape_of(const kernels::ChannelLayout& layout) {
  return {layout.outer, layout.channels, layout.inner};
}

/// Parameters of the channels; sometimes absent, or off the 16-byte boundary.
inline kit::Operand parameter(kit::KernelCase& c, const kernels::ChannelLayout& layout, DType dtype,
                              double low, double high) {
  return c.input({layout.channels}, statistics(dtype), {.low = low, .high = high});
}
inline kit::Operand optional_parameter(kit::KernelCase& c, const kernels::ChannelLayout& layout,
                                       DType dtype) {
  return c.coin() ? parameter(c, layout, dtype, -2, 2) : kit::Operand();
}

/// Multiples of 1/4, and powers of 2: sums and products are exact, so that every device
/// picks the same of equal maxima and masks the same gradients.
inline Tensor quarters(kit::KernelCase& c, const Shape& shape) {
  Tensor t = empty(shape, {.dtype = kFloat64});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = static_cast<double>(c.integer(-7, 7)) / 4;
  return t;
}
inline Tensor powers(kit::KernelCase& c, const Shape& shape) {
  Tensor t = empty(shape, {.dtype = kFloat64});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = std::ldexp(1.0, -static_cast<int>(c.integer(0, 2)));
  return t;
}

}  // namespace ferrite::test
