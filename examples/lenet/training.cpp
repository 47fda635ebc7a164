#include "examples/lenet/training.h"

#include <ferrite.h>
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "examples/common/device_use.h"

namespace examples {

using namespace ferrite;

// ---- Meter

Meter::Meter(const Device& device)
    : loss_(zeros({}, {.device = device})),
      correct_(zeros({}, {.dtype = kInt64, .device = device})) {}

void Meter::add(const Tensor& loss, const Tensor& logits, const Tensor& labels) {
  NoGradGuard guard;
  loss_ += loss * logits.size(0);
  correct_ += logits.argmax(1).eq(labels).sum();
}

Metrics Meter::result(std::int64_t images, const Progress& timer) const {
  const auto n = static_cast<double>(std::max<std::int64_t>(images, 1));
  const double loss = loss_.item<double>() / n, accuracy = correct_.item<double>() / n;
  // Only now has the device done all that was queued.
  return {loss, accuracy, static_cast<double>(images) / timer.seconds()};
}

void Meter::reset() {
  loss_.zero_();
  correct_.zero_();
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
      meter_(device),
      step_([this](const Tensor& images, const Tensor& labels) {
        const Tensor logits = model_(images);
        const Tensor loss = cross_entropy(logits, labels);
        optimizer_.zero_grad();
        loss.backward();
        optimizer_.step();
        meter_.add(loss.detach(), logits.detach(), labels);
      }) {
  if (graph) graphed_ = std::make_unique<cuda::GraphedStep<Step>>(model, step_);
}

const cuda::GraphedStepStats* Trainer::graph_stats() const {
  return graphed_ ? &graphed_->stats() : nullptr;
}

Metrics Trainer::epoch(data::DataLoader& loader, const std::string& label) {
  const auto steps = std::min(loader.size(), schedule_.steps - steps_);
  Progress progress(label, steps);
  model_.train();
  meter_.reset();
  std::int64_t done = 0, seen = 0;
  // Nothing in the loop waits for the device but the line of progress, where one is due.
  for (auto& [images, labels] : loader) {
    optimizer_.set_lr(schedule_.at(steps_));
    if (graphed_)
      (*graphed_)(images, labels);
    else
      step_(images, labels);
    seen += images.size(0);
    ++steps_;
    if (++done == steps) break;
    if (progress.due(done)) {
      const Metrics m = meter_.result(seen, progress);
      progress.update(done,
                      fmt::format("loss {:.4f} accuracy {:.3f} {:.0f} images/s", m.loss, m.accuracy,
                                  m.images_per_second),
                      device_use(device_));
    }
  }
  const Metrics m = meter_.result(seen, progress);
  FERRITE_CHECK(std::isfinite(m.loss), ValueError, "lenet",
                "the loss is no longer finite after step {}: lower --lr", steps_);
  const std::string use = device_use(device_);
  progress.finish(fmt::format("{}  train loss {:.4f} accuracy {:.4f}  {:.0f} images/s{}{}", label,
                              m.loss, m.accuracy, m.images_per_second, use.empty() ? "" : "  ",
                              use));
  return m;
}

// ---- Evaluation

Metrics evaluate(nn::Module& model, data::DataLoader& loader, ClassCounts* counts) {
  NoGradGuard guard;
  model.eval();
  Meter meter(loader.options().device);
  const Progress timer("", 1);
  std::int64_t seen = 0;
  for (auto& [images, labels] : loader) {
    const Tensor logits = model(images);
    meter.add(cross_entropy(logits, labels), logits, labels);
    seen += labels.numel();
    if (!counts) continue;
    const auto predicted = logits.argmax(1).to_vector<std::int64_t>();
    const auto expected = labels.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto c = static_cast<std::size_t>(expected[i]);
      ++counts->total[c];
      counts->correct[c] += predicted[i] == expected[i];
    }
  }
  return meter.result(seen, timer);
}

}  // namespace examples
