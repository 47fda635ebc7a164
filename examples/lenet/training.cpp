#include "ferrite/examples/lenet/training.h"

#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <numbers>

#include "ferrite/examples/common/device_use.h"
#include "ferrite/examples/common/training_options.h"

namespace examples::lenet {

using namespace ferrite;

// ---- Meters

void Meters::update(const Tensor& loss_of_batch, const Tensor& logits, const Tensor& labels) {
  loss.update(loss_of_batch, logits.size(0));
  accuracy.update(logits, labels);
}

Metrics Meters::result(std::int64_t images, const metrics::Timer& timer) const {
  const double mean_loss = loss.value().avg(), right = accuracy.value();
  // Reading the results waits for all queued work of the device.
  return {.loss = mean_loss,
          .accuracy = right,
          .images_per_second = static_cast<double>(images) / timer.seconds()};
}

void Meters::reset() {
  loss.reset();
  accuracy.reset();
}

// ---- Trainer

double Schedule::at(std::int64_t step) const {
  if (!cosine) return lr;
  const double progress = static_cast<double>(step) / static_cast<double>(steps);
  return 0.5 * lr * (1 + std::cos(std::numbers::pi * progress));
}

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, Schedule schedule,
                 const Device& device, bool graph)
    : model_(model),
      optimizer_(optimizer),
      schedule_(schedule),
      device_(device),
      meters_(device),
      step_([this](const Tensor& images, const Tensor& labels) {
        const Tensor logits = model_(images);
        const Tensor loss = cross_entropy(logits, labels);
        optimizer_.zero_grad();
        loss.backward();
        optimizer_.step();
        meters_.update(loss, logits, labels);
      }) {
  if (graph) graphed_ = std::make_unique<nn::GraphedStep<Step>>(model, step_);
}

const nn::GraphedStepStats* Trainer::graph_stats() const {
  return graphed_ ? &graphed_->stats() : nullptr;
}

void Trainer::print_first_step() const {
  synchronize(device_);
  fmt::print("first step done after {:.3f} s\n", seconds_since_start());
  std::fflush(stdout);
}

Metrics Trainer::epoch(data::DataLoader<>& loader, const std::string& label) {
  const auto steps = std::min(loader.size(), schedule_.steps - steps_);
  metrics::ProgressBar progress(label, steps);
  const metrics::Timer timer;
  const double waited = loader.seconds_waited();
  model_.train();
  meters_.reset();
  std::int64_t done = 0, seen = 0;
  // In the loop, only the progress line and the run's first step wait for the device.
  for (auto& [images, labels] : loader) {
    optimizer_.set_lr(schedule_.at(steps_));
    if (graphed_)
      (*graphed_)(images, labels);
    else
      step_(images, labels);
    seen += images.size(0);
    if (++steps_ == 1) print_first_step();
    if (profile_) profile_->step();
    if (++done == steps) break;
    if (progress.due(done)) {
      const Metrics m = meters_.result(seen, timer);
      progress.update(done,
                      fmt::format("loss {:.4f} accuracy {:.3f} {:.0f} images/s", m.loss, m.accuracy,
                                  m.images_per_second),
                      device_use(device_));
    }
  }
  Metrics m = meters_.result(seen, timer);
  m.waiting_for_data = (loader.seconds_waited() - waited) / timer.seconds();
  FERRITE_CHECK(std::isfinite(m.loss), ValueError, "lenet",
                "the loss is no longer finite after step {}: lower --lr", steps_);
  const std::string use = device_use(device_);
  progress.finish(metrics::train_line(
      label, m.loss, m.accuracy,
      fmt::format("{:.0f} images/s, waiting for data {:.1f} %{}{}", m.images_per_second,
                  100 * m.waiting_for_data, use.empty() ? "" : "  ", use)));
  return m;
}

// ---- Evaluation

Metrics evaluate(nn::Module& model, data::DataLoader<>& loader,
                 metrics::ConfusionMatrix* confusion) {
  NoGradGuard guard;
  model.eval();
  Meters meters(loader.options().device);
  const metrics::Timer timer;
  std::int64_t seen = 0;
  for (auto& [images, labels] : loader) {
    const Tensor logits = model(images);
    meters.update(cross_entropy(logits, labels), logits, labels);
    if (confusion) confusion->update(logits, labels);
    seen += labels.numel();
  }
  return meters.result(seen, timer);
}

}  // namespace examples::lenet
