// The training steps whose launches are counted: forward, cross entropy, backward, SGD with
// momentum, at an opt level of optim/amp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/sgd.h"

namespace bench {

struct StepOptions {
  std::string model = "resnet18";  ///< or "resnet50", or "lenet5"
  std::int64_t batch = 128;
  std::int64_t image_size = 224;
  std::string opt_level = "O2";
  bool channels_last = false;
  bool graphed = false;                     ///< the whole step as one graph
  std::int64_t width = 64, classes = 1000;  ///< of residual networks
};

/// A step on one batch, which stays on the device.
class TrainingStep {
 public:
  explicit TrainingStep(const StepOptions& options, const ferrite::Device& device = "cuda:0")
      : model_(make_model(options)),
        images_(make_images(options)),
        labels_(ferrite::randint(0, 10, {options.batch}).to(device)) {
    const ferrite::MemoryFormat format =
        options.channels_last ? ferrite::kChannelsLast : ferrite::kContiguous;
    model_->to(device).to(format);
    images_ = images_.contiguous(format).to(device);
    sgd_.emplace(model_->parameters(), ferrite::optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
    amp_.emplace(ferrite::optim::amp::initialize(
        *model_, *sgd_,
        ferrite::optim::amp::Options{.opt_level = options.opt_level,
                                     .enabled = options.opt_level != "O0"}));
    if (!options.graphed) return;
    graphed_.emplace(
        *model_, [this](const ferrite::Tensor& x, const ferrite::Tensor& y) { return step(x, y); },
        ferrite::nn::GraphedStepOptions{.static_outputs = true});
  }
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// Queues a step and waits for it.
  void operator()() {
    if (graphed_)
      (*graphed_)(images_, labels_);
    else
      step(images_, labels_);
    ferrite::synchronize(images_.device());
  }
  /// Steps until plans, states and, if there is one, the graph have been made.
  void warm_up() {
    for (int i = 0; i < (graphed_ ? 5 : 2); ++i) (*this)();
  }

 private:
  static std::unique_ptr<ferrite::nn::Module> make_model(const StepOptions& o) {
    ferrite::manual_seed(0);
    const std::string& name = o.model;
    const ferrite::nn::ResNetOptions network{.classes = o.classes, .width = o.width};
    if (name == "lenet5") return std::make_unique<ferrite::nn::LeNet5>();
    if (name == "resnet18") return std::make_unique<ferrite::nn::ResNet18>(network);
    FERRITE_CHECK(name == "resnet50", ferrite::ValueError, "ledger", "no model '{}'", name);
    return std::make_unique<ferrite::nn::ResNet50>(network);
  }
  static ferrite::Tensor make_images(const StepOptions& o) {
    const bool lenet = o.model == "lenet5";
    const std::int64_t size = lenet ? 28 : o.image_size;
    return ferrite::randn({o.batch, lenet ? 1 : 3, size, size});
  }

  ferrite::Tensor step(const ferrite::Tensor& images, const ferrite::Tensor& labels) {
    const ferrite::Tensor loss = ferrite::cross_entropy((*model_)(images), labels);
    sgd_->zero_grad(/*set_to_none=*/true);
    amp_->scale(loss).backward();
    amp_->step(*sgd_);
    return loss.detach();
  }

  using Step = std::function<ferrite::Tensor(const ferrite::Tensor&, const ferrite::Tensor&)>;

  std::unique_ptr<ferrite::nn::Module> model_;
  ferrite::Tensor images_, labels_;
  std::optional<ferrite::optim::SGD> sgd_;
  std::optional<ferrite::optim::amp::Amp> amp_;
  std::optional<ferrite::nn::GraphedStep<Step>> graphed_;
};

}  // namespace bench
