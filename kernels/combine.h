// Elementwise reduction of two arrays to one, which collectives apply to each piece they receive.
#pragma once

#include <cstdint>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class Combine : std::uint8_t { sum, product, min, max };

/// out = (a op b) * scale for 1-dimensional dense views of one length, in one pass. All three have
/// the same dtype (floating or integer), or `b` has a 16-bit
/// type and `a` and `out` are each float32 or of the type of `b`, so that sums of 16-bit values can
/// stay in float32 until the last value is added. Computes in float32 for 16-bit types and rounds
/// once; integers wrap around, and need a scale of 1. min and max propagate NaN. `out` may be `a`
/// or `b`. On the host it uses only the thread of the calling stream, because callers keep the
/// other threads busy.
FERRITE_KERNEL_FUNCTION(combine, Combine op, const View& out, const View& a, const View& b,
                        double scale = 1);

}  // namespace ferrite::kernels
