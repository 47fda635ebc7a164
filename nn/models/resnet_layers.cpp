#include "ferrite/nn/models/resnet_layers.h"

#include "ferrite/nn/linear.h"

namespace ferrite::nn {

namespace {

/// A copy of the module that shares its tensors.
std::unique_ptr<Module> on_same_tensors(const Module& module) {
  return module.copy_with([](const Tensor& tensor) { return tensor; });
}

}  // namespace

Sequential resnet_layers(ResNet& net) {
  Sequential layers;
  layers.train(net.is_training());
  for (const auto& [name, layer] : net.named_children()) {
    if (name == "fc") layers.push_back(Flatten()).train(net.is_training());
    if (!name.starts_with("layer")) {
      layers.push_back(on_same_tensors(*layer));
    } else {
      for (const Module* block : layer->children()) layers.push_back(on_same_tensors(*block));
    }
  }
  return layers;
}

}  // namespace ferrite::nn
