// Activation functions, forward and backward in one pass over memory each.
//
// Shape, dtype, device and memory format are the input's; float32 for integers, except relu and
// hardtanh, which keep them. A function whose name ends in _ changes `self` in place and returns
// it. All gradients are differentiable to any order.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

enum class GeluApproximation : std::uint8_t { none, tanh };

/// max(x, 0); NaN stays NaN.
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// x, or alpha * (exp(x) - 1) below 0. Clevert et al., 2016.
Tensor elu(const Tensor& x, double alpha = 1);
/// x * Phi(x), with Phi the normal distribution function, or with its tanh approximation.
/// Hendrycks and Gimpel, 2016.
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::none);
/// x * sigmoid(x)
Tensor silu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
/// log(1 + exp(beta * x)) / beta; x itself if beta * x is above `threshold`.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
/// x clamped to [min, max]. Unlike clamp's, its gradient is 0 at the bounds. ValueError unless min
/// <= max.
Tensor hardtanh(const Tensor& x, double min = -1, double max = 1);
inline Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }

const Tensor& relu_(const Tensor& self);
const Tensor& leaky_relu_(const Tensor& self, double negative_slope = 0.01);
const Tensor& elu_(const Tensor& self, double alpha = 1);
const Tensor& silu_(const Tensor& self);
const Tensor& sigmoid_(const Tensor& self);
const Tensor& tanh_(const Tensor& self);
const Tensor& hardtanh_(const Tensor& self, double min = -1, double max = 1);
inline const Tensor& relu6_(const Tensor& self) { return hardtanh_(self, 0, 6); }

}  // namespace ferrite
