// LRScheduler: what the schedulers of learning rates share, as in torch.optim.lr_scheduler.
//
// A scheduler changes the rates of an optimizer's groups, on the device at once: captured steps see
// it with their next replay. Steps are counted in `last_epoch`, whatever they are (epochs or
// iterations). Like PyTorch's, most work out a rate from the one the group has, so that several
// schedulers of one optimizer multiply, and a rate set by hand counts. Rates start from the
// optimizer's initial_lr(), which the first scheduler sets to the lr it finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

/// One number for all groups of an optimizer, or one for each: `.max_lr = 0.1`,
/// `.max_lr = {0.1, 0.01}`.
class PerGroup {
 public:
  PerGroup() = default;
  PerGroup(double value) : values_{value} {}
  PerGroup(std::initializer_list<double> values) : values_(values) {}
  PerGroup(std::vector<double> values) : values_(std::move(values)) {}

  /// One for each of `groups`; ValueError unless there is one or as many.
  std::vector<double> expanded(std::size_t groups, const char* op, const char* what) const;

 private:
  std::vector<double> values_;
};

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
  using Value =
      std::variant<double*, std::int64_t*, std::vector<double>*, std::vector<std::int64_t>*>;
  struct Field {
    std::string name;
    Value value;
  };

  /// `name` is a string literal; the optimizer must outlive the scheduler. With a `last_epoch`
  /// above -1 a run goes on behind that epoch, and ValueError unless groups have an initial_lr.
  LRScheduler(const char* name, Optimizer& optimizer, std::int64_t last_epoch = -1)
      : name_(name), optimizer_(optimizer), last_epoch_(last_epoch) {}

  /// The end of constructors: initial rates, and the step to epoch 0.
  void start();

  /// The rate of a group in last_epoch(), made from the rate it has.
  virtual double chained_lr(std::size_t group) const = 0;
  /// The same made from base_lrs() alone, where there is such a form.
  virtual double closed_lr(std::size_t group) const { return chained_lr(group); }
  /// Sets what is cycled beside the rates, for last_epoch().
  virtual void apply_momentum() {}
  /// Throws where a scheduler has no rate for an epoch.
  virtual void check_epoch(std::int64_t) const {}
  /// What state_dict() has besides base_lrs, last_epoch, _step_count and _last_lr.
  virtual std::vector<Field> fields() { return {}; }
  virtual std::vector<LRScheduler*> children() const { return {}; }
  /// Gives the optimizer what the last step gave it.
  virtual void restore();

  // What SequentialLR and ChainedScheduler do to their members: take the first step back, do it
  // again, and start over in the middle of a run, as PyTorch's step(0).
  friend class SequentialLR;
  friend class ChainedScheduler;
  friend class WarmupLR;
  virtual void undo() { --last_epoch_; }
  virtual void initial_step();
  virtual void restart();

  std::size_t num_groups() const { return optimizer_.num_groups(); }
  double current_lr(std::size_t group) const { return optimizer_.lr(group); }
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  void check_groups() const;
  void reset_to_initial_lr();
  /// Sets the rates that rate(group) gives.
  template <class Rate>
  void apply(Rate&& rate) {
    std::vector<double> rates(num_groups());
    for (std::size_t g = 0; g < rates.size(); ++g) rates[g] = rate(g);
    set_rates(rates);
  }

  const char* name_;
  Optimizer& optimizer_;
  std::int64_t last_epoch_, step_count_ = 0;
  std::vector<double> base_lrs_, last_lr_;

 private:
  void set_rates(const std::vector<double>& rates);
  std::vector<Field> all_fields();
  void load(const StateDict& dict, const std::string& prefix, bool check_only);
  void save(StateDict& dict, const std::string& prefix);
};

}  // namespace ferrite::optim
