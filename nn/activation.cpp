#include "ferrite/nn/activation.h"

#include "ferrite/nn/repr.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/softmax.h"

namespace ferrite::nn {

Tensor ReLU::forward(const Tensor& input) { return options_.inplace ? relu_(input) : relu(input); }

Tensor LeakyReLU::forward(const Tensor& input) { return leaky_relu(input, negative_slope_); }
std::string LeakyReLU::extra_repr() const { return "negative_slope=" + repr(negative_slope_); }

Tensor Sigmoid::forward(const Tensor& input) { return sigmoid(input); }

Tensor Tanh::forward(const Tensor& input) { return tanh(input); }

Tensor SiLU::forward(const Tensor& input) { return silu(input); }

Tensor GELU::forward(const Tensor& input) { return gelu(input, approximate_); }
std::string GELU::extra_repr() const {
  return approximate_ == GeluApproximation::none ? "approximate='none'" : "approximate='tanh'";
}

Tensor Softmax::forward(const Tensor& input) { return softmax(input, dim_); }
std::string Softmax::extra_repr() const { return fmt::format("dim={}", dim_); }

Tensor LogSoftmax::forward(const Tensor& input) { return log_softmax(input, dim_); }
std::string LogSoftmax::extra_repr() const { return fmt::format("dim={}", dim_); }

namespace {

double checked_probability(double p, const char* layer) {
  FERRITE_CHECK(p >= 0 && p <= 1, ValueError, layer, "expected a probability, got p = {}", p);
  return p;
}

std::string dropout_repr(double p) { return fmt::format("p={}, inplace=False", repr(p)); }

}  // namespace

Dropout::Dropout(double p) : p_(checked_probability(p, "Dropout")) {}
Tensor Dropout::forward(const Tensor& input) { return dropout(input, p_, is_training()); }
std::string Dropout::extra_repr() const { return dropout_repr(p_); }

Dropout1d::Dropout1d(double p) : p_(checked_probability(p, "Dropout1d")) {}
Tensor Dropout1d::forward(const Tensor& input) { return dropout1d(input, p_, is_training()); }
std::string Dropout1d::extra_repr() const { return dropout_repr(p_); }

Dropout2d::Dropout2d(double p) : p_(checked_probability(p, "Dropout2d")) {}
Tensor Dropout2d::forward(const Tensor& input) { return dropout2d(input, p_, is_training()); }
std::string Dropout2d::extra_repr() const { return dropout_repr(p_); }

}  // namespace ferrite::nn
