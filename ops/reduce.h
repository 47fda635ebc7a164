// Reductions.
#pragma once

#include "core/tensor.h"

namespace ferrite {

/// Sums `t` down to `shape`, undoing a broadcast: leading dimensions go, dimensions of 1 stay.
/// Differentiable. Returns `t` where it has that shape.
Tensor sum_to(const Tensor& t, const Shape& shape);

}  // namespace ferrite
