// Dropout from counter-based random numbers: no mask is stored.
#pragma once

#include "ferrite/core/generator.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// out[i] = in[i] / (1 - p), or 0 with probability `p` (below 1). Element i in memory draws word i
/// of the Philox stream, so that a second call with the same state drops the same elements. Both
/// views are dense with equal strides, in any order of dimensions, and share a floating dtype.
FERRITE_KERNEL(dropout, const View& out, const View& in, PhiloxState state, double p);

}  // namespace ferrite::kernels
