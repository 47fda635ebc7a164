// Gradients of activations, for fused ops: grad * f'(...), in one pass over memory, or composed of
// ops if it must be differentiable itself.
#pragma once

#include <optional>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/tensor.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/ops/activation.h"

namespace ferrite::ops {

/// Computes a gradient in one pass over memory, with the layout of the kept tensor; with
/// differentiable ops, using `formula`, grad * f'(kept), if it must be differentiable itself.
template <class Formula>
Tensor fused_gradient(kernels::UnaryOp op, const Tensor& grad, const Tensor& kept,
                      const kernels::UnaryParams& p, Formula formula) {
  if (autograd::creating_graph()) return formula();
  Tensor out = empty_like(kept);
  kernels::unary_backward(current_stream(out.device()), op, out, grad, kept, p);
  return out;
}

/// `out` is relu's result, or its input.
Tensor relu_gradient(const Tensor& grad, const Tensor& out);
/// `x` is gelu's input.
Tensor gelu_gradient(const Tensor& grad, const Tensor& x, GeluApproximation approximation);
/// `x` is softplus's input.
Tensor softplus_gradient(const Tensor& grad, const Tensor& x, double beta, double threshold);
/// `x` is clamp's input or result: the gradient is 0 at the bounds, where the two cannot be told
/// apart, and at NaN.
Tensor clamp_gradient(const Tensor& grad, const Tensor& x, std::optional<Scalar> min,
                      std::optional<Scalar> max);

}  // namespace ferrite::ops
