// A user-defined op with its kernels, gradient, test and benchmark, in one folder that builds both
// inside Ferrite's tree and against an installed Ferrite (docs/kernels.md).
#pragma once

#include "ferrite/core/tensor.h"

namespace swiglu {

/// gate * sigmoid(gate) * value, element by element (Shazeer, "GLU Variants Improve Transformer",
/// 2020), in one pass over memory; both gradients take one pass as well. Equal shapes, one floating
/// dtype, one device; throws ShapeError, DTypeError or DeviceError. Results are row-major. float16
/// and bfloat16 compute in float32.
ferrite::Tensor swiglu(const ferrite::Tensor& gate, const ferrite::Tensor& value);

}  // namespace swiglu
