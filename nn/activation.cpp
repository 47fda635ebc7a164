#include "ferrite/nn/activation.h"

#include "ferrite/nn/init.h"
#include "ferrite/nn/repr.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"

namespace ferrite::nn {

namespace {

const char* inplace_repr(bool inplace) { return inplace ? ", inplace=True" : ""; }

}  // namespace

Tensor ReLU::forward(const Tensor& input) { return options_.inplace ? relu_(input) : relu(input); }

Tensor LeakyReLU::forward(const Tensor& input) {
  return options_.inplace ? leaky_relu_(input, options_.negative_slope)
                          : leaky_relu(input, options_.negative_slope);
}
std::string LeakyReLU::extra_repr() const {
  return "negative_slope=" + repr(options_.negative_slope) + inplace_repr(options_.inplace);
}

Tensor Sigmoid::forward(const Tensor& input) { return sigmoid(input); }

Tensor Tanh::forward(const Tensor& input) { return tanh(input); }

Tensor GELU::forward(const Tensor& input) { return gelu(input, approximate_); }
std::string GELU::extra_repr() const {
  return approximate_ == GeluApproximation::none ? "approximate='none'" : "approximate='tanh'";
}

Tensor Softmax::forward(const Tensor& input) { return softmax(input, dim_); }
std::string Softmax::extra_repr() const { return fmt::format("dim={}", dim_); }

Tensor LogSoftmax::forward(const Tensor& input) { return log_softmax(input, dim_); }
std::string LogSoftmax::extra_repr() const { return fmt::format("dim={}", dim_); }

Tensor Softmin::forward(const Tensor& input) { return softmin(input, dim_); }
std::string Softmin::extra_repr() const { return fmt::format("dim={}", dim_); }

Tensor Softmax2d::forward(const Tensor& input) {
  FERRITE_CHECK(input.defined() && (input.dim() == 3 || input.dim() == 4), ShapeError, "Softmax2d",
                "expected [N, C, H, W] or [C, H, W], got {}", input.describe());
  return softmax(input, -3);
}

// ---- Activations of a few numbers

Tensor LogSigmoid::forward(const Tensor& input) { return logsigmoid(input); }

Tensor ELU::forward(const Tensor& input) {
  return inplace_ ? elu_(input, alpha_) : elu(input, alpha_);
}
std::string ELU::extra_repr() const { return "alpha=" + repr(alpha_) + inplace_repr(inplace_); }

CELU::CELU(double alpha, bool inplace) : alpha_(alpha), inplace_(inplace) {
  FERRITE_CHECK(alpha != 0, ValueError, "CELU", "alpha must not be 0");
}
Tensor CELU::forward(const Tensor& input) {
  return inplace_ ? celu_(input, alpha_) : celu(input, alpha_);
}
std::string CELU::extra_repr() const { return "alpha=" + repr(alpha_) + inplace_repr(inplace_); }

Hardtanh::Hardtanh(double min_val, double max_val, bool inplace)
    : min_val_(min_val), max_val_(max_val), inplace_(inplace) {
  FERRITE_CHECK(min_val <= max_val, ValueError, "Hardtanh",
                "expected min_val <= max_val, got {} and {}", min_val, max_val);
}
Tensor Hardtanh::forward(const Tensor& input) {
  return inplace_ ? hardtanh_(input, min_val_, max_val_) : hardtanh(input, min_val_, max_val_);
}
std::string Hardtanh::extra_repr() const {
  return fmt::format("min_val={}, max_val={}{}", repr(min_val_), repr(max_val_),
                     inplace_repr(inplace_));
}

Tensor Hardshrink::forward(const Tensor& input) { return hardshrink(input, lambda_); }
std::string Hardshrink::extra_repr() const { return repr(lambda_); }

Softshrink::Softshrink(double lambda) : lambda_(lambda) {
  FERRITE_CHECK(lambda >= 0, ValueError, "Softshrink", "lambda must be at least 0, got {}", lambda);
}
Tensor Softshrink::forward(const Tensor& input) { return softshrink(input, lambda_); }
std::string Softshrink::extra_repr() const { return repr(lambda_); }

Tensor Threshold::forward(const Tensor& input) {
  return inplace_ ? ferrite::threshold_(input, threshold_, value_)
                  : threshold(input, threshold_, value_);
}
std::string Threshold::extra_repr() const {
  return fmt::format("threshold={}, value={}{}", threshold_, value_, inplace_repr(inplace_));
}

Softplus::Softplus(double beta, double threshold) : beta_(beta), threshold_(threshold) {
  FERRITE_CHECK(beta != 0, ValueError, "Softplus", "beta must not be 0");
}
Tensor Softplus::forward(const Tensor& input) { return softplus(input, beta_, threshold_); }
std::string Softplus::extra_repr() const {
  return fmt::format("beta={}, threshold={}", repr(beta_), repr(threshold_));
}

Tensor GLU::forward(const Tensor& input) { return glu(input, dim_); }
std::string GLU::extra_repr() const { return fmt::format("dim={}", dim_); }

RReLU::RReLU(double lower, double upper, bool inplace)
    : lower_(lower), upper_(upper), inplace_(inplace) {
  FERRITE_CHECK(lower <= upper, ValueError, "RReLU", "expected lower <= upper, got {} and {}",
                lower, upper);
}
Tensor RReLU::forward(const Tensor& input) {
  return inplace_ ? rrelu_(input, lower_, upper_, is_training())
                  : rrelu(input, lower_, upper_, is_training());
}
std::string RReLU::extra_repr() const {
  return fmt::format("lower={}, upper={}{}", repr(lower_), repr(upper_), inplace_repr(inplace_));
}

PReLU::PReLU(std::int64_t num_parameters, double init)
    : weight(empty({num_parameters})), init_(init) {
  register_parameter("weight", weight);
  reset_parameters();
}
void PReLU::reset_parameters() { init::constant_(weight, init_); }
Tensor PReLU::forward(const Tensor& input) { return prelu(input, weight); }
std::string PReLU::extra_repr() const { return fmt::format("num_parameters={}", weight.size(0)); }

// ---- Dropouts

DropoutBase::DropoutBase(const char* layer, double p, bool inplace) : p_(p), inplace_(inplace) {
  FERRITE_CHECK(p >= 0 && p <= 1, ValueError, layer, "expected a probability, got p = {}", p);
}
std::string DropoutBase::extra_repr() const {
  return fmt::format("p={}, inplace={}", repr(p_), repr(inplace_));
}

Tensor Dropout::forward(const Tensor& input) {
  return inplace_ ? dropout_(input, p_, is_training()) : dropout(input, p_, is_training());
}
Tensor Dropout1d::forward(const Tensor& input) {
  return inplace_ ? dropout1d_(input, p_, is_training()) : dropout1d(input, p_, is_training());
}
Tensor Dropout2d::forward(const Tensor& input) {
  return inplace_ ? dropout2d_(input, p_, is_training()) : dropout2d(input, p_, is_training());
}
Tensor Dropout3d::forward(const Tensor& input) {
  return inplace_ ? dropout3d_(input, p_, is_training()) : dropout3d(input, p_, is_training());
}
Tensor AlphaDropout::forward(const Tensor& input) {
  return inplace_ ? alpha_dropout_(input, p_, is_training())
                  : alpha_dropout(input, p_, is_training());
}
Tensor FeatureAlphaDropout::forward(const Tensor& input) {
  return inplace_ ? feature_alpha_dropout_(input, p_, is_training())
                  : feature_alpha_dropout(input, p_, is_training());
}

}  // namespace ferrite::nn
