#include "ferrite/optim/lr_compose.h"

#include <algorithm>

#include "ferrite/optim/reduce_lr_on_plateau.h"

namespace ferrite::optim {

namespace {

void check_member(const LRScheduler* scheduler, const Optimizer& optimizer, const char* op) {
  FERRITE_CHECK(scheduler, ValueError, op, "expected a scheduler, got null");
  FERRITE_CHECK(&scheduler->optimizer() == &optimizer, ValueError, op,
                "all schedulers must be those of one optimizer; {} belongs to another",
                scheduler->name());
  FERRITE_CHECK(!dynamic_cast<const ReduceLROnPlateau*>(scheduler), ValueError, op,
                "ReduceLROnPlateau steps by a metric, and not with others; step it by itself");
}

LRSchedulers checked(LRSchedulers schedulers, const Optimizer& optimizer, const char* op) {
  for (const auto& s : schedulers) check_member(s.get(), optimizer, op);
  return schedulers;
}

Optimizer& optimizer_of(const LRSchedulers& schedulers, const char* op) {
  FERRITE_CHECK(!schedulers.empty() && schedulers[0], ValueError, op, "expected schedulers");
  return schedulers[0]->optimizer();
}

std::vector<LRScheduler*> pointers(const LRSchedulers& schedulers) {
  std::vector<LRScheduler*> result;
  for (const auto& s : schedulers) result.push_back(s.get());
  return result;
}

}  // namespace

// ---- SequentialLR

SequentialLR::SequentialLR(Optimizer& optimizer, LRSchedulers schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler("SequentialLR", optimizer),
      schedulers_(checked(std::move(schedulers), optimizer, name_)),
      milestones_(std::move(milestones)) {
  FERRITE_CHECK(!schedulers_.empty() && milestones_.size() + 1 == schedulers_.size(), ValueError,
                name_, "expected one milestone less than schedulers, got {} and {}",
                milestones_.size(), schedulers_.size());
  for (std::size_t i = 0; i < milestones_.size(); ++i)
    FERRITE_CHECK(milestones_[i] > (i ? milestones_[i - 1] : 0), ValueError, name_,
                  "expected rising milestones above 0, got {} as number {}", milestones_[i], i);
  reset_to_initial_lr();
  for (const auto& s : schedulers_) s->undo();
  start();
}

std::size_t SequentialLR::active() const {
  return static_cast<std::size_t>(std::ranges::upper_bound(milestones_, last_epoch_) -
                                  milestones_.begin());
}

void SequentialLR::step() {
  check_groups();
  ++last_epoch_;
  ++step_count_;
  const std::size_t i = active();
  if (i > 0 && milestones_[i - 1] == last_epoch_)
    schedulers_[i]->restart();
  else
    schedulers_[i]->step();
  last_lr_ = schedulers_[i]->get_last_lr();
}

std::vector<LRScheduler*> SequentialLR::children() const { return pointers(schedulers_); }

void SequentialLR::undo() {
  --last_epoch_;
  schedulers_[0]->undo();
}

void SequentialLR::initial_step() {
  last_epoch_ = 0;
  step_count_ = 1;
  schedulers_[0]->initial_step();
  last_lr_ = schedulers_[0]->get_last_lr();
}

void SequentialLR::restart() {
  last_epoch_ = 0;
  ++step_count_;
  schedulers_[0]->restart();
  last_lr_ = schedulers_[0]->get_last_lr();
}

void SequentialLR::restore() { schedulers_[active()]->restore(); }

// ---- ChainedScheduler

ChainedScheduler::ChainedScheduler(LRSchedulers schedulers)
    : LRScheduler("ChainedScheduler", optimizer_of(schedulers, "ChainedScheduler")),
      schedulers_(checked(std::move(schedulers), optimizer_, name_)) {
  base_lrs_ = schedulers_[0]->base_lrs();
  // Its members have done their first steps.
  last_epoch_ = 0;
  step_count_ = 1;
  note_rates();
}

void ChainedScheduler::note_rates() {
  last_lr_.resize(num_groups());
  for (std::size_t g = 0; g < num_groups(); ++g) last_lr_[g] = current_lr(g);
}

void ChainedScheduler::step() {
  check_groups();
  ++last_epoch_;
  ++step_count_;
  for (const auto& s : schedulers_) s->step();
  note_rates();
}

std::vector<LRScheduler*> ChainedScheduler::children() const { return pointers(schedulers_); }

void ChainedScheduler::undo() {
  --last_epoch_;
  for (const auto& s : schedulers_) s->undo();
}

void ChainedScheduler::initial_step() {
  last_epoch_ = 0;
  step_count_ = 1;
  for (const auto& s : schedulers_) s->initial_step();
  note_rates();
}

void ChainedScheduler::restart() {
  reset_to_initial_lr();
  for (const auto& s : schedulers_) {
    s->last_epoch_ = 0;
    s->undo();
  }
  initial_step();
}

void ChainedScheduler::restore() {
  for (const auto& s : schedulers_) s->restore();
}

// ---- WarmupLR

WarmupLR::WarmupLR(Optimizer& optimizer, std::shared_ptr<LRScheduler> after,
                   const WarmupLROptions& options)
    : LRScheduler("WarmupLR", optimizer), after_(std::move(after)), o_(options) {
  if (after_) check_member(after_.get(), optimizer, name_);
  FERRITE_CHECK(o_.warmup_steps >= 0, ValueError, name_,
                "expected warmup_steps of 0 or more, got {}", o_.warmup_steps);
  FERRITE_CHECK(o_.start_factor >= 0 && o_.start_factor <= 1, ValueError, name_,
                "expected a start_factor from 0 to 1, got {}", o_.start_factor);
  start();
}

double WarmupLR::chained_lr(std::size_t group) const {
  if (last_epoch_ >= o_.warmup_steps) return base_lr(group);
  const double done = static_cast<double>(last_epoch_) / static_cast<double>(o_.warmup_steps);
  return base_lr(group) * (o_.start_factor + (1 - o_.start_factor) * done);
}

void WarmupLR::initial_step() {
  last_epoch_ = -1;
  LRScheduler::initial_step();
}

void WarmupLR::restart() {
  last_epoch_ = -1;
  step();
}

/// From the whole rate, whatever the warm-up left.
void WarmupLR::begin_after() {
  reset_to_initial_lr();
  after_->last_epoch_ = 0;
  after_->restart();
}

void WarmupLR::step() {
  if (last_epoch_ + 1 < o_.warmup_steps || !after_) return LRScheduler::step();
  check_groups();
  ++last_epoch_;
  ++step_count_;
  if (last_epoch_ == o_.warmup_steps)
    begin_after();
  else
    after_->step();
  last_lr_ = after_->get_last_lr();
}

std::vector<LRScheduler::Field> WarmupLR::fields() {
  return {{"warmup_steps", &o_.warmup_steps}, {"start_factor", &o_.start_factor}};
}

std::vector<LRScheduler*> WarmupLR::children() const {
  if (after_) return {after_.get()};
  return {};
}

void WarmupLR::restore() {
  if (after_ && last_epoch_ >= o_.warmup_steps)
    after_->restore();
  else
    LRScheduler::restore();
}

}  // namespace ferrite::optim
