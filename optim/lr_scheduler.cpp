#include "ferrite/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ferrite::optim {

// ---- LambdaLR and MultiplicativeLR

namespace {

std::vector<LRLambda> checked_lambdas(const LRLambdas& given, const Optimizer& optimizer,
                                      const char* op) {
  std::vector<LRLambda> lambdas = given.expanded(optimizer.num_groups(), op, "function");
  for (const LRLambda& f : lambdas)
    FERRITE_CHECK(f, ValueError, op, "expected functions, got an empty one");
  return lambdas;
}

}  // namespace

LambdaLR::LambdaLR(Optimizer& optimizer, const LRLambdas& lr_lambda, std::int64_t last_epoch)
    : LRScheduler("LambdaLR", optimizer, last_epoch),
      lambdas_(checked_lambdas(lr_lambda, optimizer, name_)) {
  start();
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, const LRLambdas& lr_lambda,
                                   std::int64_t last_epoch)
    : LRScheduler("MultiplicativeLR", optimizer, last_epoch),
      lambdas_(checked_lambdas(lr_lambda, optimizer, name_)) {
  start();
}

// ---- SWALR

SWALR::SWALR(Optimizer& optimizer, const SWALROptions& options)
    : LRScheduler("SWALR", optimizer, options.last_epoch),
      o_(options),
      swa_lrs_(options.swa_lr.expanded(optimizer.num_groups(), name_, "swa_lr")) {
  start();
}

double SWALR::next_lr(std::size_t group, double lr) const {
  const auto epochs = static_cast<double>(std::max<std::int64_t>(1, o_.anneal_epochs));
  // The part of the way to swa_lr that is left after so many steps.
  const auto left = [&](std::int64_t steps) {
    const double done = std::clamp(static_cast<double>(steps) / epochs, 0.0, 1.0);
    return o_.anneal_strategy == AnnealStrategy::linear
               ? 1 - done
               : (1 + std::cos(std::numbers::pi * done)) / 2;
  };
  // PyTorch counts the scheduler's own steps here, and not epochs.
  const std::int64_t step = std::max<std::int64_t>(o_.anneal_epochs == 0, step_count_ - 1);
  const double swa_lr = swa_lrs_[group], before = left(step - 1);
  return before == 0 ? swa_lr : rescaled(lr, swa_lr, lr, before, left(step));
}

Fields SWALR::fields() {
  return {{"anneal_epochs", &o_.anneal_epochs, kNonNegative}, {"swa_lr", &swa_lrs_}};
}

// ---- ReduceLROnPlateau

using Plateau = ReduceLROnPlateauOptions;

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const Plateau& options)
    : LRScheduler("ReduceLROnPlateau", optimizer),
      o_(options),
      min_lrs_(options.min_lr.expanded(optimizer.num_groups(), name_, "min_lr")),
      best_(options.mode == Plateau::Mode::min ? INFINITY : -INFINITY) {
  check_fields(fields(), name_);
  last_epoch_ = 0;
  for (std::size_t g = 0; g < num_groups(); ++g) base_lrs_.push_back(optimizer.lr(g));
  last_lr_ = base_lrs_;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = o_.threshold_mode == Plateau::ThresholdMode::rel;
  if (o_.mode == Plateau::Mode::min)
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
  set_rates();
  if (num_bad_epochs_ > o_.patience) {
    cooldown_counter_ = o_.cooldown;
    num_bad_epochs_ = 0;
  }
}

void ReduceLROnPlateau::step() {
  fail<ValueError>(name_, "needs the metric of the epoch: step(metric)");
}

double ReduceLROnPlateau::next_lr(std::size_t group, double lr) const {
  if (num_bad_epochs_ <= o_.patience) return lr;
  const double reduced = std::max(lr * o_.factor, min_lrs_[group]);
  return lr - reduced > o_.eps ? reduced : lr;
}

Fields ReduceLROnPlateau::fields() {
  return {{"factor", &o_.factor, kBelowOne},
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
