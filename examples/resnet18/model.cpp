#include "ferrite/examples/resnet18/model.h"

#include <algorithm>

#include "ferrite/core/error.h"
#include "ferrite/nn/models/registry.h"

namespace examples::resnet18 {

using namespace ferrite;

std::unique_ptr<nn::Module> make_model(const Options& options, const Shape& image,
                                       std::int64_t classes) {
  return nn::make_image_model(options.model, {.classes = classes,
                                              .in_channels = image[0],
                                              .image_size = image[1],
                                              .small_images = options.stem == "small",
                                              .width = static_cast<double>(options.width) / 64});
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

}  // namespace examples::resnet18
