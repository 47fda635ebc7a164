// Schedulers of learning rates, with the names, options and rates of torch.optim.lr_scheduler.
//
//   optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::CosineAnnealingLR scheduler(sgd, 100);  // or {.T_max = 100}
//   for (int epoch = 0; epoch < 100; ++epoch) {
//     train(...);
//     scheduler.step();
//   }
//
// A scheduler sets the rates of an optimizer's groups, on the device at once: captured steps see a
// new rate with their next replay. `last_epoch`, t below, counts steps, which may be epochs or
// iterations. As in PyTorch, most schedulers compute a rate from the present one. Several
// schedulers of one optimizer therefore multiply, and a rate that was set by hand counts. Rates
// start from the optimizer's initial_lr(), which the first scheduler sets to the lr that it finds.
// Most options have a `last_epoch`: above -1 the run continues after that epoch, which
// load_state_dict() does better.
#pragma once

#include <functional>

#include "ferrite/core/choice.h"
#include "ferrite/optim/lr_scheduler_base.h"
#include "ferrite/optim/reduce_lr_on_plateau.h"

namespace ferrite::optim {

// ---- Functions of the step

struct ConstantLROptions {
  double factor = 1.0 / 3;       ///< from 0 to 1
  std::int64_t total_iters = 5;  ///< for how many epochs the rates change; 0: for all
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "ConstantLR";
  static ConstantLROptions defaults() { return {}; }
  Fields fields() { return {{"factor", &factor, kUnit}, {"total_iters", &total_iters}}; }
  double multiplier(std::int64_t t) const {
    return total_iters > 0 && t >= total_iters ? 1 : factor;
  }
};
/// base_lr * factor for the first total_iters epochs, then base_lr. With 0 of them the factor
/// stays, as in PyTorch.
using ConstantLR = FormulaLR<ConstantLROptions>;

struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< above 0, up to 1
  double end_factor = 1;          ///< from 0 to 1
  std::int64_t total_iters = 5;   ///< 0 or more; with 0 the start_factor stays, as in PyTorch
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "LinearLR";
  /// Whether the rate at the start of a later epoch is what the run before left.
  static constexpr bool kKeepsResumedRate = true;
  static LinearLROptions defaults() { return {}; }
  Fields fields() {
    return {{"start_factor", &start_factor, kPositiveUnit},
            {"end_factor", &end_factor, kUnit},
            {"total_iters", &total_iters, kNonNegative}};
  }
  double multiplier(std::int64_t t) const {
    if (total_iters == 0) return start_factor;
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
///
///   optim::StepLR scheduler(sgd, {.step_size = 30, .gamma = 0.1});
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
///
///   optim::MultiStepLR scheduler(sgd, {30, 60, 90}, 0.1);
using MultiStepLR = FormulaLR<MultiStepLROptions>;

struct ExponentialLROptions {
  double gamma;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "ExponentialLR";
  /// Whether the rate at the start of a later epoch is what the run before left.
  static constexpr bool kKeepsResumedRate = true;
  Fields fields() { return {{"gamma", &gamma}}; }
  double multiplier(std::int64_t t) const { return std::pow(gamma, t); }
};
/// Times gamma every epoch.
using ExponentialLR = FormulaLR<ExponentialLROptions>;

struct PolynomialLROptions {
  std::int64_t total_iters = 5;  ///< above 0
  double power = 1;              ///< the exponent
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "PolynomialLR";
  /// Whether the rate at the start of a later epoch is what the run before left.
  static constexpr bool kKeepsResumedRate = true;
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
  /// Whether the rate at the start of a later epoch is what the run before left.
  static constexpr bool kKeepsResumedRate = true;
  Fields fields() { return {{"T_max", &T_max, kPositive}, {"eta_min", &eta_min}}; }
  /// The smallest learning rate of a group.
  double floor() const { return eta_min; }
  double multiplier(std::int64_t t) const {
    return half_cosine(static_cast<double>(t), static_cast<double>(T_max));
  }
};
/// eta_min + (base_lr - eta_min) (1 + cos(pi t / T_max)) / 2 (Loshchilov and Hutter 2017, without
/// the restarts); it rises again after T_max.
///
///   optim::CosineAnnealingLR scheduler(sgd, {.T_max = 100});
using CosineAnnealingLR = FormulaLR<CosineAnnealingLROptions>;

/// A factor for an epoch; one function for all groups or one for each. Functions are not part of
/// state_dict(). ValueError for empty ones.
using LRLambda = std::function<double(std::int64_t epoch)>;
/// Learning rates by functions of yours, one for each group.
using LRLambdas = PerGroupOf<LRLambda>;

/// Learning rates by functions of yours, one for each group.
template <bool kFromLast>
class LambdaLROf final : public LRScheduler {
 public:
  LambdaLROf(Optimizer& optimizer, LRLambdas lr_lambda, std::int64_t last_epoch = -1)
      : LRScheduler(kFromLast ? "MultiplicativeLR" : "LambdaLR", optimizer, last_epoch),
        lambdas_(std::move(lr_lambda)) {
    lambdas_.expand(num_groups(), name_, "function");
    for (const LRLambda& f : lambdas_)
      FERRITE_CHECK(f, ValueError, name_, "expected functions, got an empty one");
    start();
  }

 private:
  double next_lr(std::size_t group, double lr) const override {
    if (kFromLast && is_initial()) return lr;
    return (kFromLast ? lr : base_lr(group)) * lambdas_[group](last_epoch_);
  }
  bool restarts_from_base() const override { return !kFromLast; }

  LRLambdas lambdas_;
};
/// base_lr * lambda(t).
using LambdaLR = LambdaLROf<false>;
/// The rate of the epoch before times lambda(t), from epoch 1 on; where a SequentialLR comes to it,
/// from epoch 0 on, as in PyTorch.
using MultiplicativeLR = LambdaLROf<true>;

// ---- Restarts and cycles, whose steps are usually iterations

struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0;         ///< epochs until the first restart; above 0
  std::int64_t T_mult = 1;  ///< each period is this many times the one before
  double eta_min = 0;
  /// Where a run ended that goes on as if it had not. With a T_mult above 1, PyTorch's has other
  /// rates from a last_epoch of 2 T_0 - 1 on.
  std::int64_t last_epoch = -1;
};
/// eta_min + (base_lr - eta_min) (1 + cos(pi T_cur / T_i)) / 2, with T_cur epochs since the last
/// restart and T_i between that and the next (SGDR, Loshchilov and Hutter 2017).
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer,
                              const CosineAnnealingWarmRestartsOptions& options);
  CosineAnnealingWarmRestarts(Optimizer& optimizer, std::int64_t T_0, std::int64_t T_mult = 1,
                              double eta_min = 0)
      : CosineAnnealingWarmRestarts(optimizer, {.T_0 = T_0, .T_mult = T_mult, .eta_min = eta_min}) {
  }
  void step() override;
  /// To any epoch, and between them: step(epoch + iteration / iterations). ValueError below 0.
  void step(double epoch);

 private:
  double next_lr(std::size_t group, double) const override;
  Fields fields() override;
  /// Finds the period that an epoch is in.
  void move_to(double epoch);

  CosineAnnealingWarmRestartsOptions o_;
  double T_cur_, T_i_;
};

/// How a rate goes from one value to another.
enum class AnnealStrategy : std::uint8_t { cos, linear };
/// How the height of the cycles changes.
enum class CyclicMode : std::uint8_t { triangular, triangular2, exp_range };
/// The argument of a scale_fn: the number of the cycle, from 1, or that of the iteration.
enum class ScaleMode : std::uint8_t { cycle, iterations };

}  // namespace ferrite::optim

namespace ferrite {
template <>
struct detail::ChoiceNames<optim::AnnealStrategy> {
  static constexpr const char* kOption = "anneal_strategy";
  static constexpr std::pair<const char*, optim::AnnealStrategy> kNames[] = {
      {"cos", optim::AnnealStrategy::cos}, {"linear", optim::AnnealStrategy::linear}};
};
template <>
struct detail::ChoiceNames<optim::CyclicMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::pair<const char*, optim::CyclicMode> kNames[] = {
      {"triangular", optim::CyclicMode::triangular},
      {"triangular2", optim::CyclicMode::triangular2},
      {"exp_range", optim::CyclicMode::exp_range}};
};
template <>
struct detail::ChoiceNames<optim::ScaleMode> {
  static constexpr const char* kOption = "scale_mode";
  static constexpr std::pair<const char*, optim::ScaleMode> kNames[] = {
      {"cycle", optim::ScaleMode::cycle}, {"iterations", optim::ScaleMode::iterations}};
};
}  // namespace ferrite

namespace ferrite::optim {

struct OneCycleLROptions {
  PerGroup max_lr;
  /// The number of all steps; or epochs and steps_per_epoch, whose product it is.
  std::optional<std::int64_t> total_steps = {};
  std::optional<std::int64_t> epochs = {};           ///< the number of epochs of the whole schedule
  std::optional<std::int64_t> steps_per_epoch = {};  ///< the number of steps of an epoch
  double pct_start = 0.3;  ///< part of the steps in which the rate rises, from 0 to 1
  Choice<AnnealStrategy> anneal_strategy = AnnealStrategy::cos;
  bool cycle_momentum = true;  ///< the momentum falls and rises as the rate rises and falls
  PerGroup base_momentum = 0.85;
  PerGroup max_momentum = 0.95;   ///< the largest momentum
  double div_factor = 25;         ///< initial_lr = max_lr / div_factor
  double final_div_factor = 1e4;  ///< the last rate is initial_lr / final_div_factor
  bool three_phase = false;       ///< falls to initial_lr as it rose, then to the end
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "OneCycleLR";
  /// Sets what the optimizer needs before the first epoch.
  void prepare(Optimizer& optimizer);
  Fields fields() {
    return {{"total_steps", &*total_steps}, {"max_lrs", &max_lr, kAnyNumber, true}};
  }
  /// Sets what PyTorch's scheduler keeps in the optimizer's groups.
  void note_in_groups(Optimizer& optimizer) const;
  /// The learning rate of a group after t steps.
  double rate(std::int64_t t, std::size_t group) const;
  /// The momentum of a group after t steps.
  std::optional<double> momentum(std::int64_t t, std::size_t group) const;
  /// The learning rate of a group at the start.
  double initial_lr(std::size_t group) const { return max_lr[group] / div_factor; }
  /// The value at t of what goes from `initial` to `max` and then to `min`.
  double annealed(std::int64_t t, double initial, double max, double min) const;
};
/// From initial_lr to max_lr and down (Smith and Topin 2018). Sets the optimizer's initial_lr.
/// ValueError for cycle_momentum if the optimizer has none, and for more steps than total_steps.
/// Where PyTorch's linear rate falls below 0, in a last step too many, it is 0.
///
///   optim::OneCycleLR scheduler(sgd, {.max_lr = 0.1, .total_steps = 1000});
using OneCycleLR = FormulaLR<OneCycleLROptions>;

struct CyclicLROptions {
  PerGroup base_lr;  ///< where each cycle starts and ends
  PerGroup max_lr;
  double step_size_up = 2000;                        ///< iterations in which the rate rises
  std::optional<double> step_size_down = {};         ///< as step_size_up
  Choice<CyclicMode> mode = CyclicMode::triangular;  ///< how the height of the cycles changes
  double gamma = 1;                                  ///< of exp_range
  std::function<double(double)> scale_fn = {};       ///< instead of the mode
  Choice<ScaleMode> scale_mode = ScaleMode::cycle;   ///< of scale_fn
  bool cycle_momentum = true;  ///< whether the momentum moves against the learning rate
  PerGroup base_momentum = 0.8;
  PerGroup max_momentum = 0.9;  ///< the largest momentum
  std::int64_t last_epoch = -1;
  double total_size = 0, step_ratio = 0;  ///< follow from the step sizes

  static constexpr const char* kName = "CyclicLR";
  /// Sets what the optimizer needs before the first epoch.
  void prepare(Optimizer& optimizer);
  Fields fields();
  /// The learning rate of a group after t steps.
  double rate(std::int64_t t, std::size_t group) const;
  /// The momentum of a group after t steps.
  std::optional<double> momentum(std::int64_t t, std::size_t group) const;
  /// The part of the whole height that the rate is at.
  double height(std::int64_t t) const;
};
/// Between base_lr and max_lr in straight lines (Smith 2017); the height of a cycle is constant
/// (triangular), halved each time (triangular2) or times gamma^t (exp_range). Momentum goes the
/// other way round; ValueError for cycle_momentum if the optimizer has none.
using CyclicLR = FormulaLR<CyclicLROptions>;

struct SWALROptions {
  PerGroup swa_lr;                  ///< the learning rate to which it anneals
  std::int64_t anneal_epochs = 10;  ///< 0 or more
  Choice<AnnealStrategy> anneal_strategy = AnnealStrategy::cos;
  std::int64_t last_epoch = -1;

  static constexpr const char* kName = "SWALR";
  /// Whether the schedule counts its own steps, beside the epochs.
  static constexpr bool kOwnSteps = true;
  /// Sets what the optimizer needs before the first epoch.
  void prepare(Optimizer& o) { swa_lr.expand(o.num_groups(), kName, "swa_lr"); }
  Fields fields() {
    return {{"anneal_epochs", &anneal_epochs, kNonNegative}, {"swa_lr", &swa_lr, kAnyNumber, true}};
  }
  /// Sets what PyTorch's scheduler keeps in the optimizer's groups.
  void note_in_groups(Optimizer& o) const {
    for (std::size_t g = 0; g < swa_lr.size(); ++g) o.set_schedule_number("swa_lr", swa_lr[g], g);
  }
  /// The smallest learning rate of a group.
  double floor(std::size_t group) const { return swa_lr[group]; }
  double multiplier(std::int64_t t) const {
    const double done = anneal_epochs == 0 ? 1 : progress(t, anneal_epochs);
    return anneal_strategy == AnnealStrategy::linear ? 1 - done : half_cosine(done, 1);
  }
};
/// From the present rates to swa_lr in anneal_epochs steps, and no further: for averaging weights
/// (optim/averaged_model.h), as torch.optim.swa_utils.SWALR.
using SWALR = FormulaLR<SWALROptions>;

// ---- Schedulers made of schedulers
//
// All of one optimizer. ReduceLROnPlateau, which steps by a metric, cannot be a member
// (ValueError).
//
//   optim::LinearLR warmup(sgd, {.total_iters = 5});
//   optim::CosineAnnealingLR cosine(sgd, 95);
//   optim::SequentialLR scheduler(sgd, {warmup, cosine}, {5});

/// Schedulers of one optimizer: the caller's own, `{warmup, cosine}`, which must outlive what is
/// made of them, as the optimizer must, or shared pointers, which are owned together with the
/// caller.
class LRSchedulers : public std::vector<std::shared_ptr<LRScheduler>> {
 public:
  /// One of them.
  class Member : public std::shared_ptr<LRScheduler> {
   public:
    Member(std::nullptr_t) {}
    Member(LRScheduler& own) : shared_ptr(shared_ptr<void>(), &own) {}
    template <std::derived_from<LRScheduler> S>
    Member(std::shared_ptr<S> shared) : shared_ptr(std::move(shared)) {}
  };

  LRSchedulers() = default;
  LRSchedulers(std::initializer_list<Member> members) : vector(members.begin(), members.end()) {}
  LRSchedulers(std::vector<std::shared_ptr<LRScheduler>> members) : vector(std::move(members)) {}
};

/// What they share: a step is one of each active member.
class CompositeLR : public LRScheduler {
 protected:
  CompositeLR(const char* name, Optimizer& optimizer, LRSchedulers schedulers);

  double next_lr(std::size_t, double lr) const override { return lr; }
  bool follow_group() override { return true; }  // as far as the members do
  void set_rates() override;
  std::span<const std::shared_ptr<LRScheduler>> active() const override;
  /// Whether a member that begins starts from the initial rates.
  virtual bool resets() const { return active()[0]->restarts_from_base(); }
  /// Whether a member that begins does so as a new scheduler.
  virtual bool begins_anew() const { return is_initial(); }
  /// Learning rates as they were at the start.
  void reset_to_initial_lr();
  /// Undoes the steps that members did on their own.
  void forget_steps();
  /// Notes the rates that the members have set.
  void note_rates();

  std::vector<std::int64_t> starts_;  // the first epoch of each member; empty: all take every step
};

/// One after another: at each milestone the next begins, from its epoch 0, as in PyTorch with
/// step(0). A member whose milestone is that of the next has no epoch. ValueError unless there is
/// one milestone less than schedulers, from 0 on, and none below the one before.
class SequentialLR final : public CompositeLR {
 public:
  SequentialLR(Optimizer& optimizer, LRSchedulers schedulers, std::vector<std::int64_t> milestones);
};

/// All in every step: the factors by which they change a rate multiply.
class ChainedScheduler final : public CompositeLR {
 public:
  explicit ChainedScheduler(const LRSchedulers& schedulers);
};

struct WarmupLROptions {
  std::int64_t warmup_steps;   ///< 0: none
  double start_factor = 1e-3;  ///< from 0 to 1
};
/// base_lr * (start_factor + (1 - start_factor) t / warmup_steps) for warmup_steps steps (Goyal et
/// al. 2017), then `after` from its epoch 0, or base_lr if there is no such scheduler.
class WarmupLR final : public CompositeLR {
 public:
  WarmupLR(Optimizer& optimizer, std::shared_ptr<LRScheduler> after,
           const WarmupLROptions& options);
  explicit WarmupLR(Optimizer& optimizer, std::int64_t warmup_steps, double start_factor = 1e-3)
      : WarmupLR(optimizer, nullptr, {.warmup_steps = warmup_steps, .start_factor = start_factor}) {
  }

 private:
  bool resets() const override { return true; }  // the warm-up need not have ended at base_lr
  bool begins_anew() const override { return true; }
  double next_lr(std::size_t group, double) const override;
  Fields fields() override;

  double start_factor_;
};

namespace lr_scheduler = ::ferrite::optim;  // optim::lr_scheduler::StepLR, as in PyTorch

}  // namespace ferrite::optim
