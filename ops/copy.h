// Conversions between devices, element types and memory formats; clones. All differentiable, as
// members of Tensor: to(), cpu(), contiguous(), clone(), copy_().
//
// to() returns the tensor itself if nothing changes. A copy between devices waits for the source
// unless `non_blocking`; then it is ordered after the source's stream on the destination's stream.
#pragma once

#include "ferrite/core/tensor.h"
