// Training and evaluation, one epoch at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "ferrite/core/profiler/profile.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/metrics/accuracy.h"
#include "ferrite/metrics/average_meter.h"
#include "ferrite/metrics/confusion_matrix.h"
#include "ferrite/metrics/timer.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/module.h"
#include "ferrite/optim/optimizer.h"

namespace examples::lenet {

/// The results of a pass over a data set.
struct Metrics {
  double loss = 0, accuracy = 0, images_per_second = 0;
  double waiting_for_data = 0;  ///< fraction of the time
};

/// Sums over batches, kept on the device, so that no training step waits for them.
struct Meters {
  explicit Meters(const ferrite::Device& device) : loss(device), accuracy(device) {}

  void update(const ferrite::Tensor& loss, const ferrite::Tensor& logits,
              const ferrite::Tensor& labels);
  /// The means, and the throughput for `images` images; waits for the device.
  Metrics result(std::int64_t images, const ferrite::metrics::Timer& timer) const;
  void reset();

  ferrite::metrics::DeviceAverageMeter loss;
  ferrite::metrics::Accuracy accuracy;
};

/// The learning rate: constant, or half a cosine to zero over all steps.
struct Schedule {
  double lr = 0;
  bool cosine = false;
  std::int64_t steps = 0;

  double at(std::int64_t step) const;
};

/// Performs the steps of a training run.
class Trainer {
 public:
  /// `graph`: whether each step, after the first few, is one launch of a CUDA graph.
  Trainer(ferrite::nn::Module& model, ferrite::optim::Optimizer& optimizer, Schedule schedule,
          const ferrite::Device& device, bool graph);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// One pass over the data, or fewer steps if the schedule ends. ValueError if the loss is not
  /// finite.
  Metrics epoch(ferrite::data::DataLoader<>& loader, const std::string& label);
  /// Counts every later step as a step of `profile`, unless that is null.
  void set_profile(std::unique_ptr<ferrite::profiler::Profile> profile) {
    profile_ = std::move(profile);
  }
  std::int64_t steps() const { return steps_; }
  bool finished() const { return steps_ >= schedule_.steps; }
  /// The numbers of replayed and eager steps; null without a graph.
  const ferrite::nn::GraphedStepStats* graph_stats() const;

 private:
  /// Waits for the device.
  void print_first_step() const;

  using Step = std::function<void(const ferrite::Tensor&, const ferrite::Tensor&)>;

  ferrite::nn::Module& model_;
  ferrite::optim::Optimizer& optimizer_;
  const Schedule schedule_;
  const ferrite::Device device_;
  Meters meters_;
  Step step_;
  std::unique_ptr<ferrite::nn::GraphedStep<Step>> graphed_;
  std::int64_t steps_ = 0;
  std::unique_ptr<ferrite::profiler::Profile> profile_;
};

/// `loader` must deliver its batches on the model's device.
Metrics evaluate(ferrite::nn::Module& model, ferrite::data::DataLoader<>& loader,
                 ferrite::metrics::ConfusionMatrix* confusion = nullptr);

}  // namespace examples::lenet
