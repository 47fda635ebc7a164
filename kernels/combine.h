// Two arrays of values reduced to one: what collectives across ranks do to each piece that arrives.
#pragma once

#include <cstdint>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class Combine : std::uint8_t { sum, product, min, max };

/// out = (a op b) * scale for 1-dimensional dense views of one length, in one pass. Each is of the
/// same dtype (float16, bfloat16, float32, float64, int64, int32, uint8), or `a` and `out` are each
/// float32 or the 16-bit type of `b`: how sums of 16-bit values are kept in float32 until the last
/// one has been added. Computes in float32 for 16-bit types and rounds once; integers wrap around,
/// and take no scale but 1. NaN wins in min and max. `out` may be `a` or `b`. On the host it runs
/// in the calling stream's thread alone: callers have other threads computing.
FERRITE_KERNEL_FUNCTION(combine, Combine op, const View& out, const View& a, const View& b,
                        double scale = 1);

}  // namespace ferrite::kernels
