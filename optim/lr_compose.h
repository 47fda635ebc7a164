// Schedulers made of schedulers, all of one optimizer, which they own together with their caller.
//
//   optim::SequentialLR scheduler(
//       sgd, {std::make_shared<optim::LinearLR>(sgd, optim::LinearLROptions{.total_iters = 5}),
//             std::make_shared<optim::CosineAnnealingLR>(sgd,
//             optim::CosineAnnealingLROptions{95})},
//       {5});
//
// ReduceLROnPlateau, which steps by a metric, cannot be a member (ValueError).
#pragma once

#include <memory>

#include "ferrite/optim/lr_scheduler_base.h"

namespace ferrite::optim {

using LRSchedulers = std::vector<std::shared_ptr<LRScheduler>>;

/// What schedulers made of schedulers share: a step is one of each active member.
class CompositeLR : public LRScheduler {
 public:
  void step() override;

 protected:
  CompositeLR(const char* name, Optimizer& optimizer, LRSchedulers schedulers);

  /// The members that have a part in last_epoch().
  virtual std::vector<LRScheduler*> active() const { return children(); }
  /// Whether they start over in last_epoch(), and whether from the initial rates.
  virtual bool begins() const { return last_epoch_ == 0; }
  virtual bool resets() const { return active()[0]->restarts_from_base(); }

  double next_lr(std::size_t, double lr) const override { return lr; }
  std::vector<LRScheduler*> children() const override;
  void restore() override;
  /// Has members forget the steps that they did by themselves.
  void forget_steps();
  /// The rates that the members have left.
  void note_rates();

  LRSchedulers schedulers_;
};

/// One after another: at each milestone the next begins, from its epoch 0, as PyTorch has it with
/// step(0). ValueError unless there is one milestone less than schedulers, each above the one
/// before.
class SequentialLR final : public CompositeLR {
 public:
  SequentialLR(Optimizer& optimizer, LRSchedulers schedulers, std::vector<std::int64_t> milestones);

 private:
  std::vector<LRScheduler*> active() const override { return {schedulers_[index()].get()}; }
  bool begins() const override {
    return last_epoch_ == (index() > 0 ? milestones_[index() - 1] : 0);
  }
  std::size_t index() const;

  std::vector<std::int64_t> milestones_;
};

/// All in every step, one upon the other: what they do to a rate multiplies.
class ChainedScheduler final : public CompositeLR {
 public:
  explicit ChainedScheduler(const LRSchedulers& schedulers);
};

struct WarmupLROptions {
  std::int64_t warmup_steps;   ///< 0: none
  double start_factor = 1e-3;  ///< from 0 to 1
};
/// base_lr * (start_factor + (1 - start_factor) t / warmup_steps) for warmup_steps steps (Goyal et
/// al. 2017), then `after` from its epoch 0, or the base_lr where there is no such scheduler.
class WarmupLR final : public CompositeLR {
 public:
  WarmupLR(Optimizer& optimizer, std::shared_ptr<LRScheduler> after,
           const WarmupLROptions& options);

 private:
  std::vector<LRScheduler*> active() const override;
  bool begins() const override { return last_epoch_ == o_.warmup_steps; }
  bool resets() const override { return true; }  // the warm-up need not have ended at base_lr
  double next_lr(std::size_t group, double) const override;
  Fields fields() override;

  WarmupLROptions o_;
};

}  // namespace ferrite::optim
