#include "ferrite/nn/models/registry.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "ferrite/core/closest.h"
#include "ferrite/nn/models/classic.h"
#include "ferrite/nn/models/mobile.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/nn/models/vision_transformer.h"

namespace ferrite::nn {

namespace {

using Made = std::unique_ptr<Module>;

std::int64_t scaled(std::int64_t channels, const ImageModelOptions& o) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * o.width));
}

/// A class or a function of ResNetOptions.
template <auto Make>
Made resnet(const ImageModelOptions& o) {
  auto net = Make({.classes = o.classes,
                   .in_channels = o.in_channels,
                   .stem = o.small_images ? ResNetStem::small : ResNetStem::standard,
                   .width = scaled(64, o)});
  return std::make_unique<decltype(net)>(std::move(net));
}
template <class Net>
Net construct(const ResNetOptions& options) {
  return Net(options);
}

template <int layers, bool batch_norm>
Made vgg(const ImageModelOptions& o) {
  return std::make_unique<VGG>(layers, VGGOptions{.classes = o.classes,
                                                  .in_channels = o.in_channels,
                                                  .batch_norm = batch_norm,
                                                  .width = scaled(64, o),
                                                  .hidden = scaled(4096, o)});
}

Made alexnet(const ImageModelOptions& o) {
  return std::make_unique<AlexNet>(AlexNetOptions{.classes = o.classes,
                                                  .in_channels = o.in_channels,
                                                  .width = scaled(64, o),
                                                  .hidden = scaled(4096, o)});
}

Made squeezenet(const ImageModelOptions& o) {
  return std::make_unique<SqueezeNet>(
      SqueezeNetOptions{.classes = o.classes, .in_channels = o.in_channels});
}

Made mobilenet_v2(const ImageModelOptions& o) {
  return std::make_unique<MobileNetV2>(MobileNetV2Options{
      .classes = o.classes, .in_channels = o.in_channels, .width_mult = o.width});
}

Made efficientnet_b0(const ImageModelOptions& o) {
  return std::make_unique<EfficientNet>(EfficientNetOptions{
      .classes = o.classes, .in_channels = o.in_channels, .width_mult = o.width});
}

/// The largest size of patches that gives at least 8 a side, for any size of images.
std::int64_t small_patch(std::int64_t image_size) {
  std::int64_t patch = std::max<std::int64_t>(1, image_size / 8);
  while (image_size % patch != 0) --patch;
  return patch;
}

/// Heads keep their 64 features, of which there are fewer or more.
template <int patch_size>
Made vit_b(const ImageModelOptions& o) {
  const std::int64_t heads = scaled(12, o);
  return std::make_unique<VisionTransformer>(VisionTransformerOptions{
      .classes = o.classes,
      .in_channels = o.in_channels,
      .image_size = o.image_size,
      .patch_size = o.small_images ? small_patch(o.image_size) : patch_size,
      .num_heads = heads,
      .hidden_dim = 64 * heads,
      .mlp_dim = 256 * heads});
}

struct NamedMaker {
  const char* name;
  Made (*make)(const ImageModelOptions&);
};

std::span<const NamedMaker> entries() {
  static constexpr NamedMaker all[] = {{"resnet18", resnet<construct<ResNet18>>},
                                       {"resnet34", resnet<construct<ResNet34>>},
                                       {"resnet50", resnet<construct<ResNet50>>},
                                       {"resnet101", resnet<construct<ResNet101>>},
                                       {"resnet152", resnet<construct<ResNet152>>},
                                       {"resnext50_32x4d", resnet<resnext50_32x4d>},
                                       {"resnext101_32x8d", resnet<resnext101_32x8d>},
                                       {"resnext101_64x4d", resnet<resnext101_64x4d>},
                                       {"wide_resnet50_2", resnet<wide_resnet50_2>},
                                       {"wide_resnet101_2", resnet<wide_resnet101_2>},
                                       {"alexnet", alexnet},
                                       {"vgg11", vgg<11, false>},
                                       {"vgg13", vgg<13, false>},
                                       {"vgg16", vgg<16, false>},
                                       {"vgg19", vgg<19, false>},
                                       {"vgg11_bn", vgg<11, true>},
                                       {"vgg13_bn", vgg<13, true>},
                                       {"vgg16_bn", vgg<16, true>},
                                       {"vgg19_bn", vgg<19, true>},
                                       {"squeezenet1_1", squeezenet},
                                       {"mobilenet_v2", mobilenet_v2},
                                       {"efficientnet_b0", efficientnet_b0},
                                       {"vit_b_16", vit_b<16>},
                                       {"vit_b_32", vit_b<32>}};
  return all;
}

}  // namespace

std::vector<std::string> image_model_names() {
  std::vector<std::string> names;
  for (const NamedMaker& e : entries()) names.emplace_back(e.name);
  return names;
}

std::unique_ptr<Module> make_image_model(std::string_view name, const ImageModelOptions& options) {
  for (const NamedMaker& e : entries())
    if (e.name == name) return e.make(options);
  FERRITE_CHECK(false, ValueError, "make_image_model",
                "there is no network '{}'; the closest is '{}'", name,
                closest_names(name, image_model_names()).front());
}

}  // namespace ferrite::nn
