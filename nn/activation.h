// Activations as modules, and Dropout, Dropout1d, Dropout2d.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/activation.h"

namespace ferrite::nn {

struct ReLUOptions {
  bool inplace = false;  ///< overwrites the input
};

class ReLU : public Cloneable<ReLU> {
 public:
  explicit ReLU(const ReLUOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override { return options_.inplace ? "inplace=True" : ""; }

 private:
  ReLUOptions options_;
};

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

class SiLU : public Cloneable<SiLU> {
 public:
  Tensor forward(const Tensor& input) override;
};

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

class Softmax : public Cloneable<Softmax> {
 public:
  explicit Softmax(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  int dim_;
};

class LogSoftmax : public Cloneable<LogSoftmax> {
 public:
  explicit LogSoftmax(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  int dim_;
};

/// Zeroes elements with probability `p` while training; returns its input otherwise. ValueError
/// unless 0 <= p <= 1.
class Dropout : public Cloneable<Dropout> {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

/// The same with whole channels: of [N, C, L], or [C, L].
class Dropout1d : public Cloneable<Dropout1d> {
 public:
  explicit Dropout1d(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Of [N, C, H, W], or [N, C, L].
class Dropout2d : public Cloneable<Dropout2d> {
 public:
  explicit Dropout2d(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

}  // namespace ferrite::nn
