// ReduceLROnPlateau, as torch.optim.lr_scheduler has it.
#pragma once

#include "ferrite/core/choice.h"
#include "ferrite/core/metric_goal.h"
#include "ferrite/optim/lr_scheduler_base.h"

namespace ferrite::optim {

/// Whether the threshold is a part of the best metric or a difference from it.
enum class ThresholdMode : std::uint8_t { rel, abs };

}  // namespace ferrite::optim

namespace ferrite {
template <>
struct detail::ChoiceNames<optim::ThresholdMode> {
  static constexpr const char* kOption = "threshold_mode";
  static constexpr std::pair<const char*, optim::ThresholdMode> kNames[] = {
      {"rel", optim::ThresholdMode::rel}, {"abs", optim::ThresholdMode::abs}};
};
}  // namespace ferrite

namespace ferrite::optim {

struct ReduceLROnPlateauOptions {
  using Mode = MetricGoal;  ///< whether a smaller metric is better or a larger one
  using ThresholdMode = optim::ThresholdMode;  ///< what the threshold is

  MetricGoal mode = MetricGoal::min;
  double factor = 0.1;         ///< below 1
  std::int64_t patience = 10;  ///< epochs without improvement that do not matter
  double threshold = 1e-4;     ///< what counts as improvement
  /// Whether the threshold is a share or a difference.
  Choice<ThresholdMode> threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  ///< epochs after a reduction in which nothing is counted
  PerGroup min_lr = 0;        ///< the smallest learning rate
  double eps = 1e-8;          ///< smaller changes of the rate are not made
};
/// The rates fall when a metric stops getting better.
///
///   optim::ReduceLROnPlateau scheduler(sgd, {.factor = 0.1, .patience = 5});
///   scheduler.step(validation_loss);  // after each epoch
class ReduceLROnPlateau final : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  ReduceLROnPlateau(Optimizer& optimizer, MetricGoal mode, double factor = 0.1,
                    std::int64_t patience = 10)
      : ReduceLROnPlateau(optimizer, {.mode = mode, .factor = factor, .patience = patience}) {}

  /// The metric of an epoch (a number of the host: item<double>() of a loss).
  void step(double metric);
  /// ValueError.
  void step() override;
  double best() const { return best_; }
  std::int64_t num_bad_epochs() const { return num_bad_epochs_; }

 private:
  double next_lr(std::size_t group, double lr) const override;
  Fields fields() override;
  bool follow_group() override;
  bool is_better(double metric) const;

  ReduceLROnPlateauOptions o_;
  bool one_min_lr_;  // for all groups
  double best_;
  std::int64_t num_bad_epochs_ = 0, cooldown_counter_ = 0;
};

}  // namespace ferrite::optim
