// Activation functions, forward and backward in one pass over memory each.
//
// Shape, dtype, device and memory format are the input's; integers and bool become the default
// dtype, float32, except in relu, hardtanh and threshold, which keep integers. DTypeError for
// complex numbers, ValueError for undefined tensors. A function whose name ends in _ changes `self`
// in place and returns it. All gradients are differentiable to any order.
#pragma once

#include "ferrite/core/choice.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Whether GELU is exact or by tanh.
enum class GeluApproximation : std::uint8_t { none, tanh };
template <>
struct detail::ChoiceNames<GeluApproximation> {
  static constexpr const char* kOption = "approximate";
  static constexpr std::pair<const char*, GeluApproximation> kNames[] = {
      {"none", GeluApproximation::none}, {"tanh", GeluApproximation::tanh}};
};

/// max(x, 0); NaN stays NaN. Integers stay integers; DTypeError for bool.
Tensor relu(const Tensor& x);
/// x where positive, else slope * x.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// x, or alpha * (exp(x) - 1) below 0. Clevert et al., 2016.
Tensor elu(const Tensor& x, double alpha = 1);
/// x * Phi(x), with Phi the normal distribution function, or with its tanh approximation.
/// Hendrycks and Gimpel, 2016.
Tensor gelu(const Tensor& x, Choice<GeluApproximation> approximation = GeluApproximation::none);
/// x * sigmoid(x)
Tensor silu(const Tensor& x);
/// 1 / (1 + e^-x).
Tensor sigmoid(const Tensor& x);
/// The hyperbolic tangent.
Tensor tanh(const Tensor& x);
/// log(1 + exp(beta * x)) / beta; x itself if beta * x is above `threshold`. ValueError for a beta
/// of 0.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
/// x clamped to [min, max], integers as integers; DTypeError for bool. ValueError unless min <=
/// max. The gradient is 0 at the bounds.
Tensor hardtanh(const Tensor& x, double min = -1, double max = 1);
/// x limited to [0, 6]: hardtanh(x, 0, 6).
inline Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }
/// x, or alpha * (exp(x / alpha) - 1) below 0; ValueError if alpha is 0. Barron, 2017.
Tensor celu(const Tensor& x, double alpha = 1);
/// scale * elu(x, alpha), with the constants that keep mean and variance. Klambauer et al., 2017.
Tensor selu(const Tensor& x);
/// x, or 0 within [-lambda, lambda].
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
/// x moved towards 0 by `lambda`, or 0 within [-lambda, lambda]; ValueError if lambda is below 0.
Tensor softshrink(const Tensor& x, double lambda = 0.5);
/// x where it is above `threshold`, else `value`. Integers stay integers; the two numbers are then
/// truncated.
Tensor threshold(const Tensor& x, double threshold, double value);
/// relu6(x + 3) / 6
Tensor hardsigmoid(const Tensor& x);
/// x * relu6(x + 3) / 6. Howard et al., 2019.
Tensor hardswish(const Tensor& x);
/// x * tanh(softplus(x)). Misra, 2019.
Tensor mish(const Tensor& x);

// Made of other operations.
/// x - tanh(x)
Tensor tanhshrink(const Tensor& x);
/// x / (1 + |x|)
Tensor softsign(const Tensor& x);
/// The first half of `x` along `dim` times the sigmoid of the second: [..., 2 n, ...] gives
/// [..., n, ...]. ShapeError for an odd size or no dimension, IndexError for a dimension out of
/// range, DTypeError unless floating. Dauphin et al., 2016.
Tensor glu(const Tensor& x, int dim = -1);
/// x, or weight * x below 0. `weight` is [], [1], or [C] for x [N, C, ...] (ShapeError). Both are
/// floating, of one dtype (DTypeError). He et al., 2015.
Tensor prelu(const Tensor& x, const Tensor& weight);
/// x, or slope * x below 0, with a slope for each element drawn from [lower, upper) in training,
/// and their mean otherwise. ValueError unless lower <= upper, DTypeError unless floating. Xu et
/// al., 2015.
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false,
             Generator* generator = nullptr);

const Tensor& relu_(const Tensor& self);
const Tensor& leaky_relu_(const Tensor& self, double negative_slope = 0.01);
const Tensor& elu_(const Tensor& self, double alpha = 1);
const Tensor& silu_(const Tensor& self);
const Tensor& sigmoid_(const Tensor& self);
const Tensor& tanh_(const Tensor& self);
const Tensor& hardtanh_(const Tensor& self, double min = -1, double max = 1);
inline const Tensor& relu6_(const Tensor& self) { return hardtanh_(self, 0, 6); }
const Tensor& celu_(const Tensor& self, double alpha = 1);
const Tensor& selu_(const Tensor& self);
const Tensor& threshold_(const Tensor& self, double threshold, double value);
const Tensor& hardsigmoid_(const Tensor& self);
const Tensor& hardswish_(const Tensor& self);
const Tensor& mish_(const Tensor& self);
const Tensor& rrelu_(const Tensor& self, double lower = 1.0 / 8, double upper = 1.0 / 3,
                     bool training = false, Generator* generator = nullptr);

}  // namespace ferrite
