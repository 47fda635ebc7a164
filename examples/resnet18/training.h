// Training and evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/core/profiler/profile.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/training_state.h"
#include "ferrite/examples/common/loss_guard.h"
#include "ferrite/examples/resnet18/options.h"
#include "ferrite/metrics/accuracy.h"
#include "ferrite/metrics/average_meter.h"
#include "ferrite/metrics/confusion_matrix.h"
#include "ferrite/metrics/progress_bar.h"
#include "ferrite/metrics/timer.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/module.h"
#include "ferrite/ops/mixup.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/averaged_model.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/optimizer.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"

namespace examples::resnet18 {

/// The results of a pass over a data set.
struct Metrics {
  double loss = 0, accuracy = 0, images_per_second = 0;
  double waiting_for_data = 0;  ///< fraction of the time
};

/// "epoch  3/30"
std::string epoch_label(std::int64_t epoch, const Options& options);

/// The objects of a training run. `ema` and `ddp` may be null; if `ddp` is not, it is called
/// instead of the model.
struct Training {
  ferrite::nn::Module& model;
  ferrite::optim::Optimizer& optimizer;
  ferrite::optim::amp::Amp& amp;
  ferrite::optim::AveragedModel* ema;
  ferrite::parallel::DistributedDataParallel<>* ddp;
  const ferrite::Device device;
};

/// Performs the steps of a training run. Steps do not wait for the device; only the progress line
/// does, every --print-freq steps.
class Trainer {
 public:
  Trainer(Training training, const Options& options, std::int64_t steps_an_epoch,
          std::int64_t classes);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains the rest of an epoch (the first is 1). `after_step` is called after each step.
  /// ValueError after too many consecutive skipped steps.
  Metrics epoch(std::int64_t epoch, ferrite::data::DataLoader<>& loader,
                const std::function<void()>& after_step);
  /// All ranks must call these: before the state is saved, and after it was loaded.
  void before_save() { gather(); }
  void after_load();
  /// Adds the state that a later run needs to continue, except for the model, the optimizer and the
  /// loader.
  void add_to(ferrite::data::TrainingState& state);
  std::int64_t steps() const { return steps_; }
  /// The number of the epoch that contains the last step.
  std::int64_t last_epoch() const;
  bool finished() const { return steps_ >= total_steps_; }
  /// The steps skipped so far. Waits for the device.
  LossGuard::Skipped skipped() const { return guard_.skipped(); }
  /// The numbers of replayed and eager steps; null without a graph.
  const ferrite::nn::GraphedStepStats* graph_stats() const;

 private:
  using Step = std::function<void(const ferrite::Tensor&, const ferrite::Tensor&)>;

  void step(const ferrite::Tensor& images, const ferrite::Tensor& labels);
  ferrite::Tensor forward(const ferrite::Tensor& images, const ferrite::Tensor& labels);
  ferrite::Tensor pass(const ferrite::Tensor& images, const ferrite::Tensor& labels, double share);
  ferrite::MixedBatch mixed(const ferrite::data::Batch& batch) const;
  void gather();
  void show(ferrite::metrics::ProgressBar& bar, const std::string& label, std::int64_t done,
            const ferrite::metrics::Throughput& speed);
  void report_skipped(ferrite::metrics::ProgressBar& bar, const std::string& label);
  std::vector<ferrite::Tensor> master_weights() const;

  Training training_;
  const Options& options_;
  const std::int64_t steps_an_epoch_, total_steps_, warmup_steps_, classes_;
  std::int64_t steps_ = 0, skipped_ = 0;
  std::unique_ptr<ferrite::optim::LRScheduler> scheduler_;  // steps with the optimizer
  LossGuard guard_;
  ferrite::metrics::DeviceAverageMeter loss_;  // the same on all ranks
  ferrite::metrics::Accuracy accuracy_;        // this rank's,
  ferrite::metrics::Accuracy gathered_;        // and all ranks', as of the last gather()
  Step step_;
  std::unique_ptr<ferrite::nn::GraphedStep<Step>> graphed_;
  std::unique_ptr<ferrite::profiler::Profile> profile_;  // null without --profile
};

/// `loader` must deliver its batches on the model's device and, with several ranks, this rank's
/// share of the samples; all ranks get the result over all shares. `confusion` may be null.
Metrics evaluate(ferrite::nn::Module& model, ferrite::data::DataLoader<>& loader,
                 ferrite::metrics::ConfusionMatrix* confusion = nullptr);

}  // namespace examples::resnet18
