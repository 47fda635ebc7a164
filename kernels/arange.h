// Evenly spaced values. `out` is contiguous.
#pragma once

#include "ferrite/core/generator.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// out[i] = start + i * step, computed in the wider of out's dtype and the scalars' kind.
FERRITE_KERNEL(arange, const View& out, Scalar start, Scalar step);
/// Evenly spaced values from `start` to `end`, both included. Each is computed from the nearer end,
/// so that both ends are exact.
FERRITE_KERNEL(linspace, const View& out, double start, double end);

}  // namespace ferrite::kernels
