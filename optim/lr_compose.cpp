#include "ferrite/optim/lr_compose.h"

#include <algorithm>

#include "ferrite/optim/lr_scheduler.h"

namespace ferrite::optim {

// ---- CompositeLR

CompositeLR::CompositeLR(const char* name, Optimizer& optimizer, LRSchedulers schedulers)
    : LRScheduler(name, optimizer), schedulers_(std::move(schedulers)) {
  for (const auto& s : schedulers_) {
    FERRITE_CHECK(s, ValueError, name, "expected a scheduler, got null");
    FERRITE_CHECK(&s->optimizer() == &optimizer, ValueError, name,
                  "all schedulers must be those of one optimizer; {} belongs to another",
                  s->name());
    FERRITE_CHECK(!dynamic_cast<const ReduceLROnPlateau*>(s.get()), ValueError, name,
                  "ReduceLROnPlateau steps by a metric, and not with others; step it by itself");
  }
}

std::vector<LRScheduler*> CompositeLR::children() const {
  std::vector<LRScheduler*> all;
  for (const auto& s : schedulers_) all.push_back(s.get());
  return all;
}

void CompositeLR::forget_steps() {
  for (const auto& s : schedulers_) s->last_epoch_ = -1;
  reset_to_initial_lr();
}

void CompositeLR::note_rates() {
  last_lr_.resize(num_groups());
  for (std::size_t g = 0; g < num_groups(); ++g) last_lr_[g] = optimizer_.lr(g);
}

void CompositeLR::step() {
  check_groups();
  ++last_epoch_;
  ++step_count_;
  const std::vector<LRScheduler*> members = active();
  if (members.empty()) return set_rates();
  const bool begin = begins(), is_first = step_count_ == 1;
  if (begin && resets()) reset_to_initial_lr();
  for (LRScheduler* s : members) begin ? s->restart(is_first ? 0 : s->step_count_) : s->step();
  note_rates();
}

void CompositeLR::restore() {
  LRScheduler::restore();
  for (LRScheduler* s : active()) s->restore();
}

// ---- SequentialLR

SequentialLR::SequentialLR(Optimizer& optimizer, LRSchedulers schedulers,
                           std::vector<std::int64_t> milestones)
    : CompositeLR("SequentialLR", optimizer, std::move(schedulers)),
      milestones_(std::move(milestones)) {
  FERRITE_CHECK(!schedulers_.empty() && milestones_.size() + 1 == schedulers_.size(), ValueError,
                name_, "expected one milestone less than schedulers, got {} and {}",
                milestones_.size(), schedulers_.size());
  for (std::size_t i = 0; i < milestones_.size(); ++i)
    FERRITE_CHECK(milestones_[i] > (i ? milestones_[i - 1] : 0), ValueError, name_,
                  "expected rising milestones above 0, got {} as number {}", milestones_[i], i);
  forget_steps();
  start();
}

std::size_t SequentialLR::index() const {
  return static_cast<std::size_t>(std::ranges::upper_bound(milestones_, last_epoch_) -
                                  milestones_.begin());
}

// ---- ChainedScheduler

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

// ---- WarmupLR

WarmupLR::WarmupLR(Optimizer& optimizer, std::shared_ptr<LRScheduler> after,
                   const WarmupLROptions& options)
    : CompositeLR("WarmupLR", optimizer, after ? LRSchedulers{after} : LRSchedulers()),
      o_(options) {
  start();
}

std::vector<LRScheduler*> WarmupLR::active() const {
  return last_epoch_ < o_.warmup_steps ? std::vector<LRScheduler*>() : children();
}

double WarmupLR::next_lr(std::size_t group, double) const {
  if (last_epoch_ >= o_.warmup_steps) return base_lr(group);
  const double done = static_cast<double>(last_epoch_) / static_cast<double>(o_.warmup_steps);
  return base_lr(group) * (o_.start_factor + (1 - o_.start_factor) * done);
}

Fields WarmupLR::fields() {
  return {{"warmup_steps", &o_.warmup_steps, kNonNegative},
          {"start_factor", &o_.start_factor, kUnit}};
}

}  // namespace ferrite::optim
