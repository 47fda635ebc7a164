// Gradients of activations, for fused ops: grad * f'(...), in one pass over memory, or composed of
// ops if it must be differentiable itself.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/activation.h"

namespace ferrite::ops {

/// `out` is relu's result, or its input.
Tensor relu_gradient(const Tensor& grad, const Tensor& out);
/// `x` is gelu's input.
Tensor gelu_gradient(const Tensor& grad, const Tensor& x, GeluApproximation approximation);
/// `x` is clamp's input or result: the gradient is 0 at the bounds, where the two cannot be told
/// apart, and at NaN.
Tensor clamp_gradient(const Tensor& grad, const Tensor& x, std::optional<Scalar> min,
                      std::optional<Scalar> max);

}  // namespace ferrite::ops
