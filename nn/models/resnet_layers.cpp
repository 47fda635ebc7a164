#include "ferrite/nn/models/resnet_layers.h"

#include "ferrite/nn/activation.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/pooling.h"

namespace ferrite::nn {

namespace {

/// A copy of the module that shares its tensors.
std::unique_ptr<Module> on_same_tensors(const Module& module) {
  return module.copy_with([](const Tensor& tensor) { return tensor; });
}

}  // namespace

Sequential resnet_layers(ResNet& net) {
  // Each layer has the mode that it has in the network; layers created here have the network's.
  Sequential layers;
  layers.train(net.is_training());
  const auto add = [&](auto layer) {
    layer.train(net.is_training());
    layers.push_back(std::move(layer));
  };
  Module& stem = net.get_submodule("conv1");
  layers.push_back(on_same_tensors(stem));
  layers.push_back(on_same_tensors(net.get_submodule("bn1")));
  add(ReLU());
  if (dynamic_cast<Conv2d&>(stem).weight.size(2) == 7)  // ResNetStem::standard
    add(MaxPool2d(3, {.stride = 2, .padding = 1}));
  for (const char* stage : {"layer1", "layer2", "layer3", "layer4"})
    for (const Module* block : net.get_submodule(stage).children())
      layers.push_back(on_same_tensors(*block));
  add(AdaptiveAvgPool2d(1));
  add(Flatten());
  layers.push_back(on_same_tensors(net.get_submodule("fc")));
  return layers;
}

}  // namespace ferrite::nn
