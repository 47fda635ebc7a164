#include "ferrite/optim/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cmath>

namespace ferrite::optim {

using Options = ReduceLROnPlateauOptions;

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const Options& options)
    : LRScheduler("ReduceLROnPlateau", optimizer),
      o_(options),
      min_lrs_(options.min_lr.expanded(optimizer.num_groups(), name_, "min_lr")),
      best_(options.mode == Options::Mode::min ? INFINITY : -INFINITY) {
  FERRITE_CHECK(o_.factor < 1 && o_.factor >= 0, ValueError, name_,
                "expected a factor below 1, got {}", o_.factor);
  last_epoch_ = 0;
  for (std::size_t g = 0; g < num_groups(); ++g) {
    base_lrs_.push_back(current_lr(g));
    last_lr_.push_back(current_lr(g));
  }
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = o_.threshold_mode == Options::ThresholdMode::rel;
  if (o_.mode == Options::Mode::min)
    return metric < (relative ? best_ * (1 - o_.threshold) : best_ - o_.threshold);
  return metric > (relative ? best_ * (1 + o_.threshold) : best_ + o_.threshold);
}

void ReduceLROnPlateau::step(double metric) {
  check_groups();
  ++last_epoch_;
  ++step_count_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  const bool reduces = num_bad_epochs_ > o_.patience;
  if (reduces) {
    cooldown_counter_ = o_.cooldown;
    num_bad_epochs_ = 0;
  }
  apply([&](std::size_t g) { return reduces ? chained_lr(g) : current_lr(g); });
}

void ReduceLROnPlateau::step() {
  fail<ValueError>(name_, "needs the metric of the epoch: step(metric)");
}

/// The reduced rate.
double ReduceLROnPlateau::chained_lr(std::size_t group) const {
  const double lr = current_lr(group), reduced = std::max(lr * o_.factor, min_lrs_[group]);
  return lr - reduced > o_.eps ? reduced : lr;
}

std::vector<LRScheduler::Field> ReduceLROnPlateau::fields() {
  return {{"factor", &o_.factor},
          {"patience", &o_.patience},
          {"threshold", &o_.threshold},
          {"cooldown", &o_.cooldown},
          {"min_lrs", &min_lrs_},
          {"eps", &o_.eps},
          {"best", &best_},
          {"num_bad_epochs", &num_bad_epochs_},
          {"cooldown_counter", &cooldown_counter_}};
}

}  // namespace ferrite::optim
