#include "ferrite/examples/resnet18/model.h"

#include <algorithm>

#include "ferrite/core/error.h"
#include "ferrite/nn/models/resnet.h"

namespace examples {

using namespace ferrite;

std::unique_ptr<nn::Module> make_model(const Options& options, std::int64_t channels,
                                       std::int64_t classes) {
  const nn::ResNetOptions network{
      .classes = classes,
      .in_channels = channels,
      .stem = options.stem == "small" ? nn::ResNetStem::small : nn::ResNetStem::standard,
      .width = options.width};
  if (options.model == "resnet34") return std::make_unique<nn::ResNet34>(network);
  if (options.model == "resnet50") return std::make_unique<nn::ResNet50>(network);
  FERRITE_CHECK(options.model == "resnet18", ValueError, "model",
                "expected resnet18, resnet34 or resnet50, got '{}'", options.model);
  return std::make_unique<nn::ResNet18>(network);
}

std::vector<Tensor> trainable(const nn::Module& model) {
  std::vector<Tensor> parameters;
  for (const Tensor& p : model.parameters())
    if (p.requires_grad()) parameters.push_back(p);
  FERRITE_CHECK(!parameters.empty(), ValueError, "--freeze",
                "all parameters are frozen: there is nothing to train");
  return parameters;
}

optim::amp::Options precision(const Options& options) {
  optim::amp::Options amp{.opt_level = optim::amp::opt_level(options.opt_level),
                          .dtype = options.half == "bfloat16" ? kBFloat16 : kFloat16,
                          .keep_batchnorm_fp32 = options.keep_batchnorm_fp32};
  if (!options.loss_scale.empty()) amp.loss_scale = optim::amp::LossScale(options.loss_scale);
  return amp;
}

void set_training(nn::Module& model) {
  model.train();
  for (nn::Module* module : model.modules()) {
    if (dynamic_cast<nn::BatchNorm*>(module) == nullptr) continue;
    if (module->num_parameters() > 0 && module->num_trainable_parameters() == 0) module->eval();
  }
}

}  // namespace examples
