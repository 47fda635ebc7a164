// LRScheduler and FormulaLR: what all schedulers of learning rates share (optim/lr_scheduler.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <numbers>
#include <optional>
#include <span>

#include "ferrite/optim/fields.h"
#include "ferrite/optim/optimizer.h"
#include "ferrite/optim/positional.h"

namespace ferrite::optim {

/// One value for all groups of an optimizer, or one for each: `.max_lr = 0.1`,
/// `.max_lr = {0.1, 0.01}`.
template <class T>
struct PerGroupOf : std::vector<T> {
  using std::vector<T>::vector;
  template <std::convertible_to<T> V>
  PerGroupOf(V value) : std::vector<T>{T(std::move(value))} {}
  PerGroupOf(std::vector<T> values) : std::vector<T>(std::move(values)) {}

  /// Makes it one for each of `groups`; ValueError unless there is one or as many.
  void expand(std::size_t groups, const char* op, const char* what) {
    FERRITE_CHECK(this->size() == 1 || this->size() == groups, ValueError, op,
                  "expected one {} or one for each of the {} groups, got {}", what, groups,
                  this->size());
    this->resize(groups, T(this->front()));
  }
};
using PerGroup = PerGroupOf<double>;  ///< one value for all groups, or one for each

/// Sets an optimizer's learning rates, and some its momentum, with each step(): once an epoch, or
/// once a training step. The base of all schedulers (optim/lr_scheduler.h).
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// After the optimizer's step. Groups that were added since the scheduler was made take part from
  /// their present rates on, where the schedule multiplies rates by one option for all; ValueError
  /// where it does not.
  virtual void step();
  /// The rates that the last step set, one for each group.
  const std::vector<double>& get_last_lr() const { return last_lr_; }
  /// Steps so far; 0 for a new scheduler, whose constructor does the first.
  std::int64_t last_epoch() const { return last_epoch_; }
  /// The learning rates at the start, one for each group.
  const std::vector<double>& base_lrs() const { return base_lrs_; }
  /// The optimizer.
  Optimizer& optimizer() const { return optimizer_; }
  const char* name() const { return name_; }

  /// Counters, rates and numeric options under PyTorch's names: numbers are 0-dimensional float64
  /// or int64, lists 1-dimensional. It does not hold functions.
  StateDict state_dict() const;
  /// Takes all of it over, options too. What the dicts of PyTorch's scheduler lack stays as it is.
  /// ValueError if another name is missing or the number of groups differs; nothing is changed
  /// then.
  ///
  /// An optimizer whose state was loaded has the rates and momenta of that state, in any order of
  /// loading: it keeps them, as in PyTorch, or gets them back if it was loaded before the scheduler
  /// was made, whose constructor changed them (as a change by hand between the two is lost). One
  /// whose state was not loaded gets those of the scheduler's last step.
  void load_state_dict(const StateDict& dict);

 protected:
  /// `name` is a string literal; the optimizer must outlive the scheduler. With a `last_epoch`
  /// above -1 a run continues after that epoch: ValueError unless groups have an initial_lr.
  LRScheduler(const char* name, Optimizer& optimizer, std::int64_t last_epoch = -1)
      : name_(name), optimizer_(optimizer), last_epoch_(last_epoch), loads_(optimizer.loads_) {}
  /// Ends constructors: checks the fields, sets initial rates, and steps to epoch 0.
  void start();

  /// A group's rate in last_epoch(), where `lr` is the rate before.
  virtual double next_lr(std::size_t group, double lr) const = 0;
  /// Its momentum in last_epoch(), if the scheduler sets one.
  virtual std::optional<double> next_momentum(std::size_t) const { return {}; }
  /// What state_dict() holds besides base_lrs, last_epoch, _step_count and _last_lr.
  virtual Fields fields() { return {}; }

  /// Whether the schedule goes for one more group, for which it then has all options.
  virtual bool follow_group() { return false; }
  /// Writes into the optimizer's groups what PyTorch's scheduler keeps there.
  virtual void note_in_groups() {}

  /// Sets the rates and momenta of last_epoch().
  virtual void set_rates();
  /// Sets those of the last step again.
  void restore();
  /// A step, without the warning if it is before the optimizer's first.
  void advance();
  /// Whether the step is the one by which a schedule begins, in a constructor.
  bool is_initial() const { return is_initial_; }
  /// Does that step.
  void first_step();

  // Schedulers made of schedulers start their members anew, as PyTorch's step(0) does.
  friend class CompositeLR;
  /// Whether such a start is from the initial rates, and not from the present ones.
  virtual bool restarts_from_base() const { return true; }
  /// The members that have a part in last_epoch().
  virtual std::span<const std::shared_ptr<LRScheduler>> active() const { return {}; }

  std::size_t num_groups() const { return optimizer_.num_groups(); }
  /// The learning rate of a group at the start.
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  /// Takes in the groups that the optimizer has got; ValueError if the schedule cannot.
  void follow_groups();

  const char* name_;
  Optimizer& optimizer_;
  std::int64_t last_epoch_, step_count_ = 0;
  std::vector<double> base_lrs_, last_lr_;
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;  // members

 private:
  bool is_initial_ = false;
  std::uint64_t loads_;  // the optimizer's, when this was made

  Fields all_fields();
  void load(const StateDict& dict, const std::string& prefix, bool check_only);
  void save(StateDict& dict, const std::string& prefix);
};

/// The part of `total` that is over at t, up to 1.
inline double progress(std::int64_t t, std::int64_t total) {
  return static_cast<double>(std::min(t, total)) / static_cast<double>(total);
}
/// Half a period of a cosine: 1 at t = 0, 0 at t = end.
inline double half_cosine(double t, double end) {
  return (1 + std::cos(std::numbers::pi * t / end)) / 2;
}
/// For `lr` = low + (base - low) * before: the same with `now` instead of `before`.
inline double rescaled(double lr, double low, double base, double before, double now) {
  if (now == before) return lr;
  if (before == 0) return lr + (base - low) * now;  // nothing of the rate is left to be scaled
  return low + (lr - low) * (now / before);
}

/// A scheduler that is a function of the step t. `Options` has its name, kName, its fields(),
/// `last_epoch`, and one of
/// - multiplier(t): the rate is base_lr * multiplier(t), or, if the options have a floor() or
///   floor(group),
///   floor + (base_lr - floor) * multiplier(t), made from the rate before;
/// - rate(t, group): whatever the rate was before. It may throw if there is no such step.
/// It may have momentum(t, group), prepare(optimizer), by which constructors begin, and
/// note_in_groups(optimizer), as LRScheduler has it.
template <class Options>
class FormulaLR final : public LRScheduler {
 public:
  explicit FormulaLR(Optimizer& optimizer, const Options& options = Options::defaults())
      : LRScheduler(Options::kName, optimizer, options.last_epoch), o_(options) {
    if constexpr (requires { o_.prepare(optimizer); }) o_.prepare(optimizer);
    start();
    if constexpr (requires { o_.base_lr; }) base_lrs_ = o_.base_lr;
  }
  /// The options by position, in their order: `StepLR(sgd, 30, 0.1)`.
  template <class... Values>
  requires detail::Positional<Options, Values...>
  explicit FormulaLR(Optimizer& optimizer, const Values&... values)
      : FormulaLR(optimizer, detail::positional<Options>(values...)) {}
  /// `MultiStepLR(sgd, {30, 80}, 0.1)`
  template <std::integral T>
  requires requires(Options o) { o.milestones; }
  FormulaLR(Optimizer& optimizer, std::initializer_list<T> milestones, double gamma = 0.1)
      : FormulaLR(optimizer,
                  Options{.milestones = {milestones.begin(), milestones.end()}, .gamma = gamma}) {}
  /// The steps of the whole schedule.
  std::int64_t total_steps() const requires requires(Options o) { *o.total_steps; }
  { return *o_.total_steps; }

 private:
  /// PyTorch's SWALR goes by its own steps, and from the rates that it finds.
  static constexpr bool kOwnSteps = requires { Options::kOwnSteps; };

  double next_lr(std::size_t group, double lr) const override {
    if constexpr (requires { o_.rate(last_epoch_, group); }) {
      return o_.rate(last_epoch_, group);
    } else {
      const std::int64_t t = kOwnSteps ? step_count_ - 1 : last_epoch_;
      const double base = base_lr(group), now = o_.multiplier(t);
      double low = 0;
      if constexpr (requires { o_.floor(); }) low = o_.floor();
      if constexpr (requires { o_.floor(group); }) low = o_.floor(group);
      if (t == 0) return rescaled(lr, low, base, 1, now);
      if constexpr (requires { Options::kKeepsResumedRate; })
        if (is_initial()) return lr;
      const double before = o_.multiplier(t - 1);
      return kOwnSteps && before == 0 ? low : rescaled(lr, low, base, before, now);
    }
  }
  std::optional<double> next_momentum(std::size_t group) const override {
    if constexpr (requires { o_.momentum(last_epoch_, group); })
      return o_.momentum(last_epoch_, group);
    return {};
  }
  Fields fields() override { return o_.fields(); }
  bool follow_group() override {
    constexpr bool has_option_for_each = requires(Options o) { o.floor(std::size_t{}); };
    if constexpr (requires { o_.multiplier(last_epoch_); }) return !has_option_for_each;
    return false;
  }
  void note_in_groups() override {
    if constexpr (requires { o_.note_in_groups(optimizer_); }) o_.note_in_groups(optimizer_);
  }
  bool restarts_from_base() const override { return !kOwnSteps; }

  Options o_;
};

}  // namespace ferrite::optim
