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
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/averaged_model.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/optimizer.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"

namespace examples {

/// What a pass over a data set found.
struct Metrics {
  double loss = 0, accuracy = 0, images_per_second = 0;
  double waiting_for_data = 0;  ///< part of the time
};

/// "epoch  3/30"
std::string epoch_label(std::int64_t epoch, const Options& options);

/// What is trained, and by what. `ema` may be null, and so may `ddp`, which is called in the place
/// of the model.
struct Training {
  ferrite::nn::Module& model;
  ferrite::optim::Optimizer& optimizer;
  ferrite::optim::amp::Amp& amp;
  ferrite::optim::AveragedModel* ema;
  ferrite::parallel::DistributedDataParallel<>* ddp;
  const ferrite::Device device;
};

/// Takes the steps of a training run. Nothing in one waits for the device; every --print-freq steps
/// the line of progress does.
class Trainer {
 public:
  Trainer(Training training, const Options& options, std::int64_t steps_an_epoch);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// What is left of an epoch (the first is 1). `after_step` is called after each step.
  /// ValueError where so many steps in a row had to be skipped that no more can be hoped for.
  Metrics epoch(std::int64_t epoch, ferrite::data::DataLoader& loader,
                const std::function<void()>& after_step);
  /// To be called by all ranks before the state is saved, and after it was loaded.
  void before_save() { gather(); }
  void after_load();
  /// Adds what a later run needs to go on, but for the model, the optimizer and the loader.
  void add_to(ferrite::data::TrainingState& state);
  std::int64_t steps() const { return steps_; }
  /// The number of the epoch that has the last step.
  std::int64_t last_epoch() const;
  bool finished() const { return steps_ >= total_steps_; }
  /// Steps that were skipped so far. Waits for the device.
  LossGuard::Skipped skipped() const { return guard_.skipped(); }
  /// How often the graph was launched and how often not; null without one.
  const ferrite::nn::GraphedStepStats* graph_stats() const;

 private:
  using Step = std::function<void(const ferrite::Tensor&, const ferrite::Tensor&)>;

  void step(const ferrite::Tensor& images, const ferrite::Tensor& labels);
  ferrite::Tensor forward(const ferrite::Tensor& images, const ferrite::Tensor& labels);
  ferrite::Tensor pass(const ferrite::Tensor& images, const ferrite::Tensor& labels, double share);
  void gather();
  void show(ferrite::metrics::ProgressBar& bar, const std::string& label, std::int64_t done,
            const ferrite::metrics::Throughput& speed);
  void report_skipped(const std::string& label);
  std::vector<ferrite::Tensor> master_weights() const;

  Training training_;
  const Options& options_;
  const std::int64_t steps_an_epoch_, total_steps_, warmup_steps_;
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

/// `loader` must bring its batches to the model's device, and of several ranks each its share of
/// the samples: all get the result of all. `confusion` may be null.
Metrics evaluate(ferrite::nn::Module& model, ferrite::data::DataLoader& loader,
                 ferrite::metrics::ConfusionMatrix* confusion = nullptr);

}  // namespace examples
