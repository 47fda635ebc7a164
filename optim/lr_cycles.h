// Schedulers that rise and fall: restarts, one cycle, many cycles. Steps are iterations.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "ferrite/optim/lr_scheduler_base.h"

namespace ferrite::optim {

struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0;         ///< epochs until the first restart; above 0
  std::int64_t T_mult = 1;  ///< each period is this many times the one before
  double eta_min = 0;
  std::int64_t last_epoch = -1;
};
/// eta_min + (base_lr - eta_min) (1 + cos(pi T_cur / T_i)) / 2, with T_cur epochs since the last
/// restart and T_i to the next (SGDR, Loshchilov and Hutter 2017).
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer,
                              const CosineAnnealingWarmRestartsOptions& options);
  void step() override;
  /// To any epoch, and between them: step(epoch + iteration / iterations). ValueError below 0.
  void step(double epoch);

 private:
  double next_lr(std::size_t group, double) const override;
  Fields fields() override;

  CosineAnnealingWarmRestartsOptions o_;
  double T_cur_, T_i_;
};

struct OneCycleLROptions {
  PerGroup max_lr;
  /// All steps there will be; or epochs and steps_per_epoch, whose product it is.
  std::optional<std::int64_t> total_steps = {};
  std::optional<std::int64_t> epochs = {}, steps_per_epoch = {};
  double pct_start = 0.3;  ///< part of the steps in which the rate rises, from 0 to 1
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  bool cycle_momentum = true;  ///< the momentum falls and rises as the rate rises and falls
  PerGroup base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25;         ///< initial_lr = max_lr / div_factor
  double final_div_factor = 1e4;  ///< the last rate is initial_lr / final_div_factor
  bool three_phase = false;       ///< falls to initial_lr as it rose, then to the end
  std::int64_t last_epoch = -1;
};
/// From initial_lr to max_lr and down (Smith and Topin 2018). Sets the optimizer's initial_lr.
/// ValueError for cycle_momentum where the optimizer has none, and for more steps than total_steps.
/// Where PyTorch's linear rate falls below 0 in a last step too many, it is 0.
class OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);
  std::int64_t total_steps() const { return total_steps_; }

 private:
  double next_lr(std::size_t group, double) const override;
  std::optional<double> next_momentum(std::size_t group) const override;
  void check_epoch(std::int64_t epoch) const override;
  Fields fields() override;

  /// What rates and momenta are at the ends of phases.
  enum Level : std::uint8_t { initial, max, min };
  using Levels = std::array<double, 3>;
  Levels rates(std::size_t group) const;
  /// The value between two levels that last_epoch() has.
  double annealed(const Levels& levels) const;

  OneCycleLROptions o_;
  std::int64_t total_steps_;
  std::vector<double> max_lrs_, base_momentums_, max_momentums_;
};

enum class CyclicMode : std::uint8_t { triangular, triangular2, exp_range };
/// What a scale_fn is given: the number of the cycle, from 1, or that of the iteration.
enum class ScaleMode : std::uint8_t { cycle, iterations };

struct CyclicLROptions {
  PerGroup base_lr;  ///< where each cycle starts and ends
  PerGroup max_lr;
  double step_size_up = 2000;                 ///< iterations in which the rate rises
  std::optional<double> step_size_down = {};  ///< as step_size_up
  CyclicMode mode = CyclicMode::triangular;
  double gamma = 1;                             ///< of exp_range
  std::function<double(double)> scale_fn = {};  ///< in place of the mode
  ScaleMode scale_mode = ScaleMode::cycle;      ///< of scale_fn
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.8, max_momentum = 0.9;
  std::int64_t last_epoch = -1;
};
/// Between base_lr and max_lr in straight lines (Smith 2017); the height of a cycle is constant
/// (triangular), halved each time (triangular2) or times gamma^t (exp_range). Momentum goes the
/// other way round; ValueError for cycle_momentum where the optimizer has none.
class CyclicLR final : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, const CyclicLROptions& options);

 private:
  double next_lr(std::size_t group, double) const override;
  std::optional<double> next_momentum(std::size_t group) const override;
  Fields fields() override;
  /// The part of the whole height that the rate is at.
  double height() const;

  CyclicLROptions o_;
  double total_size_, step_ratio_;
  std::vector<double> low_lrs_, max_lrs_, base_momentums_, max_momentums_;
};

}  // namespace ferrite::optim
