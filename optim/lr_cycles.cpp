#include "ferrite/optim/lr_cycles.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ferrite::optim {

namespace {

void check_momentum(const Optimizer& optimizer, const char* op) {
  FERRITE_CHECK(optimizer.has_momentum(), ValueError, op,
                "the optimizer has no momentum to cycle; set cycle_momentum to false");
}

/// Steps through `epochs` and `steps_per_epoch` where there is no total.
std::int64_t total_of(const OneCycleLROptions& o) {
  FERRITE_CHECK(o.total_steps || (o.epochs && o.steps_per_epoch), ValueError, "OneCycleLR",
                "expected total_steps, or epochs and steps_per_epoch");
  const std::int64_t total = o.total_steps ? *o.total_steps : *o.epochs * *o.steps_per_epoch;
  FERRITE_CHECK(total > 0, ValueError, "OneCycleLR", "expected steps, got {} of them", total);
  return total;
}

}  // namespace

// ---- CosineAnnealingWarmRestarts

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(
    Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler("CosineAnnealingWarmRestarts", optimizer, options.last_epoch),
      o_(options),
      T_cur_(static_cast<double>(options.last_epoch)),
      T_i_(static_cast<double>(options.T_0)) {
  FERRITE_CHECK(o_.T_0 > 0, ValueError, name_, "expected a T_0 above 0, got {}", o_.T_0);
  FERRITE_CHECK(o_.T_mult >= 1, ValueError, name_, "expected a T_mult of 1 or more, got {}",
                o_.T_mult);
  start();
}

double CosineAnnealingWarmRestarts::chained_lr(std::size_t group) const {
  return o_.eta_min +
         (base_lr(group) - o_.eta_min) * (1 + std::cos(std::numbers::pi * T_cur_ / T_i_)) / 2;
}

void CosineAnnealingWarmRestarts::step() {
  if (last_epoch_ < 0) return step(0.0);
  T_cur_ += 1;
  if (T_cur_ >= T_i_) {
    T_cur_ -= T_i_;
    T_i_ *= static_cast<double>(o_.T_mult);
  }
  LRScheduler::step();
}

void CosineAnnealingWarmRestarts::step(double epoch) {
  FERRITE_CHECK(epoch >= 0, ValueError, name_, "expected an epoch of 0 or more, got {}", epoch);
  const auto first = static_cast<double>(o_.T_0), mult = static_cast<double>(o_.T_mult);
  if (epoch < first) {
    T_i_ = first;
    T_cur_ = epoch;
  } else if (o_.T_mult == 1) {
    T_cur_ = std::fmod(epoch, first);
  } else {
    const double restarts = std::floor(std::log(epoch / first * (mult - 1) + 1) / std::log(mult));
    T_cur_ = epoch - first * (std::pow(mult, restarts) - 1) / (mult - 1);
    T_i_ = first * std::pow(mult, restarts);
  }
  last_epoch_ = static_cast<std::int64_t>(std::floor(epoch)) - 1;
  LRScheduler::step();
}

std::vector<LRScheduler::Field> CosineAnnealingWarmRestarts::fields() {
  return {{"T_0", &o_.T_0},
          {"T_mult", &o_.T_mult},
          {"eta_min", &o_.eta_min},
          {"T_cur", &T_cur_},
          {"T_i", &T_i_}};
}

// ---- OneCycleLR

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler("OneCycleLR", optimizer, options.last_epoch),
      o_(options),
      total_steps_(total_of(options)),
      max_lrs_(options.max_lr.expanded(optimizer.num_groups(), name_, "max_lr")) {
  FERRITE_CHECK(o_.pct_start >= 0 && o_.pct_start <= 1, ValueError, name_,
                "expected a pct_start from 0 to 1, got {}", o_.pct_start);
  const auto total = static_cast<double>(total_steps_);
  const double rise = o_.pct_start * total - 1;
  phases_ = {{rise, Level::initial, Level::max, true, false}};
  if (o_.three_phase) {
    phases_.push_back({2 * o_.pct_start * total - 2, Level::max, Level::initial, false, true});
    phases_.push_back({total - 1, Level::initial, Level::min, true, true});
  } else {
    phases_.push_back({total - 1, Level::max, Level::min, false, true});
  }
  if (o_.cycle_momentum) {
    check_momentum(optimizer, name_);
    base_momentums_ = o_.base_momentum.expanded(num_groups(), name_, "base_momentum");
    max_momentums_ = o_.max_momentum.expanded(num_groups(), name_, "max_momentum");
  }
  if (last_epoch_ == -1)
    for (std::size_t g = 0; g < num_groups(); ++g)
      optimizer.set_initial_lr(max_lrs_[g] / o_.div_factor, g);
  start();
}

double OneCycleLR::level(Level level, std::size_t group) const {
  const double initial = max_lrs_[group] / o_.div_factor;
  return level == Level::max   ? max_lrs_[group]
         : level == Level::min ? initial / o_.final_div_factor
                               : initial;
}

double OneCycleLR::between(double start, double end, double part) const {
  if (o_.anneal_strategy == AnnealStrategy::linear) return (end - start) * part + start;
  return end + (start - end) / 2 * (std::cos(std::numbers::pi * part) + 1);
}

OneCycleLR::Position OneCycleLR::position() const {
  const auto step = static_cast<double>(last_epoch_);
  double start = 0;
  std::size_t i = 0;
  for (; i + 1 < phases_.size() && step > phases_[i].end_step; ++i) start = phases_[i].end_step;
  const double length = phases_[i].end_step - start;
  // A phase of no length is at its end.
  return {phases_[i], length != 0 ? (step - start) / length : 1};
}

double OneCycleLR::chained_lr(std::size_t group) const {
  const Position at = position();
  return std::max(0.0, between(level(at.phase.from, group), level(at.phase.to, group), at.part));
}

void OneCycleLR::apply_momentum() {
  if (!o_.cycle_momentum) return;
  const Position at = position();
  for (std::size_t g = 0; g < num_groups(); ++g) {
    const auto end = [&](bool max) { return max ? max_momentums_[g] : base_momentums_[g]; };
    optimizer_.set_momentum(
        between(end(at.phase.momentum_from_max), end(at.phase.momentum_to_max), at.part), g);
  }
}

void OneCycleLR::check_epoch(std::int64_t epoch) const {
  FERRITE_CHECK(epoch <= total_steps_, ValueError, name_, "step {} of {} total_steps", epoch,
                total_steps_);
}

std::vector<LRScheduler::Field> OneCycleLR::fields() {
  return {{"total_steps", &total_steps_}, {"max_lrs", &max_lrs_}};
}

// ---- CyclicLR

CyclicLR::CyclicLR(Optimizer& optimizer, const CyclicLROptions& options)
    : LRScheduler("CyclicLR", optimizer, options.last_epoch),
      o_(options),
      low_lrs_(options.base_lr.expanded(optimizer.num_groups(), name_, "base_lr")),
      max_lrs_(options.max_lr.expanded(optimizer.num_groups(), name_, "max_lr")) {
  const double down = o_.step_size_down.value_or(o_.step_size_up);
  FERRITE_CHECK(o_.step_size_up > 0 && down > 0, ValueError, name_,
                "expected step sizes above 0, got {} and {}", o_.step_size_up, down);
  total_size_ = o_.step_size_up + down;
  step_ratio_ = o_.step_size_up / total_size_;
  if (o_.cycle_momentum) {
    check_momentum(optimizer, name_);
    base_momentums_ = o_.base_momentum.expanded(num_groups(), name_, "base_momentum");
    max_momentums_ = o_.max_momentum.expanded(num_groups(), name_, "max_momentum");
  }
  if (last_epoch_ == -1)
    for (std::size_t g = 0; g < num_groups(); ++g) optimizer.set_lr(low_lrs_[g], g);
  start();
  base_lrs_ = low_lrs_;
}

double CyclicLR::height() const {
  const auto t = static_cast<double>(last_epoch_);
  const double cycle = std::floor(1 + t / total_size_), x = 1 + t / total_size_ - cycle;
  const double part = x <= step_ratio_ ? x / step_ratio_ : (x - 1) / (step_ratio_ - 1);
  if (o_.scale_fn) return part * o_.scale_fn(o_.scale_mode == ScaleMode::cycle ? cycle : t);
  switch (o_.mode) {
    case CyclicMode::triangular2:
      return part / std::pow(2.0, cycle - 1);
    case CyclicMode::exp_range:
      return part * std::pow(o_.gamma, t);
    default:
      return part;
  }
}

double CyclicLR::chained_lr(std::size_t group) const {
  return low_lrs_[group] + (max_lrs_[group] - low_lrs_[group]) * height();
}

void CyclicLR::apply_momentum() {
  if (!o_.cycle_momentum) return;
  const double fall = height();
  for (std::size_t g = 0; g < num_groups(); ++g)
    optimizer_.set_momentum(max_momentums_[g] - (max_momentums_[g] - base_momentums_[g]) * fall, g);
}

std::vector<LRScheduler::Field> CyclicLR::fields() {
  return {{"total_size", &total_size_},
          {"step_ratio", &step_ratio_},
          {"gamma", &o_.gamma},
          {"max_lrs", &max_lrs_}};
}

}  // namespace ferrite::optim
