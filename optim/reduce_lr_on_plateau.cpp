#include "ferrite/optim/reduce_lr_on_plateau.h"

namespace ferrite::optim {

using Plateau = ReduceLROnPlateauOptions;

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const Plateau& options)
    : LRScheduler("ReduceLROnPlateau", optimizer),
      o_(options),
      one_min_lr_(options.min_lr.size() == 1),
      best_(options.mode.worst()) {
  o_.min_lr.expand(num_groups(), name_, "min_lr");
  check_fields(fields(), name_);
  last_epoch_ = 0;
  for (std::size_t g = 0; g < num_groups(); ++g) base_lrs_.push_back(optimizer.lr(g));
  last_lr_ = base_lrs_;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double sign = o_.mode == MetricGoal::min ? -1 : 1;
  const double bound = o_.threshold_mode == Plateau::ThresholdMode::rel
                           ? best_ * (1 + sign * o_.threshold)
                           : best_ + sign * o_.threshold;
  return o_.mode.is_better(metric, bound);
}

void ReduceLROnPlateau::step(double metric) {
  follow_groups();
  const bool better = is_better(metric), cools = cooldown_counter_ > 0;
  if (better) best_ = metric;
  if (cools) --cooldown_counter_;
  num_bad_epochs_ = better || cools ? 0 : num_bad_epochs_ + 1;
  advance();  // no rate is lost by a step before the optimizer's first
  if (num_bad_epochs_ <= o_.patience) return;
  cooldown_counter_ = o_.cooldown;
  num_bad_epochs_ = 0;
}

void ReduceLROnPlateau::step() {
  fail<ValueError>(name_, "needs the metric of the epoch: step(metric)");
}

double ReduceLROnPlateau::next_lr(std::size_t group, double lr) const {
  if (num_bad_epochs_ <= o_.patience) return lr;
  const double reduced = std::max(lr * o_.factor, o_.min_lr[group]);
  return lr - reduced > o_.eps ? reduced : lr;
}

bool ReduceLROnPlateau::follow_group() {
  if (one_min_lr_) o_.min_lr.push_back(o_.min_lr.front());
  return one_min_lr_;
}

Fields ReduceLROnPlateau::fields() {
  return {{"factor", &o_.factor, kBelowOne},
          {"patience", &o_.patience},
          {"threshold", &o_.threshold},
          {"cooldown", &o_.cooldown},
          {"min_lrs", &o_.min_lr},
          {"eps", &o_.eps},
          {"best", &best_},
          {"num_bad_epochs", &num_bad_epochs_},
          {"cooldown_counter", &cooldown_counter_}};
}

}  // namespace ferrite::optim
