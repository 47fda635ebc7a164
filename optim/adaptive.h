// torch.optim's other first-order methods, by its names, options and formulas: Adagrad (Duchi et
// al. 2011), Adadelta (Zeiler 2012), Adamax (Kingma and Ba 2015), NAdam (Dozat 2016), RAdam (Liu et
// al. 2020), ASGD (Polyak and Juditsky 1992) and Rprop (Riedmiller and Braun 1993). Weight decay is
// added to the gradient, where no option makes it decoupled.
#pragma once

#include <array>

#include "ferrite/optim/fused_optimizer.h"
#include "ferrite/optim/tensor_optimizer.h"

namespace ferrite::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;  ///< the rate of step t is lr / (1 + (t - 1) lr_decay)
  double weight_decay = 0;
  double initial_accumulator_value = 0;  ///< what the sum of squares begins with
  double eps = 1e-10;
  bool maximize = false;

  static constexpr const char* kName = "Adagrad";
  Fields fields();
};

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;  ///< smoothing of the mean squares of gradients and of updates
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;

  static constexpr const char* kName = "Adadelta";
  Fields fields();
};

struct AdamaxOptions {
  double lr = 2e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;

  static constexpr const char* kName = "Adamax";
  Fields fields();
};

struct NAdamOptions {
  double lr = 2e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;  ///< the decay of the momentum's schedule
  bool decoupled_weight_decay = false;
  bool maximize = false;

  static constexpr const char* kName = "NAdam";
  Fields fields();
};

struct RAdamOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;

  static constexpr const char* kName = "RAdam";
  Fields fields();
};

struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;  ///< the decay of ASGD's learning rate and weights
  double alpha = 0.75;  ///< the power with which the rate falls
  double t0 = 1e6;      ///< the step after which the averages, "ax", begin
  double weight_decay = 0;
  bool maximize = false;

  static constexpr const char* kName = "ASGD";
  Fields fields();
};

struct RpropOptions {
  double lr = 1e-2;                         ///< the size of an element's first step
  std::array<double, 2> etas = {0.5, 1.2};  ///< factors where the sign turned, and where it stayed
  std::array<double, 2> step_sizes = {1e-6, 50};  ///< the bounds of the steps
  bool maximize = false;

  static constexpr const char* kName = "Rprop";
  Fields fields();
  void check() const;
};

/// Divides each element of the gradient by the root of the sum of its squares so far (Duchi et al.
/// 2011): `Adagrad(model.parameters(), {.lr = 0.01})`.
class Adagrad final : public FusedOptimizer<AdagradOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const AdagradOptions&) const override { return {"sum"}; }
  void launch(const Stream& stream, kernels::OptimBatch batch,
              const AdagradOptions& o) const override;
};

/// Steps of the size of the root mean square of the last updates, by that of the last gradients
/// (Zeiler 2012): `Adadelta(model.parameters(), {.rho = 0.9})`.
class Adadelta final : public TensorOptimizer<AdadeltaOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(ParameterStep& p, const AdadeltaOptions& o) override;
};

/// Adam with the largest gradient of late in place of the root mean square (Kingma and Ba 2015):
/// `Adamax(model.parameters(), {.lr = 2e-3})`.
class Adamax final : public TensorOptimizer<AdamaxOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(ParameterStep& p, const AdamaxOptions& o) override;
};

/// Adam with Nesterov's momentum (Dozat 2016): `NAdam(model.parameters(), {.lr = 2e-3})`.
class NAdam final : public FusedOptimizer<NAdamOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const NAdamOptions&) const override { return {"exp_avg", "exp_avg_sq"}; }
  const char* scalar_name() const override { return "mu_product"; }
  void launch(const Stream& stream, kernels::OptimBatch batch,
              const NAdamOptions& o) const override;
};

/// Adam with rectified variance, which warms up by itself (Liu et al. 2020):
/// `RAdam(model.parameters(), {.lr = 1e-3})`.
class RAdam final : public FusedOptimizer<RAdamOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const RAdamOptions&) const override { return {"exp_avg", "exp_avg_sq"}; }
  void launch(const Stream& stream, kernels::OptimBatch batch,
              const RAdamOptions& o) const override;
};

/// Averaged stochastic gradient descent (Polyak and Juditsky 1992). The averages of the parameters
/// are the state "ax" of state_dict().
class ASGD final : public TensorOptimizer<ASGDOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(ParameterStep& p, const ASGDOptions& o) override;
  Shape state_shape(std::string_view name, const Tensor& parameter) const override;
};

/// Steps by the signs of the gradients alone, each element with a size of its own (Riedmiller and
/// Braun 1993). For gradients of the whole data set: of a batch's, the signs change by chance.
class Rprop final : public TensorOptimizer<RpropOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(ParameterStep& p, const RpropOptions& o) override;
};

}  // namespace ferrite::optim
