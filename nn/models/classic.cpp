#include "ferrite/nn/models/classic.h"

#include <array>
#include <cmath>

#include "ferrite/nn/fused.h"
#include "ferrite/nn/init.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"
#include "ferrite/ops/concat.h"

namespace ferrite::nn {

namespace {

template <class Options>
const Options& checked_sizes(const Options& o, const char* op) {
  bool fine = o.classes > 0 && o.in_channels > 0;
  if constexpr (requires { o.hidden; }) fine = fine && o.width > 0 && o.hidden > 0;
  FERRITE_CHECK(fine, ValueError, op, "expected sizes above 0, got {} classes, {} channels in",
                o.classes, o.in_channels);
  return o;
}

Sequential alexnet_features(const AlexNetOptions& o) {
  const std::int64_t w = o.width;
  Sequential f;
  f.push_back(Conv2d(o.in_channels, w, 11, {.stride = 4, .padding = 2}));
  f.push_back(ReLU());
  f.push_back(MaxPool2d(3, 2));
  f.push_back(Conv2d(w, 3 * w, 5, {.padding = 2}));
  f.push_back(ReLU());
  f.push_back(MaxPool2d(3, 2));
  for (const auto& [in, out] : {std::pair(3 * w, 6 * w), {6 * w, 4 * w}, {4 * w, 4 * w}}) {
    f.push_back(Conv2d(in, out, 3, {.padding = 1}));
    f.push_back(ReLU());
  }
  f.push_back(MaxPool2d(3, 2));
  return f;
}

/// The stages of a network of that many layers, as numbers of convolutions.
std::array<int, 5> vgg_stages(int layers) {
  switch (layers) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      FERRITE_CHECK(false, ValueError, "VGG", "expected 11, 13, 16 or 19 layers, got {}", layers);
  }
}

Sequential vgg_features(int layers, const VGGOptions& o) {
  Sequential f;
  std::int64_t in = o.in_channels, out = o.width;
  for (const int count : vgg_stages(layers)) {
    for (int i = 0; i < count; ++i) {
      Conv2d& conv = f.push_back(Conv2d(in, out, 3, {.padding = 1}));
      init::kaiming_normal_(conv.weight, 0, init::FanMode::fan_out, init::Nonlinearity::relu);
      init::zeros_(conv.bias);
      if (o.batch_norm) f.push_back(BatchNorm2d(out));
      f.push_back(ReLU());
      in = out;
    }
    f.push_back(MaxPool2d(2));
    out = std::min(2 * out, 8 * o.width);
  }
  return f;
}

Sequential vgg_classifier(const VGGOptions& o) {
  Sequential c(Linear(8 * o.width * 7 * 7, o.hidden), ReLU(), Dropout(o.dropout),
               Linear(o.hidden, o.hidden), ReLU(), Dropout(o.dropout), Linear(o.hidden, o.classes));
  c.apply<Linear>([](Linear& linear) {
    init::normal_(linear.weight, 0, 0.01);
    init::zeros_(linear.bias);
  });
  return c;
}

}  // namespace

FeatureNet::FeatureNet(Sequential given_features, Pair pooled, Sequential given_classifier)
    : features(std::move(given_features)),
      avgpool(pooled),
      classifier(std::move(given_classifier)) {
  register_module("features", features);
  register_module("avgpool", avgpool);
  register_module("classifier", classifier);
}

Tensor FeatureNet::forward(const Tensor& input) {
  return classifier(avgpool(features(input)).flatten(1));
}

AlexNet::AlexNet(const AlexNetOptions& o)
    : Cloneable{alexnet_features(checked_sizes(o, "AlexNet")), 6,
                Sequential(Dropout(o.dropout), Linear(4 * o.width * 6 * 6, o.hidden), ReLU(),
                           Dropout(o.dropout), Linear(o.hidden, o.hidden), ReLU(),
                           Linear(o.hidden, o.classes))} {}

VGG::VGG(int layers, const VGGOptions& o)
    : Cloneable{vgg_features(layers, checked_sizes(o, "VGG")), 7, vgg_classifier(o)} {}

Fire::Fire(std::int64_t in_channels, std::int64_t squeezed, std::int64_t expanded)
    : squeeze(in_channels, squeezed, 1),
      expand1x1(squeezed, expanded, 1),
      expand3x3(squeezed, expanded, 3, {.padding = 1}) {
  register_module("squeeze", squeeze);
  register_module("squeeze_activation", squeeze_activation);
  register_module("expand1x1", expand1x1);
  register_module("expand1x1_activation", expand1x1_activation);
  register_module("expand3x3", expand3x3);
  register_module("expand3x3_activation", expand3x3_activation);
}

Tensor Fire::forward(const Tensor& input) {
  const auto both = [](Conv2d& conv, ReLU& relu, const Tensor& x) {
    const std::array<Module*, 2> layers = {&conv, &relu};
    return run_in_order(layers, x);
  };
  const Tensor x = both(squeeze, squeeze_activation, input);
  return cat({both(expand1x1, expand1x1_activation, x), both(expand3x3, expand3x3_activation, x)},
             1);
}

SqueezeNet::SqueezeNet(const SqueezeNetOptions& o) {
  checked_sizes(o, "SqueezeNet");
  const auto pool = [&] {
    features.push_back(MaxPool2d(3, MaxPool2dOptions{.stride = 2, .ceil_mode = true}));
  };
  features.push_back(Conv2d(o.in_channels, 64, 3, {.stride = 2}));
  features.push_back(ReLU());
  pool();
  features.push_back(Fire(64, 16, 64));
  features.push_back(Fire(128, 16, 64));
  pool();
  features.push_back(Fire(128, 32, 128));
  features.push_back(Fire(256, 32, 128));
  pool();
  features.push_back(Fire(256, 48, 192));
  features.push_back(Fire(384, 48, 192));
  features.push_back(Fire(384, 64, 256));
  features.push_back(Fire(512, 64, 256));
  classifier.push_back(Dropout(o.dropout));
  Conv2d& last = classifier.push_back(Conv2d(512, o.classes, 1));
  classifier.push_back(ReLU());
  classifier.push_back(AdaptiveAvgPool2d(1));
  register_module("features", features);
  register_module("classifier", classifier);
  apply<Conv2d>([](Conv2d& conv) {
    init::kaiming_uniform_(conv.weight);
    init::zeros_(conv.bias);
  });
  init::normal_(last.weight, 0, 0.01);
}

Tensor SqueezeNet::forward(const Tensor& input) { return classifier(features(input)).flatten(1); }

}  // namespace ferrite::nn
