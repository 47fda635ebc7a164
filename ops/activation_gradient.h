// Gradients of activations, for ops that apply them on the way: grad * f'(...), in one pass over
// memory, or of ops where it is to be differentiated itself.
#pragma once

#include "core/tensor.h"
#include "ops/activation.h"

namespace ferrite::ops {

/// `out` is relu's result, or its input.
Tensor relu_gradient(const Tensor& grad, const Tensor& out);
/// `x` is gelu's input.
Tensor gelu_gradient(const Tensor& grad, const Tensor& x, GeluApproximation approximation);

}  // namespace ferrite::ops
