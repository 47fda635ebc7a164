// Schedulers of learning rates, with the names, options and rates of torch.optim.lr_scheduler.
//
//   optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::CosineAnnealingLR scheduler(sgd, {.T_max = 100});
//   for (int epoch = 0; epoch < 100; ++epoch) {
//     train(...);
//     scheduler.step();
//   }
//
// Here are those with a formula; this header brings the others too: cycles (lr_cycles.h), what is
// made of several schedulers, warm-up among them (lr_compose.h), ReduceLROnPlateau. All options
// have a `last_epoch`: above -1 the run goes on behind that epoch, which load_state_dict() does
// better. Below, t is last_epoch.
#pragma once

#include <functional>

#include "ferrite/optim/lr_compose.h"
#include "ferrite/optim/lr_cycles.h"
#include "ferrite/optim/lr_scheduler_base.h"
#include "ferrite/optim/reduce_lr_on_plateau.h"

namespace ferrite::optim {

struct ConstantLROptions {
  double factor = 1.0 / 3;  ///< from 0 to 1
  std::int64_t total_iters = 5;
  std::int64_t last_epoch = -1;
};
/// base_lr * factor for the first total_iters epochs, then base_lr.
class ConstantLR final : public LRScheduler {
 public:
  explicit ConstantLR(Optimizer& optimizer, const ConstantLROptions& options = {});

 private:
  double chained_lr(std::size_t group) const override;
  double closed_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  ConstantLROptions o_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< above 0, up to 1
  double end_factor = 1;          ///< from 0 to 1
  std::int64_t total_iters = 5;
  std::int64_t last_epoch = -1;
};
/// base_lr times a factor that goes from one to the other in equal steps.
class LinearLR final : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  double chained_lr(std::size_t group) const override;
  double closed_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  LinearLROptions o_;
};

struct StepLROptions {
  std::int64_t step_size;  ///< above 0
  double gamma = 0.1;
  std::int64_t last_epoch = -1;
};
/// Times gamma every step_size epochs.
class StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);

 private:
  double chained_lr(std::size_t group) const override;
  double closed_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  StepLROptions o_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;  ///< one that occurs twice counts twice
  double gamma = 0.1;
  std::int64_t last_epoch = -1;
};
/// Times gamma at each milestone.
class MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options);

 private:
  double chained_lr(std::size_t group) const override;
  double closed_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  MultiStepLROptions o_;
};

struct ExponentialLROptions {
  double gamma;
  std::int64_t last_epoch = -1;
};
/// Times gamma every epoch.
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options);

 private:
  double chained_lr(std::size_t group) const override;
  double closed_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  ExponentialLROptions o_;
};

struct PolynomialLROptions {
  std::int64_t total_iters = 5;
  double power = 1;
  std::int64_t last_epoch = -1;
};
/// base_lr * (1 - min(t, total_iters) / total_iters)^power.
class PolynomialLR final : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options = {});

 private:
  double chained_lr(std::size_t group) const override;
  double closed_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  PolynomialLROptions o_;
};

struct CosineAnnealingLROptions {
  std::int64_t T_max;  ///< epochs of half a period; above 0
  double eta_min = 0;
  std::int64_t last_epoch = -1;
};
/// eta_min + (base_lr - eta_min) (1 + cos(pi t / T_max)) / 2 (Loshchilov and Hutter 2017, without
/// the restarts); it rises again behind T_max.
class CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);

 private:
  double chained_lr(std::size_t group) const override;
  double closed_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  CosineAnnealingLROptions o_;
};

/// A factor for an epoch.
using LRLambda = std::function<double(std::int64_t epoch)>;

/// base_lr * lambda(t). One function for all groups, or one for each. Functions are not part of
/// state_dict().
class LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, LRLambda lr_lambda, std::int64_t last_epoch = -1);
  LambdaLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambda, std::int64_t last_epoch = -1);

 private:
  double chained_lr(std::size_t group) const override;
  std::vector<LRLambda> lambdas_;
};

/// The rate of the epoch before times lambda(t), from epoch 1 on.
class MultiplicativeLR final : public LRScheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, LRLambda lr_lambda, std::int64_t last_epoch = -1);
  MultiplicativeLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambda,
                   std::int64_t last_epoch = -1);

 private:
  double chained_lr(std::size_t group) const override;
  std::vector<LRLambda> lambdas_;
};

struct SWALROptions {
  PerGroup swa_lr;
  std::int64_t anneal_epochs = 10;
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  std::int64_t last_epoch = -1;
};
/// From the rates there are to swa_lr in anneal_epochs steps, where it stays: for averaging weights
/// (optim/averaged_model.h), as torch.optim.swa_utils.SWALR.
class SWALR final : public LRScheduler {
 public:
  SWALR(Optimizer& optimizer, const SWALROptions& options);

 private:
  double chained_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  double annealed(double t) const;
  SWALROptions o_;
  std::vector<double> swa_lrs_;
};

}  // namespace ferrite::optim
