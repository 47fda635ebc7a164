// An op of a user's own: its kernels, its gradient, its test and its benchmark, in one folder that
// builds inside Ferrite's tree and against an installed Ferrite alike (docs/kernels.md).
#pragma once

#include "ferrite/core/tensor.h"

namespace swiglu {

/// gate * sigmoid(gate) * value, element by element (Shazeer, "GLU Variants Improve Transformer",
/// 2020), in one pass over memory, and in one for both gradients. Equal shapes, one floating dtype,
/// one device; throws ShapeError, DTypeError or DeviceError. Results are row-major. float16 and
/// bfloat16 compute in float32.
ferrite::Tensor swiglu(const ferrite::Tensor& gate, const ferrite::Tensor& value);

}  // namespace swiglu
