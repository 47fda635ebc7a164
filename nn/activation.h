// Activations as modules, and Dropout, Dropout1d, Dropout2d. Inputs may have any shape; results
// have the input's shape, as the functions in ops/activation.h and ops/softmax.h define them.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/activation.h"

namespace ferrite::nn {

struct ReLUOptions {
  bool inplace = false;  ///< overwrites the input instead of allocating a result
};

class ReLU : public Cloneable<ReLU> {
 public:
  explicit ReLU(const ReLUOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override { return options_.inplace ? "inplace=True" : ""; }

 private:
  ReLUOptions options_;
};

/// x where x > 0, else negative_slope * x.
class LeakyReLU : public Cloneable<LeakyReLU> {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double negative_slope_;
};

class Sigmoid : public Cloneable<Sigmoid> {
 public:
  Tensor forward(const Tensor& input) override;
};

class Tanh : public Cloneable<Tanh> {
 public:
  Tensor forward(const Tensor& input) override;
};

/// x * sigmoid(x).
class SiLU : public Cloneable<SiLU> {
 public:
  Tensor forward(const Tensor& input) override;
};

/// x * Phi(x), with the normal distribution function Phi (Hendrycks and Gimpel 2016), exact or in
/// the tanh approximation.
class GELU : public Cloneable<GELU> {
 public:
  explicit GELU(GeluApproximation approximate = GeluApproximation::none)
      : approximate_(approximate) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  GeluApproximation approximate() const { return approximate_; }

 private:
  GeluApproximation approximate_;
};

/// Softmax along dimension `dim`, which may be negative; IndexError out of range.
class Softmax : public Cloneable<Softmax> {
 public:
  explicit Softmax(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  int dim_;
};

/// log(softmax(x)) along dimension `dim`, computed without forming the softmax.
class LogSoftmax : public Cloneable<LogSoftmax> {
 public:
  explicit LogSoftmax(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  int dim_;
};

/// In training, zeroes elements with probability `p` and scales the others by 1 / (1 - p)
/// (Srivastava et al. 2014); in evaluation, returns its input. ValueError unless 0 <= p <= 1.
class Dropout : public Cloneable<Dropout> {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Like Dropout, but zeroes whole channels of [N, C, L] or [C, L].
class Dropout1d : public Cloneable<Dropout1d> {
 public:
  explicit Dropout1d(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Like Dropout, but zeroes whole channels of [N, C, H, W] or [N, C, L].
class Dropout2d : public Cloneable<Dropout2d> {
 public:
  explicit Dropout2d(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

}  // namespace ferrite::nn
