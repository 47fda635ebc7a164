// LRScheduler: what the schedulers of learning rates share, as in torch.optim.lr_scheduler.
//
// A scheduler changes the rates of an optimizer's groups, on the device at once: captured steps see
// it with their next replay. `last_epoch` counts steps, which may be epochs or iterations. Like
// PyTorch's, most schedulers make a rate from the one that the group has. So several schedulers of
// one optimizer multiply, and a rate that was set by hand counts. Rates start from the optimizer's
// initial_lr(), which the first scheduler sets to the lr it finds.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/optim/fields.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

/// One value for all groups of an optimizer, or one for each: `.max_lr = 0.1`,
/// `.max_lr = {0.1, 0.01}`.
template <class T>
class PerGroupOf {
 public:
  PerGroupOf() = default;
  template <std::convertible_to<T> V>
  PerGroupOf(V value) : values_{T(std::move(value))} {}
  PerGroupOf(std::initializer_list<T> values) : values_(values) {}
  PerGroupOf(std::vector<T> values) : values_(std::move(values)) {}

  /// One for each of `groups`; ValueError unless there is one or as many.
  std::vector<T> expanded(std::size_t groups, const char* op, const char* what) const {
    FERRITE_CHECK(values_.size() == 1 || values_.size() == groups, ValueError, op,
                  "expected one {} or one for each of the {} groups, got {}", what, groups,
                  values_.size());
    return values_.size() == groups ? values_ : std::vector<T>(groups, values_[0]);
  }

 private:
  std::vector<T> values_;
};
using PerGroup = PerGroupOf<double>;

/// How a rate goes from one value to another.
enum class AnnealStrategy : std::uint8_t { cos, linear };

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// After the optimizer's step. ValueError where groups were added since the scheduler was made.
  virtual void step();
  /// The rates that the last step set, a group each.
  const std::vector<double>& get_last_lr() const { return last_lr_; }
  /// Steps so far; 0 for a new scheduler, which has done its first by itself.
  std::int64_t last_epoch() const { return last_epoch_; }
  const std::vector<double>& base_lrs() const { return base_lrs_; }
  Optimizer& optimizer() const { return optimizer_; }
  const char* name() const { return name_; }

  /// Counters, rates and numeric options under PyTorch's names: numbers are 0-dimensional float64
  /// or int64, lists 1-dimensional. Functions are not in it.
  StateDict state_dict() const;
  /// Takes all of it over, options too, and gives the optimizer the rates (and the momentum) of the
  /// last step, so that it does not matter which of the two is loaded first. ValueError where a
  /// name is missing or the number of groups differs; nothing is changed then.
  void load_state_dict(const StateDict& dict);

 protected:
  /// `name` is a string literal; the optimizer must outlive the scheduler. With a `last_epoch`
  /// above -1 a run goes on behind that epoch, and ValueError unless groups have an initial_lr.
  LRScheduler(const char* name, Optimizer& optimizer, std::int64_t last_epoch = -1)
      : name_(name), optimizer_(optimizer), last_epoch_(last_epoch) {}

  /// The end of constructors: checks the fields, sets initial rates, and steps to epoch 0.
  void start();

  /// The rate of a group in last_epoch(), where `lr` is the rate before.
  virtual double next_lr(std::size_t group, double lr) const = 0;
  /// What is cycled as momentum, in last_epoch(); none: it stays.
  virtual std::optional<double> next_momentum(std::size_t) const { return {}; }
  /// Throws where a scheduler has no rate for an epoch.
  virtual void check_epoch(std::int64_t) const {}
  /// What state_dict() has besides base_lrs, last_epoch, _step_count and _last_lr.
  virtual Fields fields() { return {}; }
  virtual std::vector<LRScheduler*> children() const { return {}; }

  // What schedulers made of schedulers do to their members: start over, as PyTorch's step(0) does,
  // and give the optimizer what the last step gave it.
  friend class CompositeLR;
  void restart(std::int64_t step_count);
  /// Whether a restart is from base_lrs(), and not from the rates there are.
  virtual bool restarts_from_base() const { return true; }
  virtual void restore();

  std::size_t num_groups() const { return optimizer_.num_groups(); }
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  void check_groups() const;
  /// Those of next_lr() and next_momentum().
  void set_rates();
  void reset_to_initial_lr();

  const char* name_;
  Optimizer& optimizer_;
  std::int64_t last_epoch_, step_count_ = 0;
  std::vector<double> base_lrs_, last_lr_;

 private:
  Fields all_fields();
  void load(const StateDict& dict, const std::string& prefix, bool check_only);
  void save(StateDict& dict, const std::string& prefix);
};

/// What is `lr` = low + (base - low) * before, with `now` in the place of `before`.
inline double rescaled(double lr, double low, double base, double before, double now) {
  if (now == before) return lr;
  if (before == 0) return lr + (base - low) * now;  // nothing of the rate is left to be scaled
  return low + (lr - low) * (now / before);
}

/// A scheduler that is a function of the step t: the rate is base_lr * multiplier(t), or
/// floor + (base_lr - floor) * multiplier(t) where the options have a floor(). `Options` has the
/// scheduler's name, kName, and its fields(), and `last_epoch`.
template <class Options>
class FormulaLR final : public LRScheduler {
 public:
  explicit FormulaLR(Optimizer& optimizer, const Options& options = Options::defaults())
      : LRScheduler(Options::kName, optimizer, options.last_epoch), o_(options) {
    start();
  }

 private:
  double next_lr(std::size_t group, double lr) const override {
    const double base = base_lr(group), now = o_.multiplier(last_epoch_);
    double low = 0;
    if constexpr (requires { o_.floor(); }) low = o_.floor();
    if (last_epoch_ == 0) return rescaled(lr, low, base, 1, now);
    if constexpr (requires { Options::kResumesFromBase; })
      if (step_count_ == 1) return rescaled(base, low, base, 1, now);
    return rescaled(lr, low, base, o_.multiplier(last_epoch_ - 1), now);
  }
  Fields fields() override { return o_.fields(); }

  Options o_;
};

}  // namespace ferrite::optim
