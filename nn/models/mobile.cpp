#include "ferrite/nn/models/mobile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ferrite/nn/init.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"

namespace ferrite::nn {

namespace {

template <class Options>
const Options& checked_scale(const Options& o, const char* op) {
  bool fine = o.classes > 0 && o.in_channels > 0 && o.width_mult > 0;
  if constexpr (requires { o.depth_mult; }) fine = fine && o.depth_mult > 0;
  FERRITE_CHECK(fine, ValueError, op,
                "expected sizes above 0, got {} classes, {} channels in and a width of {}",
                o.classes, o.in_channels, o.width_mult);
  return o;
}

/// The nearest multiple of 8 that is not below 0.9 times the number.
std::int64_t multiple_of_8(double channels) {
  const auto nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

/// A convolution that keeps the size, up to the stride, its norm, and an activation.
template <class Activation>
Sequential conv_norm(std::int64_t in, std::int64_t out, std::int64_t kernel,
                     std::int64_t stride = 1, std::int64_t groups = 1) {
  return Sequential(
      Conv2d(in, out, kernel,
             {.stride = stride, .padding = (kernel - 1) / 2, .groups = groups, .bias = false}),
      BatchNorm2d(out), Activation());
}

void initialize_convolutions(Module& net) {
  net.apply<Conv2d>([](Conv2d& conv) {
    init::kaiming_normal_(conv.weight, 0, init::FanMode::fan_out);
    if (conv.bias.defined()) init::zeros_(conv.bias);
  });
}

/// The input is added to the output where their shapes are the same.
class InvertedResidual : public Cloneable<InvertedResidual> {
 public:
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion)
      : adds_input_(stride == 1 && in == out) {
    const std::int64_t hidden = in * expansion;
    if (expansion != 1) conv.push_back(conv_norm<ReLU6>(in, hidden, 1));
    conv.push_back(conv_norm<ReLU6>(hidden, hidden, 3, stride, hidden));
    conv.push_back(Conv2d(hidden, out, 1, {.bias = false}));
    conv.push_back(BatchNorm2d(out));
    register_module("conv", conv);
  }
  Tensor forward(const Tensor& input) override {
    return adds_input_ ? input + conv(input) : conv(input);
  }

  Sequential conv;

 private:
  bool adds_input_;
};

struct MBConvOptions {
  std::int64_t expansion, kernel, stride, in, out;
  double stochastic_depth;
};

class MBConv : public Cloneable<MBConv> {
 public:
  explicit MBConv(const MBConvOptions& o)
      : stochastic_depth(o.stochastic_depth), adds_input_(o.stride == 1 && o.in == o.out) {
    const std::int64_t hidden = o.in * o.expansion;
    if (o.expansion != 1) block.push_back(conv_norm<SiLU>(o.in, hidden, 1));
    block.push_back(conv_norm<SiLU>(hidden, hidden, o.kernel, o.stride, hidden));
    block.push_back(SqueezeExcitation(hidden, std::max<std::int64_t>(1, o.in / 4)));
    block.push_back(Sequential(Conv2d(hidden, o.out, 1, {.bias = false}), BatchNorm2d(o.out)));
    register_module("block", block);
    register_module("stochastic_depth", stochastic_depth);
  }
  Tensor forward(const Tensor& input) override {
    const Tensor out = block(input);
    return adds_input_ ? stochastic_depth(out) + input : out;
  }

  Sequential block;
  StochasticDepth stochastic_depth;

 private:
  bool adds_input_;
};

struct Stage {
  std::int64_t expansion, kernel, stride, out, layers;
};

}  // namespace

StochasticDepth::StochasticDepth(double p) : p_(p) {
  FERRITE_CHECK(p >= 0 && p <= 1, ValueError, "StochasticDepth",
                "expected a probability of 0 to 1, got {}", p);
}

Tensor StochasticDepth::forward(const Tensor& input) {
  if (!is_training() || p_ == 0) return input;
  Shape shape = input.shape();
  for (int d = 1; d < input.dim(); ++d) shape[d] = 1;
  const Tensor kept = empty(shape, input.options()).bernoulli_(1 - p_);
  return input * (p_ < 1 ? kept / (1 - p_) : kept);
}

std::string StochasticDepth::extra_repr() const { return fmt::format("p={:g}, mode=row", p_); }

MobileNetV2::MobileNetV2(const MobileNetV2Options& o) {
  checked_scale(o, "MobileNetV2");
  constexpr std::array<Stage, 7> kStages = {{{1, 3, 1, 16, 1},
                                             {6, 3, 2, 24, 2},
                                             {6, 3, 2, 32, 3},
                                             {6, 3, 2, 64, 4},
                                             {6, 3, 1, 96, 3},
                                             {6, 3, 2, 160, 3},
                                             {6, 3, 1, 320, 1}}};
  std::int64_t in = multiple_of_8(32 * o.width_mult);
  features.push_back(conv_norm<ReLU6>(o.in_channels, in, 3, 2));
  for (const Stage& s : kStages) {
    const std::int64_t out = multiple_of_8(static_cast<double>(s.out) * o.width_mult);
    for (std::int64_t i = 0; i < s.layers; ++i, in = out)
      features.push_back(InvertedResidual(in, out, i == 0 ? s.stride : 1, s.expansion));
  }
  const std::int64_t last = multiple_of_8(1280 * std::max(1.0, o.width_mult));
  features.push_back(conv_norm<ReLU6>(in, last, 1));
  classifier.push_back(Dropout(o.dropout));
  Linear& linear = classifier.push_back(Linear(last, o.classes));
  register_module("features", features);
  register_module("classifier", classifier);
  initialize_convolutions(*this);
  init::normal_(linear.weight, 0, 0.01);
  init::zeros_(linear.bias);
}

Tensor MobileNetV2::forward(const Tensor& input) {
  return classifier(adaptive_avg_pool2d(features(input), 1).flatten(1));
}

SqueezeExcitation::SqueezeExcitation(std::int64_t channels, std::int64_t squeezed)
    : avgpool(1), fc1(channels, squeezed, 1), fc2(squeezed, channels, 1) {
  register_module("avgpool", avgpool);
  register_module("fc1", fc1);
  register_module("fc2", fc2);
  register_module("activation", activation);
  register_module("scale_activation", scale_activation);
}

Tensor SqueezeExcitation::forward(const Tensor& input) {
  return input * scale_activation(fc2(activation(fc1(avgpool(input)))));
}

EfficientNet::EfficientNet(const EfficientNetOptions& o) : avgpool(1) {
  checked_scale(o, "EfficientNet");
  constexpr std::array<Stage, 7> kStages = {{{1, 3, 1, 16, 1},
                                             {6, 3, 2, 24, 2},
                                             {6, 5, 2, 40, 2},
                                             {6, 3, 2, 80, 3},
                                             {6, 5, 1, 112, 3},
                                             {6, 5, 2, 192, 4},
                                             {6, 3, 1, 320, 1}}};
  const auto scaled = [&](std::int64_t channels) {
    return multiple_of_8(static_cast<double>(channels) * o.width_mult);
  };
  const auto layers_of = [&](const Stage& s) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(s.layers) * o.depth_mult));
  };
  std::int64_t blocks = 0, block = 0;
  for (const Stage& s : kStages) blocks += layers_of(s);
  std::int64_t in = scaled(32);
  features.push_back(conv_norm<SiLU>(o.in_channels, in, 3, 2));
  for (const Stage& s : kStages) {
    Sequential stage;
    for (std::int64_t i = 0; i < layers_of(s); ++i, ++block, in = scaled(s.out))
      stage.push_back(MBConv({.expansion = s.expansion,
                              .kernel = s.kernel,
                              .stride = i == 0 ? s.stride : 1,
                              .in = in,
                              .out = scaled(s.out),
                              .stochastic_depth = o.stochastic_depth * static_cast<double>(block) /
                                                  static_cast<double>(blocks)}));
    features.push_back(std::move(stage));
  }
  features.push_back(conv_norm<SiLU>(in, 4 * in, 1));
  classifier.push_back(Dropout(o.dropout));
  Linear& linear = classifier.push_back(Linear(4 * in, o.classes));
  register_module("features", features);
  register_module("avgpool", avgpool);
  register_module("classifier", classifier);
  initialize_convolutions(*this);
  const double bound = 1 / std::sqrt(static_cast<double>(o.classes));
  init::uniform_(linear.weight, -bound, bound);
  init::zeros_(linear.bias);
}

Tensor EfficientNet::forward(const Tensor& input) {
  return classifier(avgpool(features(input)).flatten(1));
}

}  // namespace ferrite::nn
