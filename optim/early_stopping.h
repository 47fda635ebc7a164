// EarlyStopping: ends a training when a metric has stopped getting better, and gives the model the
// weights of its best epoch.
//
//   optim::EarlyStopping stopping({.patience = 5, .restore_best_weights = true});
//   for (int epoch = 0; epoch < 100; ++epoch) {
//     train(...);
//     if (stopping.step(validation_loss, model)) break;
//   }
//   stopping.restore_best(model);  // if the epochs were over before
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "ferrite/core/metric_goal.h"
#include "ferrite/core/state_dict.h"
#include "ferrite/nn/module.h"
#include "ferrite/optim/fields.h"

namespace ferrite::optim {

struct EarlyStoppingOptions {
  std::int64_t patience = 3;  ///< it ends after this many epochs in a row without improvement
  double min_delta = 0;       ///< what a metric must be better by; 0 or more
  MetricGoal mode = MetricGoal::min;
  /// Whether copies of the best weights and buffers are kept, and the model gets them when it ends.
  bool restore_best_weights = false;
};

/// Says when a metric has stopped getting better, and can give the model its best weights back.
class EarlyStopping {
 public:
  /// ValueError for options out of range.
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});
  template <std::integral T>
  explicit EarlyStopping(T patience, double min_delta = 0, MetricGoal mode = MetricGoal::min)
      : EarlyStopping(EarlyStoppingOptions{.patience = static_cast<std::int64_t>(patience),
                                           .min_delta = min_delta,
                                           .mode = mode}) {}

  /// The metric of an epoch (a number of the host: item<double>() of a loss); whether to stop now.
  /// NaN is no improvement. ValueError with restore_best_weights, which needs the model.
  bool step(double metric);
  bool step(double metric, nn::Module& model);
  /// Gives the model the best weights so far; ValueError if none were kept.
  void restore_best(nn::Module& model) const;

  /// Whether step() has said so.
  bool should_stop() const { return num_bad_epochs_ >= std::max<std::int64_t>(o_.patience, 1); }
  double best() const { return best_; }
  /// Counted from 0; -1 before the first improvement.
  std::int64_t best_epoch() const { return best_epoch_; }
  std::int64_t num_bad_epochs() const { return num_bad_epochs_; }

  /// "best", "best_epoch", "epoch", "num_bad_epochs", and the best weights as "weights.<name>".
  StateDict state_dict() const;
  /// ValueError if a name is missing; nothing is changed then.
  void load_state_dict(const StateDict& dict);

 private:
  bool note(double metric);
  Fields fields();

  EarlyStoppingOptions o_;
  double best_;
  std::int64_t epoch_ = -1, best_epoch_ = -1, num_bad_epochs_ = 0;
  StateDict best_weights_;
};

}  // namespace ferrite::optim
