// Training and evaluation, an epoch at a time.
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

namespace examples {

/// What a pass over a data set found.
struct Metrics {
  double loss = 0, accuracy = 0, images_per_second = 0;
  double waiting_for_data = 0;  ///< part of the time
};

/// Sums over batches, kept on the device, so that no training step waits for them.
struct Meters {
  explicit Meters(const ferrite::Device& device) : loss(device), accuracy(device) {}

  void update(const ferrite::Tensor& loss, const ferrite::Tensor& logits,
              const ferrite::Tensor& labels);
  /// Means, and how long so many images took; waits for the device.
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

/// Takes the steps of a training run.
class Trainer {
 public:
  /// `graph`: each step is one launch of a CUDA graph, once the first have run.
  Trainer(ferrite::nn::Module& model, ferrite::optim::Optimizer& optimizer, Schedule schedule,
          const ferrite::Device& device, bool graph);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// One pass, or what is left of the schedule's steps. ValueError where the loss is not finite.
  Metrics epoch(ferrite::data::DataLoader& loader, const std::string& label);
  /// Every step from here on is a step of `profile`, unless it is null.
  void set_profile(std::unique_ptr<ferrite::profiler::Profile> profile) {
    profile_ = std::move(profile);
  }
  std::int64_t steps() const { return steps_; }
  bool finished() const { return steps_ >= schedule_.steps; }
  /// How often the graph was launched and how often not; null without one.
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

/// `loader` must bring its batches to the model's device.
Metrics evaluate(ferrite::nn::Module& model, ferrite::data::DataLoader& loader,
                 ferrite::metrics::ConfusionMatrix* confusion = nullptr);

}  // namespace examples
