#include "ferrite/ops/activation.h"

#include <numbers>

#include "ferrite/autograd/engine.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/unary_op.h"

namespace ferrite {

using ops::Keeps;
using ops::Takes;
using ops::UnaryOp;
using ops::UnaryParams;

// ---- relu and related functions

Tensor ops::relu_gradient(const Tensor& grad, const Tensor& out) {
  return ops::fused_gradient(UnaryOp::relu, grad, out, {},
                             [&] { return where(le(out, 0), 0, grad); });
}

namespace {

auto leaky_relu_gradient(double slope) {
  return [slope](const Tensor& grad, const Tensor& kept) {
    return ops::fused_gradient(UnaryOp::leaky_relu, grad, kept, {slope},
                               [&] { return where(gt(kept, 0), grad, grad * slope); });
  };
}

auto elu_gradient(double alpha) {
  return [alpha](const Tensor& grad, const Tensor& x) {
    return ops::fused_gradient(UnaryOp::elu, grad, x, {alpha}, [&] {
      // Clamped to 0, because the exponential of the branch not taken must stay finite.
      return where(le(x, 0), grad * exp(clamp_max(x, 0)) * alpha, grad);
    });
  };
}

auto hardtanh_gradient(double min, double max) {
  return
      [=](const Tensor& grad, const Tensor& x) { return ops::clamp_gradient(grad, x, min, max); };
}

void check_bounds(double min, double max, const char* op) {
  FERRITE_CHECK(min <= max, ValueError, op, "expected min <= max, got {} and {}", min, max);
}

}  // namespace

Tensor relu(const Tensor& x) {
  return ops::unary(x, "relu", UnaryOp::relu, Takes::numeric, Keeps::output, ops::relu_gradient);
}
const Tensor& relu_(const Tensor& self) {
  return ops::unary_(self, "relu_", UnaryOp::relu, Takes::numeric, Keeps::output,
                     ops::relu_gradient);
}

Tensor leaky_relu(const Tensor& x, double slope) {
  return ops::unary(x, "leaky_relu", UnaryOp::leaky_relu, Takes::floating, Keeps::input,
                    leaky_relu_gradient(slope), {slope});
}
const Tensor& leaky_relu_(const Tensor& self, double slope) {
  // The output has the input's sign unless the slope inverts it.
  return ops::unary_(self, "leaky_relu_", UnaryOp::leaky_relu, Takes::floating,
                     slope >= 0 ? Keeps::output : Keeps::input, leaky_relu_gradient(slope),
                     {slope});
}

Tensor elu(const Tensor& x, double alpha) {
  return ops::unary(x, "elu", UnaryOp::elu, Takes::floating, Keeps::input, elu_gradient(alpha),
                    {alpha});
}
const Tensor& elu_(const Tensor& self, double alpha) {
  return ops::unary_(self, "elu_", UnaryOp::elu, Takes::floating, Keeps::input, elu_gradient(alpha),
                     {alpha});
}

Tensor hardtanh(const Tensor& x, double min, double max) {
  check_bounds(min, max, "hardtanh");
  return ops::unary(x, "hardtanh", UnaryOp::clamp, Takes::numeric, Keeps::input,
                    hardtanh_gradient(min, max), {min, max});
}
const Tensor& hardtanh_(const Tensor& self, double min, double max) {
  check_bounds(min, max, "hardtanh_");
  // At and beyond the bounds the output equals them.
  return ops::unary_(self, "hardtanh_", UnaryOp::clamp, Takes::numeric, Keeps::output,
                     hardtanh_gradient(min, max), {min, max});
}

// ---- Smooth ones

namespace {

const auto sigmoid_gradient = [](const Tensor& grad, const Tensor& out) {
  return ops::fused_gradient(UnaryOp::sigmoid, grad, out, {},
                             [&] { return grad * out * (1 - out); });
};

const auto tanh_gradient = [](const Tensor& grad, const Tensor& out) {
  return ops::fused_gradient(UnaryOp::tanh, grad, out, {},
                             [&] { return grad * (1 - square(out)); });
};

const auto silu_gradient = [](const Tensor& grad, const Tensor& x) {
  return ops::fused_gradient(UnaryOp::silu, grad, x, {}, [&] {
    const Tensor s = sigmoid(x);
    return grad * s * (x * (1 - s) + 1);
  });
};

}  // namespace

Tensor sigmoid(const Tensor& x) {
  return ops::unary(x, "sigmoid", UnaryOp::sigmoid, Takes::floating, Keeps::output,
                    sigmoid_gradient);
}
const Tensor& sigmoid_(const Tensor& self) {
  return ops::unary_(self, "sigmoid_", UnaryOp::sigmoid, Takes::floating, Keeps::output,
                     sigmoid_gradient);
}

Tensor tanh(const Tensor& x) {
  return ops::unary(x, "tanh", UnaryOp::tanh, Takes::floating, Keeps::output, tanh_gradient);
}
const Tensor& tanh_(const Tensor& self) {
  return ops::unary_(self, "tanh_", UnaryOp::tanh, Takes::floating, Keeps::output, tanh_gradient);
}

Tensor silu(const Tensor& x) {
  return ops::unary(x, "silu", UnaryOp::silu, Takes::floating, Keeps::input, silu_gradient);
}
const Tensor& silu_(const Tensor& self) {
  return ops::unary_(self, "silu_", UnaryOp::silu, Takes::floating, Keeps::input, silu_gradient);
}

namespace {

Tensor gelu_erf_gradient(const Tensor& grad, const Tensor& x) {
  return ops::fused_gradient(UnaryOp::gelu, grad, x, {}, [&] {
    const Tensor cdf = (erf(x * (1 / std::numbers::sqrt2)) + 1) * 0.5;
    const Tensor density = exp(square(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return grad * (cdf + x * density);
  });
}

Tensor gelu_tanh_gradient(const Tensor& grad, const Tensor& x) {
  return ops::fused_gradient(UnaryOp::gelu_tanh, grad, x, {}, [&] {
    constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715;
    const Tensor t = tanh((x + square(x) * x * kCubic) * kScale);
    const Tensor slope = (square(x) * (3 * kCubic) + 1) * kScale;
    return grad * ((t + 1) * 0.5 + x * (1 - square(t)) * slope * 0.5);
  });
}

}  // namespace

Tensor ops::gelu_gradient(const Tensor& grad, const Tensor& x, GeluApproximation approximation) {
  return approximation == GeluApproximation::tanh ? gelu_tanh_gradient(grad, x)
                                                  : gelu_erf_gradient(grad, x);
}

Tensor gelu(const Tensor& x, Choice<GeluApproximation> approximation) {
  if (approximation == GeluApproximation::tanh)
    return ops::unary(x, "gelu", UnaryOp::gelu_tanh, Takes::floating, Keeps::input,
                      gelu_tanh_gradient);
  return ops::unary(x, "gelu", UnaryOp::gelu, Takes::floating, Keeps::input, gelu_erf_gradient);
}

Tensor ops::softplus_gradient(const Tensor& grad, const Tensor& x, double beta, double threshold) {
  return ops::fused_gradient(UnaryOp::softplus, grad, x, {beta, threshold}, [&] {
    return where(gt(x * beta, threshold), grad, grad * sigmoid(x * beta));
  });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  if (const auto cast = ops::autocast(AutocastOp::softplus, x))
    return softplus(*cast, beta, threshold);
  FERRITE_CHECK(beta != 0, ValueError, "softplus", "beta must not be 0");
  return ops::unary(x, "softplus", UnaryOp::softplus, Takes::floating, Keeps::input,
                    [=](const Tensor& grad, const Tensor& kept) {
                      return ops::softplus_gradient(grad, kept, beta, threshold);
                    },
                    {beta, threshold});
}

}  // namespace ferrite
