// Schedulers of learning rates, with the names, options and rates of torch.optim.lr_scheduler.
//
//   optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::CosineAnnealingLR scheduler(sgd, {.T_max = 100});
//   for (int epoch = 0; epoch < 100; ++epoch) {
//     train(...);
//     scheduler.step();
//   }
//
// This header includes the others: cycles (lr_cycles.h), and schedulers made of several, warm-up
// among them (lr_compose.h). Most options have a `last_epoch`: above -1 the run goes on behind that
// epoch, which load_state_dict() does better. Below, t is last_epoch.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "ferrite/optim/lr_compose.h"
#include "ferrite/optim/lr_cycles.h"
#include "ferrite/optim/lr_scheduler_base.h"

namespace ferrite::optim {

/// The part of `total` that is over at t, up to 1.
inline double progress(std::int64_t t, std::int64_t total) {
  return static_cast<double>(std::min(t, total)) / static_cast<double>(total);
}

struct ConstantLROptions {
  double factor = 1.0 / 3;  ///< above 0, up to 1
  std::int64_t total_iters = 5;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "ConstantLR";
  static ConstantLROptions defaults() { return {}; }
  Fields fields() { return {{"factor", &factor, kPositiveUnit}, {"total_iters", &total_iters}}; }
  double multiplier(std::int64_t t) const { return t >= total_iters ? 1 : factor; }
};
/// base_lr * factor for the first total_iters epochs, then base_lr.
using ConstantLR = FormulaLR<ConstantLROptions>;

struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< above 0, up to 1
  double end_factor = 1;          ///< from 0 to 1
  std::int64_t total_iters = 5;   ///< above 0
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "LinearLR";
  static LinearLROptions defaults() { return {}; }
  Fields fields() {
    return {{"start_factor", &start_factor, kPositiveUnit},
            {"end_factor", &end_factor, kUnit},
            {"total_iters", &total_iters, kPositive}};
  }
  double multiplier(std::int64_t t) const {
    return start_factor + (end_factor - start_factor) * progress(t, total_iters);
  }
};
/// base_lr times a factor that goes from one to the other in equal steps.
using LinearLR = FormulaLR<LinearLROptions>;

struct StepLROptions {
  std::int64_t step_size;  ///< above 0
  double gamma = 0.1;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "StepLR";
  Fields fields() { return {{"step_size", &step_size, kPositive}, {"gamma", &gamma}}; }
  double multiplier(std::int64_t t) const { return std::pow(gamma, t / step_size); }
};
/// Times gamma every step_size epochs.
using StepLR = FormulaLR<StepLROptions>;

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;  ///< one that occurs twice counts twice
  double gamma = 0.1;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "MultiStepLR";
  Fields fields() { return {{"milestones", &milestones}, {"gamma", &gamma}}; }
  double multiplier(std::int64_t t) const {
    return std::pow(gamma, std::ranges::count_if(milestones, [t](auto m) { return m <= t; }));
  }
};
/// Times gamma at each milestone.
using MultiStepLR = FormulaLR<MultiStepLROptions>;

struct ExponentialLROptions {
  double gamma;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "ExponentialLR";
  Fields fields() { return {{"gamma", &gamma}}; }
  double multiplier(std::int64_t t) const { return std::pow(gamma, t); }
};
/// Times gamma every epoch.
using ExponentialLR = FormulaLR<ExponentialLROptions>;

struct PolynomialLROptions {
  std::int64_t total_iters = 5;  ///< above 0
  double power = 1;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "PolynomialLR";
  static PolynomialLROptions defaults() { return {}; }
  Fields fields() { return {{"total_iters", &total_iters, kPositive}, {"power", &power}}; }
  double multiplier(std::int64_t t) const { return std::pow(1 - progress(t, total_iters), power); }
};
/// base_lr * (1 - min(t, total_iters) / total_iters)^power.
using PolynomialLR = FormulaLR<PolynomialLROptions>;

struct CosineAnnealingLROptions {
  std::int64_t T_max;  ///< epochs of half a period; above 0
  double eta_min = 0;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "CosineAnnealingLR";
  static constexpr bool kResumesFromBase = true;  // as PyTorch's, and only this one
  Fields fields() { return {{"T_max", &T_max, kPositive}, {"eta_min", &eta_min}}; }
  double floor() const { return eta_min; }
  double multiplier(std::int64_t t) const {
    return (1 + std::cos(std::numbers::pi * static_cast<double>(t) / static_cast<double>(T_max))) /
           2;
  }
};
/// eta_min + (base_lr - eta_min) (1 + cos(pi t / T_max)) / 2 (Loshchilov and Hutter 2017, without
/// the restarts); it rises again behind T_max.
using CosineAnnealingLR = FormulaLR<CosineAnnealingLROptions>;

/// A factor for an epoch, and one function for all groups or one for each. Functions are not part
/// of state_dict(). ValueError for empty ones.
using LRLambda = std::function<double(std::int64_t epoch)>;
using LRLambdas = PerGroupOf<LRLambda>;

/// base_lr * lambda(t).
class LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, const LRLambdas& lr_lambda, std::int64_t last_epoch = -1);

 private:
  double next_lr(std::size_t group, double) const override {
    return base_lr(group) * lambdas_[group](last_epoch_);
  }
  std::vector<LRLambda> lambdas_;
};

/// The rate of the epoch before times lambda(t), from epoch 1 on.
class MultiplicativeLR final : public LRScheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, const LRLambdas& lr_lambda, std::int64_t last_epoch = -1);

 private:
  double next_lr(std::size_t group, double lr) const override {
    return last_epoch_ > 0 ? lr * lambdas_[group](last_epoch_) : lr;
  }
  bool restarts_from_base() const override { return false; }
  std::vector<LRLambda> lambdas_;
};

struct SWALROptions {
  PerGroup swa_lr;
  std::int64_t anneal_epochs = 10;  ///< 0 or more
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  std::int64_t last_epoch = -1;
};
/// From the rates there are to swa_lr in anneal_epochs steps, where it stays: for averaging weights
/// (optim/averaged_model.h), as torch.optim.swa_utils.SWALR.
class SWALR final : public LRScheduler {
 public:
  SWALR(Optimizer& optimizer, const SWALROptions& options);

 private:
  double next_lr(std::size_t group, double lr) const override;
  bool restarts_from_base() const override { return false; }
  Fields fields() override;
  SWALROptions o_;
  std::vector<double> swa_lrs_;
};

struct ReduceLROnPlateauOptions {
  /// Whether a smaller metric is better (a loss) or a larger one (an accuracy).
  enum class Mode : std::uint8_t { min, max };
  /// Whether the threshold is a part of the best metric or a difference from it.
  enum class ThresholdMode : std::uint8_t { rel, abs };

  Mode mode = Mode::min;
  double factor = 0.1;         ///< below 1
  std::int64_t patience = 10;  ///< epochs without improvement that do not matter
  double threshold = 1e-4;     ///< what counts as improvement
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  ///< epochs after a reduction in which nothing is counted
  PerGroup min_lr = 0;
  double eps = 1e-8;  ///< smaller changes of the rate are not made
};

/// The rates fall when a metric stops getting better.
class ReduceLROnPlateau final : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /// The metric of an epoch (a number of the host: item<double>() of a loss).
  void step(double metric);
  /// ValueError.
  void step() override;
  double best() const { return best_; }
  std::int64_t num_bad_epochs() const { return num_bad_epochs_; }

 private:
  double next_lr(std::size_t group, double lr) const override;
  Fields fields() override;
  bool is_better(double metric) const;

  ReduceLROnPlateauOptions o_;
  std::vector<double> min_lrs_;
  double best_;
  std::int64_t num_bad_epochs_ = 0, cooldown_counter_ = 0;
};

}  // namespace ferrite::optim
