#include "ferrite/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ferrite::optim {

namespace {

/// At least `least`.
void check_count(std::int64_t value, std::int64_t least, const char* op, const char* what) {
  FERRITE_CHECK(value >= least, ValueError, op, "expected {} of {} or more, got {}", what, least,
                value);
}

std::vector<LRLambda> check_lambdas(std::vector<LRLambda> lambdas, const Optimizer& optimizer,
                                    const char* op) {
  FERRITE_CHECK(lambdas.size() == optimizer.num_groups(), ValueError, op,
                "expected a function for each of {} groups, got {}", optimizer.num_groups(),
                lambdas.size());
  for (const LRLambda& f : lambdas)
    FERRITE_CHECK(f, ValueError, op, "expected functions, got an empty one");
  return lambdas;
}

}  // namespace

// ---- ConstantLR

ConstantLR::ConstantLR(Optimizer& optimizer, const ConstantLROptions& options)
    : LRScheduler("ConstantLR", optimizer, options.last_epoch), o_(options) {
  FERRITE_CHECK(o_.factor > 0 && o_.factor <= 1, ValueError, name_,
                "expected a factor above 0, up to 1, got {}", o_.factor);
  start();
}

double ConstantLR::chained_lr(std::size_t group) const {
  const double lr = current_lr(group);
  if (last_epoch_ == 0) return lr * o_.factor;
  return last_epoch_ == o_.total_iters ? lr * (1 / o_.factor) : lr;
}

double ConstantLR::closed_lr(std::size_t group) const {
  return base_lr(group) * (last_epoch_ >= o_.total_iters ? 1 : o_.factor);
}

std::vector<LRScheduler::Field> ConstantLR::fields() {
  return {{"factor", &o_.factor}, {"total_iters", &o_.total_iters}};
}

// ---- LinearLR

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options)
    : LRScheduler("LinearLR", optimizer, options.last_epoch), o_(options) {
  FERRITE_CHECK(o_.start_factor > 0 && o_.start_factor <= 1, ValueError, name_,
                "expected a start_factor above 0, up to 1, got {}", o_.start_factor);
  FERRITE_CHECK(o_.end_factor >= 0 && o_.end_factor <= 1, ValueError, name_,
                "expected an end_factor from 0 to 1, got {}", o_.end_factor);
  check_count(o_.total_iters, 1, name_, "total_iters");
  start();
}

double LinearLR::chained_lr(std::size_t group) const {
  const double lr = current_lr(group);
  if (last_epoch_ == 0) return lr * o_.start_factor;
  if (last_epoch_ > o_.total_iters) return lr;
  const double rise = o_.end_factor - o_.start_factor;
  return lr * (1 + rise / (static_cast<double>(o_.total_iters) * o_.start_factor +
                           static_cast<double>(last_epoch_ - 1) * rise));
}

double LinearLR::closed_lr(std::size_t group) const {
  const auto done = static_cast<double>(std::min(o_.total_iters, last_epoch_));
  return base_lr(group) * (o_.start_factor + (o_.end_factor - o_.start_factor) * done /
                                                 static_cast<double>(o_.total_iters));
}

std::vector<LRScheduler::Field> LinearLR::fields() {
  return {{"start_factor", &o_.start_factor},
          {"end_factor", &o_.end_factor},
          {"total_iters", &o_.total_iters}};
}

// ---- StepLR

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : LRScheduler("StepLR", optimizer, options.last_epoch), o_(options) {
  check_count(o_.step_size, 1, name_, "a step_size");
  start();
}

double StepLR::chained_lr(std::size_t group) const {
  const bool falls = last_epoch_ != 0 && last_epoch_ % o_.step_size == 0;
  return falls ? current_lr(group) * o_.gamma : current_lr(group);
}

double StepLR::closed_lr(std::size_t group) const {
  return base_lr(group) * std::pow(o_.gamma, static_cast<double>(last_epoch_ / o_.step_size));
}

std::vector<LRScheduler::Field> StepLR::fields() {
  return {{"step_size", &o_.step_size}, {"gamma", &o_.gamma}};
}

// ---- MultiStepLR

MultiStepLR::MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options)
    : LRScheduler("MultiStepLR", optimizer, options.last_epoch), o_(options) {
  std::ranges::sort(o_.milestones);
  start();
}

double MultiStepLR::chained_lr(std::size_t group) const {
  const auto times = std::ranges::count(o_.milestones, last_epoch_);
  return times ? current_lr(group) * std::pow(o_.gamma, static_cast<double>(times))
               : current_lr(group);
}

double MultiStepLR::closed_lr(std::size_t group) const {
  const auto passed = std::ranges::upper_bound(o_.milestones, last_epoch_) - o_.milestones.begin();
  return base_lr(group) * std::pow(o_.gamma, static_cast<double>(passed));
}

std::vector<LRScheduler::Field> MultiStepLR::fields() {
  return {{"milestones", &o_.milestones}, {"gamma", &o_.gamma}};
}

// ---- ExponentialLR

ExponentialLR::ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options)
    : LRScheduler("ExponentialLR", optimizer, options.last_epoch), o_(options) {
  start();
}

double ExponentialLR::chained_lr(std::size_t group) const {
  return last_epoch_ == 0 ? current_lr(group) : current_lr(group) * o_.gamma;
}

double ExponentialLR::closed_lr(std::size_t group) const {
  return base_lr(group) * std::pow(o_.gamma, static_cast<double>(last_epoch_));
}

std::vector<LRScheduler::Field> ExponentialLR::fields() { return {{"gamma", &o_.gamma}}; }

// ---- PolynomialLR

PolynomialLR::PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options)
    : LRScheduler("PolynomialLR", optimizer, options.last_epoch), o_(options) {
  check_count(o_.total_iters, 1, name_, "total_iters");
  start();
}

double PolynomialLR::chained_lr(std::size_t group) const {
  const double lr = current_lr(group);
  if (last_epoch_ == 0 || last_epoch_ > o_.total_iters) return lr;
  const auto total = static_cast<double>(o_.total_iters), t = static_cast<double>(last_epoch_);
  return lr * std::pow((1 - t / total) / (1 - (t - 1) / total), o_.power);
}

double PolynomialLR::closed_lr(std::size_t group) const {
  const auto done = static_cast<double>(std::min(o_.total_iters, last_epoch_));
  return base_lr(group) * std::pow(1 - done / static_cast<double>(o_.total_iters), o_.power);
}

std::vector<LRScheduler::Field> PolynomialLR::fields() {
  return {{"total_iters", &o_.total_iters}, {"power", &o_.power}};
}

// ---- CosineAnnealingLR

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler("CosineAnnealingLR", optimizer, options.last_epoch), o_(options) {
  check_count(o_.T_max, 1, name_, "a T_max");
  start();
}

double CosineAnnealingLR::chained_lr(std::size_t group) const {
  const double lr = current_lr(group);
  if (last_epoch_ == 0) return lr;
  if (step_count_ == 1) return closed_lr(group);
  const auto half = static_cast<double>(o_.T_max), t = static_cast<double>(last_epoch_);
  // Behind the lowest point the quotient below has nothing to start from.
  if ((last_epoch_ - 1 - o_.T_max) % (2 * o_.T_max) == 0)
    return lr + (base_lr(group) - o_.eta_min) * (1 - std::cos(std::numbers::pi / half)) / 2;
  return (1 + std::cos(std::numbers::pi * t / half)) /
             (1 + std::cos(std::numbers::pi * (t - 1) / half)) * (lr - o_.eta_min) +
         o_.eta_min;
}

double CosineAnnealingLR::closed_lr(std::size_t group) const {
  const auto half = static_cast<double>(o_.T_max), t = static_cast<double>(last_epoch_);
  return o_.eta_min +
         (base_lr(group) - o_.eta_min) * (1 + std::cos(std::numbers::pi * t / half)) / 2;
}

std::vector<LRScheduler::Field> CosineAnnealingLR::fields() {
  return {{"T_max", &o_.T_max}, {"eta_min", &o_.eta_min}};
}

// ---- LambdaLR and MultiplicativeLR

LambdaLR::LambdaLR(Optimizer& optimizer, LRLambda lr_lambda, std::int64_t last_epoch)
    : LambdaLR(optimizer, std::vector<LRLambda>(optimizer.num_groups(), std::move(lr_lambda)),
               last_epoch) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambda, std::int64_t last_epoch)
    : LRScheduler("LambdaLR", optimizer, last_epoch),
      lambdas_(check_lambdas(std::move(lr_lambda), optimizer, name_)) {
  start();
}

double LambdaLR::chained_lr(std::size_t group) const {
  return base_lr(group) * lambdas_[group](last_epoch_);
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, LRLambda lr_lambda,
                                   std::int64_t last_epoch)
    : MultiplicativeLR(optimizer,
                       std::vector<LRLambda>(optimizer.num_groups(), std::move(lr_lambda)),
                       last_epoch) {}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::vector<LRLambda> lr_lambda,
                                   std::int64_t last_epoch)
    : LRScheduler("MultiplicativeLR", optimizer, last_epoch),
      lambdas_(check_lambdas(std::move(lr_lambda), optimizer, name_)) {
  start();
}

double MultiplicativeLR::chained_lr(std::size_t group) const {
  const double lr = current_lr(group);
  return last_epoch_ > 0 ? lr * lambdas_[group](last_epoch_) : lr;
}

// ---- SWALR

SWALR::SWALR(Optimizer& optimizer, const SWALROptions& options)
    : LRScheduler("SWALR", optimizer, options.last_epoch),
      o_(options),
      swa_lrs_(options.swa_lr.expanded(optimizer.num_groups(), name_, "swa_lr")) {
  check_count(o_.anneal_epochs, 0, name_, "anneal_epochs");
  start();
}

double SWALR::annealed(double t) const {
  return o_.anneal_strategy == AnnealStrategy::cos ? (1 - std::cos(std::numbers::pi * t)) / 2 : t;
}

double SWALR::chained_lr(std::size_t group) const {
  std::int64_t step = step_count_ - 1;
  if (o_.anneal_epochs == 0) step = std::max<std::int64_t>(1, step);
  const auto epochs = static_cast<double>(std::max<std::int64_t>(1, o_.anneal_epochs));
  const auto part = [&](std::int64_t done) {
    return annealed(std::clamp(static_cast<double>(done) / epochs, 0.0, 1.0));
  };
  const double swa_lr = swa_lrs_[group], before = part(step - 1), now = part(step);
  // What the rate was before the annealing, if it was annealed in the step before as well.
  const double lr = before == 1 ? swa_lr : (current_lr(group) - before * swa_lr) / (1 - before);
  return swa_lr * now + lr * (1 - now);
}

std::vector<LRScheduler::Field> SWALR::fields() {
  return {{"anneal_epochs", &o_.anneal_epochs}, {"swa_lr", &swa_lrs_}};
}

}  // namespace ferrite::optim
