#include "ferrite/optim/lr_cycles.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ferrite::optim {

namespace {

/// For options of OneCycleLR and CyclicLR.
template <class Options>
void expand_momenta(const Options& o, const Optimizer& optimizer, const char* op,
                    std::vector<double>& base, std::vector<double>& max) {
  if (!o.cycle_momentum) return;
  FERRITE_CHECK(optimizer.has_momentum(), ValueError, op,
                "the optimizer has no momentum to cycle; set cycle_momentum to false");
  base = o.base_momentum.expanded(optimizer.num_groups(), op, "base_momentum");
  max = o.max_momentum.expanded(optimizer.num_groups(), op, "max_momentum");
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
  start();
}

double CosineAnnealingWarmRestarts::next_lr(std::size_t group, double) const {
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

Fields CosineAnnealingWarmRestarts::fields() {
  return {{"T_0", &o_.T_0, kPositive},
          {"T_mult", &o_.T_mult, kPositive},
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
  check_fields({{"pct_start", &o_.pct_start, kUnit}}, name_);
  expand_momenta(o_, optimizer, name_, base_momentums_, max_momentums_);
  if (last_epoch_ == -1)
    for (std::size_t g = 0; g < num_groups(); ++g) optimizer.set_initial_lr(rates(g)[initial], g);
  start();
}

OneCycleLR::Levels OneCycleLR::rates(std::size_t group) const {
  const double first = max_lrs_[group] / o_.div_factor;
  return {first, max_lrs_[group], first / o_.final_div_factor};
}

double OneCycleLR::annealed(const Levels& levels) const {
  struct Phase {
    double end_step;
    Level from, to;
  };
  const auto total = static_cast<double>(total_steps_), step = static_cast<double>(last_epoch_);
  std::vector<Phase> phases = {{o_.pct_start * total - 1, initial, max}};
  if (o_.three_phase) phases.push_back({2 * o_.pct_start * total - 2, max, initial});
  phases.push_back({total - 1, phases.back().to, min});
  double begin = 0;
  auto phase = phases.begin();
  for (; phase + 1 != phases.end() && step > phase->end_step; ++phase) begin = phase->end_step;
  const double length = phase->end_step - begin;
  const double part = length != 0 ? (step - begin) / length : 1;  // one of no length is at its end
  const double from = levels[phase->from], to = levels[phase->to];
  return o_.anneal_strategy == AnnealStrategy::linear
             ? (to - from) * part + from
             : to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1);
}

double OneCycleLR::next_lr(std::size_t group, double) const {
  return std::max(0.0, annealed(rates(group)));
}

/// Lowest where the rate is highest.
std::optional<double> OneCycleLR::next_momentum(std::size_t group) const {
  if (!o_.cycle_momentum) return {};
  return annealed({max_momentums_[group], base_momentums_[group], max_momentums_[group]});
}

void OneCycleLR::check_epoch(std::int64_t epoch) const {
  FERRITE_CHECK(epoch <= total_steps_, ValueError, name_, "step {} of {} total_steps", epoch,
                total_steps_);
}

Fields OneCycleLR::fields() { return {{"total_steps", &total_steps_}, {"max_lrs", &max_lrs_}}; }

// ---- CyclicLR

CyclicLR::CyclicLR(Optimizer& optimizer, const CyclicLROptions& options)
    : LRScheduler("CyclicLR", optimizer, options.last_epoch),
      o_(options),
      low_lrs_(options.base_lr.expanded(optimizer.num_groups(), name_, "base_lr")),
      max_lrs_(options.max_lr.expanded(optimizer.num_groups(), name_, "max_lr")) {
  double down = o_.step_size_down.value_or(o_.step_size_up);
  check_fields(
      {{"step_size_up", &o_.step_size_up, kPositive}, {"step_size_down", &down, kPositive}}, name_);
  total_size_ = o_.step_size_up + down;
  step_ratio_ = o_.step_size_up / total_size_;
  expand_momenta(o_, optimizer, name_, base_momentums_, max_momentums_);
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

double CyclicLR::next_lr(std::size_t group, double) const {
  return low_lrs_[group] + (max_lrs_[group] - low_lrs_[group]) * height();
}

std::optional<double> CyclicLR::next_momentum(std::size_t group) const {
  if (!o_.cycle_momentum) return {};
  return max_momentums_[group] - (max_momentums_[group] - base_momentums_[group]) * height();
}

Fields CyclicLR::fields() {
  return {{"total_size", &total_size_},
          {"step_ratio", &step_ratio_},
          {"gamma", &o_.gamma},
          {"max_lrs", &max_lrs_}};
}

}  // namespace ferrite::optim
