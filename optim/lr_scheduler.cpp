#include "ferrite/optim/lr_scheduler.h"

#include <fmt/format.h>

namespace ferrite::optim {

void LRScheduler::start() {
  check_fields(fields(), name_);
  for (std::size_t g = 0; g < num_groups(); ++g) {
    if (!optimizer_.initial_lr(g)) {
      FERRITE_CHECK(last_epoch_ == -1, ValueError, name_,
                    "group {} has no initial_lr to go on from; load the optimizer's state first",
                    g);
      optimizer_.set_initial_lr(optimizer_.lr(g), g);
    }
    base_lrs_.push_back(*optimizer_.initial_lr(g));
  }
  note_in_groups();
  first_step();
}

void LRScheduler::first_step() {
  is_initial_ = true;
  try {
    step();
  } catch (...) {
    is_initial_ = false;
    throw;
  }
  is_initial_ = false;
}

void LRScheduler::follow_groups() {
  for (std::size_t g = base_lrs_.size(); g < num_groups(); ++g) {
    FERRITE_CHECK(follow_group(), ValueError, name_,
                  "the scheduler was made for {} groups, the optimizer has {}: make it after the "
                  "last group is added",
                  g, num_groups());
    if (!optimizer_.initial_lr(g)) optimizer_.set_initial_lr(optimizer_.lr(g), g);
    base_lrs_.push_back(*optimizer_.initial_lr(g));
    last_lr_.push_back(optimizer_.lr(g));
  }
}

void LRScheduler::step() {
  if (step_count_ == 1) optimizer_.warn_if_never_stepped(name_);
  advance();
}

void LRScheduler::advance() {
  follow_groups();
  ++step_count_;
  ++last_epoch_;
  try {
    set_rates();
  } catch (...) {
    --step_count_;
    --last_epoch_;
    throw;
  }
}

void LRScheduler::set_rates() {
  std::vector<double> rates;
  for (std::size_t g = 0; g < num_groups(); ++g) {
    const double lr = rates.emplace_back(next_lr(g, optimizer_.lr(g)));
    FERRITE_CHECK(lr >= 0, ValueError, name_,
                  "expected a learning rate of 0 or more, the schedule gives group {} {} in epoch "
                  "{}",
                  g, lr, last_epoch_);
  }
  last_lr_ = std::move(rates);
  restore();
}

void LRScheduler::restore() {
  for (std::size_t g = 0; g < num_groups(); ++g) {
    optimizer_.set_lr(last_lr_[g], g);
    if (const auto momentum = next_momentum(g)) optimizer_.set_momentum(*momentum, g);
  }
  for (const auto& s : active()) s->restore();
}

/// PyTorch's ReduceLROnPlateau, SequentialLR and ChainedScheduler count no steps and have no base
/// rates, and the last one counts no epochs.
Fields LRScheduler::all_fields() {
  return Fields{{"last_epoch", &last_epoch_, kAnyNumber, !schedulers_.empty()},
                {"_step_count", &step_count_, kAnyNumber, true},
                {"base_lrs", &base_lrs_, kAnyNumber, true},
                {"_last_lr", &last_lr_}} +
         fields();
}

void LRScheduler::save(StateDict& dict, const std::string& prefix) {
  save_fields(all_fields(), dict, prefix);
  std::size_t i = 0;
  for (const auto& s : schedulers_) s->save(dict, fmt::format("{}_schedulers.{}.", prefix, i++));
}

StateDict LRScheduler::state_dict() const {
  StateDict dict;
  const_cast<LRScheduler*>(this)->save(dict, "");
  return dict;
}

void LRScheduler::load(const StateDict& dict, const std::string& prefix, bool check_only) {
  load_fields(all_fields(), dict, prefix, name_, check_only);
  std::size_t i = 0;
  for (const auto& s : schedulers_)
    s->load(dict, fmt::format("{}_schedulers.{}.", prefix, i++), check_only);
  FERRITE_CHECK(!dict.contains(fmt::format("{}_schedulers.{}.last_epoch", prefix, i)), ValueError,
                name_, "the dict holds more than the {} schedulers of this one", i);
  if (check_only) return;
  if (!dict.contains(prefix + "last_epoch")) last_epoch_ = schedulers_[0]->last_epoch_;
  if (!dict.contains(prefix + "_step_count")) step_count_ = last_epoch_ + 1;
  note_in_groups();
}

void LRScheduler::load_state_dict(const StateDict& dict) {
  follow_groups();
  for (const bool check_only : {true, false}) load(dict, "", check_only);
  // Other schedulers of the optimizer, and its user, may have changed rates since the last step of
  // this one: where the optimizer's own state was loaded, that tells them.
  const std::uint64_t loads = std::exchange(loads_, optimizer_.loads_);
  if (loads != loads_) return;
  if (!optimizer_.restore_loaded_rates()) restore();
}

// ---- CosineAnnealingWarmRestarts

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(
    Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler("CosineAnnealingWarmRestarts", optimizer, options.last_epoch),
      o_(options),
      T_cur_(-1),
      T_i_(static_cast<double>(options.T_0)) {
  check_fields(fields(), name_);
  if (last_epoch_ >= 0) move_to(static_cast<double>(last_epoch_));
  start();
}

void CosineAnnealingWarmRestarts::move_to(double epoch) {
  T_i_ = static_cast<double>(o_.T_0);
  T_cur_ = o_.T_mult == 1 ? std::fmod(epoch, T_i_) : epoch;
  for (; T_cur_ >= T_i_; T_i_ *= static_cast<double>(o_.T_mult)) T_cur_ -= T_i_;
}

double CosineAnnealingWarmRestarts::next_lr(std::size_t group, double) const {
  return o_.eta_min + (base_lr(group) - o_.eta_min) * half_cosine(T_cur_, T_i_);
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
  move_to(epoch);
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

namespace {

/// For OneCycleLR and CyclicLR.
template <class Options>
void expand_momenta(Options& o, const Optimizer& optimizer) {
  if (!o.cycle_momentum) return;
  FERRITE_CHECK(optimizer.has_momentum(), ValueError, Options::kName,
                "the optimizer has no momentum to cycle; set cycle_momentum to false");
  o.base_momentum.expand(optimizer.num_groups(), Options::kName, "base_momentum");
  o.max_momentum.expand(optimizer.num_groups(), Options::kName, "max_momentum");
}

}  // namespace

// ---- OneCycleLR

void OneCycleLROptions::prepare(Optimizer& optimizer) {
  FERRITE_CHECK(total_steps || (epochs && steps_per_epoch), ValueError, kName,
                "expected total_steps, or epochs and steps_per_epoch");
  if (!total_steps) total_steps = *epochs * *steps_per_epoch;
  check_fields({{"total_steps", &*total_steps, kPositive}, {"pct_start", &pct_start, kUnit}},
               kName);
  max_lr.expand(optimizer.num_groups(), kName, "max_lr");
  expand_momenta(*this, optimizer);
  if (last_epoch == -1)
    for (std::size_t g = 0; g < max_lr.size(); ++g) optimizer.set_initial_lr(initial_lr(g), g);
}

void OneCycleLROptions::note_in_groups(Optimizer& optimizer) const {
  for (std::size_t g = 0; g < max_lr.size(); ++g) {
    optimizer.set_schedule_number("max_lr", max_lr[g], g);
    optimizer.set_schedule_number("min_lr", initial_lr(g) / final_div_factor, g);
    if (!cycle_momentum) continue;
    optimizer.set_schedule_number("max_momentum", max_momentum[g], g);
    optimizer.set_schedule_number("base_momentum", base_momentum[g], g);
  }
}

double OneCycleLROptions::annealed(std::int64_t t, double initial, double max, double min) const {
  const auto total = static_cast<double>(*total_steps), step = static_cast<double>(t);
  const auto between = [&](double begin, double end, double from, double to) {
    const double part = end != begin ? (step - begin) / (end - begin) : 1;  // 1 in an empty phase
    return anneal_strategy == AnnealStrategy::linear ? (to - from) * part + from
                                                     : to + (from - to) * half_cosine(part, 1);
  };
  const double top = pct_start * total - 1, back = three_phase ? 2 * top : top;
  if (step <= top) return between(0, top, initial, max);
  if (step <= back) return between(top, back, max, initial);
  return between(back, total - 1, three_phase ? initial : max, min);
}

double OneCycleLROptions::rate(std::int64_t t, std::size_t group) const {
  FERRITE_CHECK(t <= *total_steps, ValueError, kName, "step {} of {} total_steps", t, *total_steps);
  const double first = initial_lr(group);
  return std::max(0.0, annealed(t, first, max_lr[group], first / final_div_factor));
}

/// Lowest where the rate is highest.
std::optional<double> OneCycleLROptions::momentum(std::int64_t t, std::size_t group) const {
  if (!cycle_momentum) return {};
  return annealed(t, max_momentum[group], base_momentum[group], max_momentum[group]);
}

// ---- CyclicLR

void CyclicLROptions::prepare(Optimizer& optimizer) {
  base_lr.expand(optimizer.num_groups(), kName, "base_lr");
  max_lr.expand(optimizer.num_groups(), kName, "max_lr");
  double down = step_size_down.value_or(step_size_up);
  check_fields({{"step_size_up", &step_size_up, kPositive}, {"step_size_down", &down, kPositive}},
               kName);
  total_size = step_size_up + down;
  step_ratio = step_size_up / total_size;
  expand_momenta(*this, optimizer);
  if (last_epoch == -1)
    for (std::size_t g = 0; g < base_lr.size(); ++g) optimizer.set_lr(base_lr[g], g);
}

double CyclicLROptions::height(std::int64_t t) const {
  const auto step = static_cast<double>(t);
  const double cycle = std::floor(1 + step / total_size), x = 1 + step / total_size - cycle;
  const double part = x <= step_ratio ? x / step_ratio : (x - 1) / (step_ratio - 1);
  if (scale_fn) return part * scale_fn(scale_mode == ScaleMode::cycle ? cycle : step);
  if (mode == CyclicMode::triangular2) return part / std::pow(2.0, cycle - 1);
  return mode == CyclicMode::exp_range ? part * std::pow(gamma, step) : part;
}

double CyclicLROptions::rate(std::int64_t t, std::size_t group) const {
  return base_lr[group] + (max_lr[group] - base_lr[group]) * height(t);
}

std::optional<double> CyclicLROptions::momentum(std::int64_t t, std::size_t group) const {
  if (!cycle_momentum) return {};
  return max_momentum[group] - (max_momentum[group] - base_momentum[group]) * height(t);
}

Fields CyclicLROptions::fields() {
  return {{"total_size", &total_size},
          {"step_ratio", &step_ratio},
          {"gamma", &gamma},
          {"max_lrs", &max_lr}};
}

// ---- Schedulers made of schedulers

CompositeLR::CompositeLR(const char* name, Optimizer& optimizer, LRSchedulers schedulers)
    : LRScheduler(name, optimizer) {
  schedulers_ = std::move(schedulers);
  for (const auto& s : schedulers_) {
    FERRITE_CHECK(s, ValueError, name, "expected a scheduler, got null");
    FERRITE_CHECK(&s->optimizer() == &optimizer, ValueError, name,
                  "all schedulers must be those of one optimizer; {} belongs to another",
                  s->name());
    FERRITE_CHECK(
        !dynamic_cast<const ReduceLROnPlateau*>(s.get()), ValueError, name,
        "ReduceLROnPlateau steps by a metric, so it cannot be a member; step it separately");
  }
}

std::span<const std::shared_ptr<LRScheduler>> CompositeLR::active() const {
  if (starts_.empty() || schedulers_.empty()) return schedulers_;
  const auto begun = std::ranges::upper_bound(starts_, last_epoch_) - starts_.begin();
  if (begun == 0) return {};
  return {&schedulers_[static_cast<std::size_t>(begun - 1)], 1};
}

void CompositeLR::reset_to_initial_lr() {
  for (std::size_t g = 0; g < num_groups(); ++g)
    optimizer_.set_lr(optimizer_.initial_lr(g).value_or(optimizer_.lr(g)), g);
}

void CompositeLR::forget_steps() {
  for (const auto& s : schedulers_) s->last_epoch_ = -1;
  reset_to_initial_lr();
}

void CompositeLR::note_rates() {
  last_lr_.clear();
  for (std::size_t g = 0; g < num_groups(); ++g) last_lr_.push_back(optimizer_.lr(g));
}

void CompositeLR::set_rates() {
  const auto members = active();
  if (members.empty()) return LRScheduler::set_rates();
  const bool begin = last_epoch_ == 0 || std::ranges::binary_search(starts_, last_epoch_);
  if (begin && resets()) reset_to_initial_lr();
  for (const auto& s : members) {
    if (!begin) {
      s->step();
      continue;
    }
    const std::int64_t epoch = std::exchange(s->last_epoch_, -1), count = s->step_count_;
    try {
      // PyTorch's counts no step.
      s->step_count_ = begins_anew() ? 0 : std::max<std::int64_t>(count - 1, 0);
      begins_anew() ? s->first_step() : s->step();
    } catch (...) {
      s->last_epoch_ = epoch, s->step_count_ = count;
      throw;
    }
  }
  note_rates();
}

SequentialLR::SequentialLR(Optimizer& optimizer, LRSchedulers schedulers,
                           std::vector<std::int64_t> milestones)
    : CompositeLR("SequentialLR", optimizer, std::move(schedulers)) {
  FERRITE_CHECK(!schedulers_.empty() && milestones.size() + 1 == schedulers_.size(), ValueError,
                name_, "expected one milestone less than schedulers, got {} and {}",
                milestones.size(), schedulers_.size());
  starts_ = {0};
  for (const std::int64_t m : milestones) {
    FERRITE_CHECK(m >= starts_.back(), ValueError, name_,
                  "expected milestones of 0 or more that do not fall, got {} as number {}", m,
                  starts_.size() - 1);
    starts_.push_back(m);
  }
  forget_steps();
  start();
}

namespace {

Optimizer& optimizer_of(const LRSchedulers& schedulers, const char* op) {
  FERRITE_CHECK(!schedulers.empty() && schedulers[0], ValueError, op, "expected schedulers");
  return schedulers[0]->optimizer();
}

}  // namespace

ChainedScheduler::ChainedScheduler(const LRSchedulers& schedulers)
    : CompositeLR("ChainedScheduler", optimizer_of(schedulers, "ChainedScheduler"), schedulers) {
  base_lrs_ = schedulers_[0]->base_lrs();
  // Its members have done their first steps.
  last_epoch_ = 0;
  step_count_ = 1;
  note_rates();
}

WarmupLR::WarmupLR(Optimizer& optimizer, std::shared_ptr<LRScheduler> after,
                   const WarmupLROptions& options)
    : CompositeLR("WarmupLR", optimizer, after ? LRSchedulers{after} : LRSchedulers()),
      start_factor_(options.start_factor) {
  starts_ = {options.warmup_steps};
  start();
}

double WarmupLR::next_lr(std::size_t group, double) const {
  if (last_epoch_ >= starts_[0]) return base_lr(group);
  const double done = static_cast<double>(last_epoch_) / static_cast<double>(starts_[0]);
  return base_lr(group) * (start_factor_ + (1 - start_factor_) * done);
}

Fields WarmupLR::fields() {
  return {{"warmup_steps", &starts_[0], kNonNegative}, {"start_factor", &start_factor_, kUnit}};
}

}  // namespace ferrite::optim
