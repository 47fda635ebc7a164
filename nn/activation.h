// Activations and dropouts as modules. Inputs may have any shape; results have the input's shape,
// as the functions in ops/activation.h, ops/softmax.h and ops/dropout.h define them, unless a class
// says otherwise.
#pragma once

#include <concepts>

#include "ferrite/nn/module.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/pair.h"

namespace ferrite::nn {

/// The option of activations that can overwrite their input instead of allocating a result, as
/// PyTorch's `inplace`. Overwriting follows the rules of all functions in place
/// (core/in_place_methods.h): AutogradError for a leaf that requires a gradient, and from
/// backward() where another op needs the overwritten values; DTypeError where the result has
/// another dtype. While operations are recorded, activations whose gradient needs the input (SiLU,
/// Mish, Hardswish and others) keep a copy of it: they save memory in inference alone.
struct InplaceOptions {
  bool inplace = false;  ///< whether the input is overwritten
};
using ReLUOptions = InplaceOptions;

/// max(x, 0). With {.inplace = true} it overwrites its input instead of allocating a result.
class ReLU : public Cloneable<ReLU> {
 public:
  explicit ReLU(const ReLUOptions& options = {}) : options_(options) {}
  /// nn.ReLU(True).
  explicit ReLU(std::same_as<bool> auto inplace) : options_{.inplace = inplace} {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override { return options_.inplace ? "inplace=True" : ""; }

 private:
  ReLUOptions options_;
};

struct LeakyReLUOptions {
  double negative_slope = 0.01;  ///< the slope where the input is negative
  bool inplace = false;          ///< whether the input is overwritten
};

/// x where x > 0, else negative_slope * x.
class LeakyReLU : public Cloneable<LeakyReLU> {
 public:
  explicit LeakyReLU(double negative_slope = 0.01, bool inplace = false)
      : LeakyReLU(LeakyReLUOptions{.negative_slope = negative_slope, .inplace = inplace}) {}
  explicit LeakyReLU(const LeakyReLUOptions& options) : options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  LeakyReLUOptions options_;
};

/// 1 / (1 + exp(-x)).
class Sigmoid : public Cloneable<Sigmoid> {
 public:
  Tensor forward(const Tensor& input) override;
};

/// The hyperbolic tangent of x.
class Tanh : public Cloneable<Tanh> {
 public:
  Tensor forward(const Tensor& input) override;
};

/// x * Phi(x), with the normal distribution function Phi (Hendrycks and Gimpel 2016), exact or in
/// the tanh approximation.
class GELU : public Cloneable<GELU> {
 public:
  /// {.approximate = "tanh"}.
  struct Options {
    [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
    /// Whether it is exact or the tanh approximation.
    Choice<GeluApproximation> approximate = GeluApproximation::none;
  };
  explicit GELU(Choice<GeluApproximation> approximate = GeluApproximation::none)
      : approximate_(approximate) {}
  explicit GELU(const Options& options) : approximate_(options.approximate) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  /// "none" or "tanh".
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

/// Softmax of -x.
class Softmin : public Cloneable<Softmin> {
 public:
  explicit Softmin(int dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  int dim_;
};

/// Softmax over the channels of [N, C, H, W] or [C, H, W]; ShapeError for others.
class Softmax2d : public Cloneable<Softmax2d> {
 public:
  Tensor forward(const Tensor& input) override;
};

// ---- Activations of a few numbers. Their names, parameters and defaults are those of the
// functions in ops/activation.h.

/// A module without parameters and options that calls `function`.
template <Tensor (*function)(const Tensor&)>
class FunctionModule : public Module {
 public:
  Tensor forward(const Tensor& input) override { return function(input); }
};

/// The same of activations that can overwrite their input, by `function_`: with {.inplace = true}.
template <Tensor (*function)(const Tensor&), const Tensor& (*function_)(const Tensor&)>
class InplaceModule : public Module {
 public:
  explicit InplaceModule(const InplaceOptions& options = {}) : options_(options) {}
  /// nn.SiLU(True).
  explicit InplaceModule(std::same_as<bool> auto inplace) : options_{.inplace = inplace} {}
  Tensor forward(const Tensor& input) override {
    return options_.inplace ? function_(input) : function(input);
  }
  std::string extra_repr() const override { return options_.inplace ? "inplace=True" : ""; }

 private:
  InplaceOptions options_;
};

/// x * sigmoid(x).
class SiLU : public Cloneable<SiLU, InplaceModule<silu, silu_>> {
 public:
  using Cloneable::Cloneable;
};
/// scale * x for x > 0, else scale * alpha * (exp(x) - 1), with the constants alpha = 1.6733 and
/// scale = 1.0507 that keep mean and variance (Klambauer et al. 2017).
class SELU : public Cloneable<SELU, InplaceModule<selu, selu_>> {
 public:
  using Cloneable::Cloneable;
};
/// relu6(x + 3) / 6, an approximation of sigmoid by straight lines: 0 up to -3, 1 from 3 on.
class Hardsigmoid : public Cloneable<Hardsigmoid, InplaceModule<hardsigmoid, hardsigmoid_>> {
 public:
  using Cloneable::Cloneable;
  /// Nothing, as PyTorch prints.
  std::string extra_repr() const override { return ""; }
};
/// x * relu6(x + 3) / 6, an approximation of SiLU (Howard et al. 2019).
class Hardswish : public Cloneable<Hardswish, InplaceModule<hardswish, hardswish_>> {
 public:
  using Cloneable::Cloneable;
  /// Nothing, as PyTorch prints.
  std::string extra_repr() const override { return ""; }
};
/// x * tanh(softplus(x)) (Misra 2019).
class Mish : public Cloneable<Mish, InplaceModule<mish, mish_>> {
 public:
  using Cloneable::Cloneable;
};
/// x / (1 + |x|), which lies between -1 and 1.
class Softsign : public Cloneable<Softsign, FunctionModule<softsign>> {};
/// x - tanh(x).
class Tanhshrink : public Cloneable<Tanhshrink, FunctionModule<tanhshrink>> {};
/// x limited to [0, 6]: min(max(x, 0), 6).
class ReLU6 : public Cloneable<ReLU6, InplaceModule<relu6, relu6_>> {
 public:
  using Cloneable::Cloneable;
};
/// log(sigmoid(x)), without overflow.
class LogSigmoid : public Cloneable<LogSigmoid> {
 public:
  Tensor forward(const Tensor& input) override;
};

/// x for x > 0, else alpha * (exp(x) - 1), with alpha = 1 by default.
class ELU : public Cloneable<ELU> {
 public:
  explicit ELU(double alpha = 1, bool inplace = false) : alpha_(alpha), inplace_(inplace) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double alpha_;
  bool inplace_;
};

/// max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0). ValueError if alpha is 0.
class CELU : public Cloneable<CELU> {
 public:
  explicit CELU(double alpha = 1, bool inplace = false);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double alpha_;
  bool inplace_;
};

/// x limited to [min_val, max_val]. ValueError unless min_val <= max_val.
class Hardtanh : public Cloneable<Hardtanh> {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1, bool inplace = false);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double min_val_, max_val_;
  bool inplace_;
};

/// x, or 0 within [-lambda, lambda], with lambda = 0.5 by default.
class Hardshrink : public Cloneable<Hardshrink> {
 public:
  explicit Hardshrink(double lambda = 0.5) : lambda_(lambda) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double lambda_;
};

/// ValueError if lambda is below 0.
class Softshrink : public Cloneable<Softshrink> {
 public:
  explicit Softshrink(double lambda = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double lambda_;
};

/// x where it is above the threshold, else the given value.
class Threshold : public Cloneable<Threshold> {
 public:
  Threshold(double threshold, double value, bool inplace = false)
      : threshold_(threshold), value_(value), inplace_(inplace) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double threshold_, value_;
  bool inplace_;
};

/// ValueError if beta is 0.
class Softplus : public Cloneable<Softplus> {
 public:
  explicit Softplus(double beta = 1, double threshold = 20);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double beta_, threshold_;
};

/// Halves the size of dimension `dim`.
class GLU : public Cloneable<GLU> {
 public:
  explicit GLU(int dim = -1) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  int dim_;
};

/// Draws slopes in training only. ValueError unless lower <= upper.
class RReLU : public Cloneable<RReLU> {
 public:
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, bool inplace = false);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double lower_, upper_;
  bool inplace_;
};

/// A slope below 0 that is learnt: one, or one for each channel.
class PReLU : public Cloneable<PReLU> {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25);
  /// Sets the slopes to their initial value.
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;  ///< [num_parameters]

 private:
  double init_;
};

// ---- Dropouts: only in training. ValueError unless 0 <= p <= 1.

/// The common base, for functions (x, p, training, generator) of ops/dropout.h. With `inplace`, the
/// input is overwritten in training, by the rules of InplaceOptions.
class DropoutBase : public Module {
 public:
  std::string extra_repr() const override;

 protected:
  DropoutBase(const char* layer, double p, bool inplace);

  double p_;
  bool inplace_;
};

/// Zeroes elements with probability `p` and scales the others by 1 / (1 - p) (Srivastava et al.
/// 2014). In evaluation it returns its input: `nn::Dropout dropout(0.1)`.
class Dropout : public Cloneable<Dropout, DropoutBase> {
 public:
  explicit Dropout(double p = 0.5, bool inplace = false) : Cloneable("Dropout", p, inplace) {}
  Tensor forward(const Tensor& input) override;
};

/// Like Dropout, but zeroes whole channels of [N, C, L] or [C, L].
class Dropout1d : public Cloneable<Dropout1d, DropoutBase> {
 public:
  explicit Dropout1d(double p = 0.5, bool inplace = false) : Cloneable("Dropout1d", p, inplace) {}
  Tensor forward(const Tensor& input) override;
};

/// Like Dropout, but zeroes whole channels of [N, C, H, W] or [N, C, L].
class Dropout2d : public Cloneable<Dropout2d, DropoutBase> {
 public:
  explicit Dropout2d(double p = 0.5, bool inplace = false) : Cloneable("Dropout2d", p, inplace) {}
  Tensor forward(const Tensor& input) override;
};

/// Like Dropout, but zeroes whole channels of [N, C, D, H, W] or [C, D, H, W].
class Dropout3d : public Cloneable<Dropout3d, DropoutBase> {
 public:
  explicit Dropout3d(double p = 0.5, bool inplace = false) : Cloneable("Dropout3d", p, inplace) {}
  Tensor forward(const Tensor& input) override;
};

/// Keeps mean and variance of what SELU gives (alpha_dropout).
class AlphaDropout : public Cloneable<AlphaDropout, DropoutBase> {
 public:
  explicit AlphaDropout(double p = 0.5, bool inplace = false)
      : Cloneable("AlphaDropout", p, inplace) {}
  Tensor forward(const Tensor& input) override;
};

/// Like AlphaDropout, for whole channels of [N, C, *].
class FeatureAlphaDropout : public Cloneable<FeatureAlphaDropout, DropoutBase> {
 public:
  explicit FeatureAlphaDropout(double p = 0.5, bool inplace = false)
      : Cloneable("FeatureAlphaDropout", p, inplace) {}
  Tensor forward(const Tensor& input) override;
};

}  // namespace ferrite::nn
