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

/// One after another: at each milestone the next begins, from its epoch 0, as PyTorch has it with
/// step(0). ValueError unless there is one milestone less than schedulers, each above the one
/// before.
class SequentialLR final : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, LRSchedulers schedulers, std::vector<std::int64_t> milestones);
  void step() override;

 private:
  double chained_lr(std::size_t group) const override { return current_lr(group); }
  std::vector<LRScheduler*> children() const override;
  void undo() override;
  void initial_step() override;
  void restart() override;
  void restore() override;
  std::size_t active() const;

  LRSchedulers schedulers_;
  std::vector<std::int64_t> milestones_;
};

/// All in every step, one upon the other: what they do to a rate multiplies.
class ChainedScheduler final : public LRScheduler {
 public:
  explicit ChainedScheduler(LRSchedulers schedulers);
  void step() override;

 private:
  double chained_lr(std::size_t group) const override { return current_lr(group); }
  std::vector<LRScheduler*> children() const override;
  void undo() override;
  void initial_step() override;
  void restart() override;
  void restore() override;
  void note_rates();

  LRSchedulers schedulers_;
};

struct WarmupLROptions {
  std::int64_t warmup_steps;   ///< 0: none
  double start_factor = 1e-3;  ///< from 0 to 1
};
/// base_lr * (start_factor + (1 - start_factor) t / warmup_steps) for warmup_steps steps (Goyal et
/// al. 2017), then `after` from its epoch 0, or the base_lr where there is no such scheduler.
class WarmupLR final : public LRScheduler {
 public:
  WarmupLR(Optimizer& optimizer, std::shared_ptr<LRScheduler> after,
           const WarmupLROptions& options);
  void step() override;

 private:
  double chained_lr(std::size_t group) const override;
  std::vector<Field> fields() override;
  std::vector<LRScheduler*> children() const override;
  void initial_step() override;
  void restart() override;
  void restore() override;
  void begin_after();

  std::shared_ptr<LRScheduler> after_;
  WarmupLROptions o_;
};

}  // namespace ferrite::optim
