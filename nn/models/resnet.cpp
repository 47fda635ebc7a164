#include "ferrite/nn/models/resnet.h"

#include <algorithm>
#include <initializer_list>
#include <span>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/nn/fused.h"
#include "ferrite/nn/init.h"
#include "ferrite/ops/arithmetic.h"

namespace ferrite::nn {

namespace {

/// A convolution that keeps the size, up to the stride. It has no bias, because a norm follows.
Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
                   std::int64_t groups = 1) {
  Conv2d conv(in, out, kernel,
              {.stride = stride, .padding = kernel / 2, .groups = groups, .bias = false});
  init::kaiming_normal_(conv.weight, 0, init::FanMode::fan_out, init::Nonlinearity::relu);
  return conv;
}

BatchNorm2d last_norm(std::int64_t channels, bool zero_init) {
  BatchNorm2d norm(channels);
  if (zero_init) init::zeros_(norm.weight);
  return norm;
}

/// Channels of the 3x3 convolution of a Bottleneck, at least one for each group.
std::int64_t inner_channels(std::int64_t channels, std::int64_t groups,
                            std::int64_t width_per_group) {
  return std::max<std::int64_t>(1, channels * width_per_group / 64) * groups;
}

/// The projection that is applied to a block's input before it is added to the output.
Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  Sequential downsample;
  if (stride == 1 && in == out) return downsample;
  downsample.push_back(convolution(in, out, 1, stride));
  downsample.push_back(BatchNorm2d(out));
  return downsample;
}

template <class Block, class... Width>
Sequential stage(std::int64_t in, std::int64_t channels, std::int64_t blocks, std::int64_t stride,
                 bool zero_init, Width... width) {
  Sequential result;
  for (std::int64_t i = 0; i < blocks; ++i)
    result.push_back(Block(i == 0 ? in : channels * Block::kExpansion, channels,
                           i == 0 ? stride : 1, zero_init, width...));
  return result;
}

std::int64_t expansion(ResNetBlock block) {
  return block == ResNetBlock::basic ? BasicBlock::kExpansion : Bottleneck::kExpansion;
}

/// Stage `i` of four.
Sequential make_stage(ResNetBlock block, const std::array<std::int64_t, 4>& blocks,
                      const ResNetOptions& options, std::size_t i) {
  const std::int64_t channels = options.width << i;
  const std::int64_t in = i == 0 ? options.width : channels / 2 * expansion(block);
  const std::int64_t stride = i == 0 ? 1 : 2;
  return block == ResNetBlock::basic
             ? stage<BasicBlock>(in, channels, blocks[i], stride, options.zero_init_residual)
             : stage<Bottleneck>(in, channels, blocks[i], stride, options.zero_init_residual,
                                 options.groups, options.width_per_group);
}

ResNetOptions checked(ResNetBlock block, const ResNetOptions& options,
                      const std::array<std::int64_t, 4>& blocks) {
  FERRITE_CHECK(options.classes > 0 && options.in_channels > 0 && options.width > 0 &&
                    std::ranges::min(blocks) > 0,
                ValueError, "ResNet",
                "expected sizes above 0, got {} classes, {} channels in, width {} and stages of "
                "{}, {}, {} and {} blocks",
                options.classes, options.in_channels, options.width, blocks[0], blocks[1],
                blocks[2], blocks[3]);
  FERRITE_CHECK(block == ResNetBlock::basic ? options.groups == 1 && options.width_per_group == 64
                                            : options.groups > 0 && options.width_per_group > 0,
                ValueError, "ResNet", "expected {}, got {} groups of a width of {}",
                block == ResNetBlock::basic ? "basic blocks to have 1 group and a width of 64"
                                            : "groups and width_per_group above 0",
                options.groups, options.width_per_group);
  return options;
}

Tensor in_order(std::initializer_list<Module*> layers, const Tensor& x) {
  return run_in_order(std::span(layers.begin(), layers.size()), x);
}

/// relu(bn(conv(x)) + identity.output()).
Tensor add_relu(Conv2d& conv, BatchNorm2d& bn, ReLU& relu, const Tensor& x,
                const Shortcut& identity) {
  if (relu.has_hooks()) return relu(conv_bn(conv, bn, x) + identity.output());
  return conv_bn_add_relu(conv, bn, x, identity);
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
                       bool zero_init_residual)
    : conv1(convolution(in_channels, channels, 3, stride)),
      bn1(channels),
      conv2(convolution(channels, channels, 3)),
      bn2(last_norm(channels, zero_init_residual)),
      downsample(shortcut(in_channels, channels, stride)) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("relu", relu);
  register_module("conv2", conv2);
  register_module("bn2", bn2);
  if (!downsample.empty()) register_module("downsample", downsample);
}

Tensor BasicBlock::forward(const Tensor& input) {
  const Shortcut identity(downsample, input);
  const Tensor out = in_order({&conv1, &bn1, &relu}, input);
  return add_relu(conv2, bn2, relu, out, identity);
}

Bottleneck::Bottleneck(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
                       bool zero_init_residual, std::int64_t groups, std::int64_t width_per_group)
    : conv1(convolution(in_channels, inner_channels(channels, groups, width_per_group), 1)),
      bn1(conv1.weight.size(0)),
      conv2(convolution(conv1.weight.size(0), conv1.weight.size(0), 3, stride, groups)),
      bn2(conv1.weight.size(0)),
      conv3(convolution(conv1.weight.size(0), channels * kExpansion, 1)),
      bn3(last_norm(channels * kExpansion, zero_init_residual)),
      downsample(shortcut(in_channels, channels * kExpansion, stride)) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("conv2", conv2);
  register_module("bn2", bn2);
  register_module("conv3", conv3);
  register_module("bn3", bn3);
  register_module("relu", relu);
  if (!downsample.empty()) register_module("downsample", downsample);
}

Tensor Bottleneck::forward(const Tensor& input) {
  const Shortcut identity(downsample, input);
  const Tensor out = in_order({&conv1, &bn1, &relu, &conv2, &bn2, &relu}, input);
  return add_relu(conv3, bn3, relu, out, identity);
}

ResNet::ResNet(ResNetBlock block, const std::array<std::int64_t, 4>& blocks,
               const ResNetOptions& options)
    : options_(checked(block, options, blocks)),
      conv1(options.stem == ResNetStem::small
                ? convolution(options.in_channels, options.width, 3)
                : convolution(options.in_channels, options.width, 7, 2)),
      bn1(options.width),
      maxpool(3, {.stride = 2, .padding = 1}),
      layer1(make_stage(block, blocks, options, 0)),
      layer2(make_stage(block, blocks, options, 1)),
      layer3(make_stage(block, blocks, options, 2)),
      layer4(make_stage(block, blocks, options, 3)),
      avgpool(1),
      fc(options.width * 8 * expansion(block), options.classes) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("relu", relu);
  if (options.stem == ResNetStem::standard) register_module("maxpool", maxpool);
  register_module("layer1", layer1);
  register_module("layer2", layer2);
  register_module("layer3", layer3);
  register_module("layer4", layer4);
  register_module("avgpool", avgpool);
  register_module("fc", fc);
}

Tensor ResNet::run_stage(Sequential& stage, Tensor x) const {
  if (!options_.checkpoint_blocks || stage.has_hooks()) return stage(x);
  for (Module* block : stage.children())
    x = autograd::checkpoint([block](const Tensor& in) { return (*block)(in); }, x);
  return x;
}

Tensor ResNet::forward(const Tensor& input) {
  Tensor x = options_.stem == ResNetStem::standard
                 ? in_order({&conv1, &bn1, &relu, &maxpool}, input)
                 : in_order({&conv1, &bn1, &relu}, input);
  for (Sequential* stage : {&layer1, &layer2, &layer3, &layer4}) x = run_stage(*stage, x);
  return fc(avgpool(x).flatten(1));
}

ResNet18::ResNet18(const ResNetOptions& options)
    : Cloneable(ResNetBlock::basic, {2, 2, 2, 2}, options) {}
ResNet34::ResNet34(const ResNetOptions& options)
    : Cloneable(ResNetBlock::basic, {3, 4, 6, 3}, options) {}
ResNet50::ResNet50(const ResNetOptions& options)
    : Cloneable(ResNetBlock::bottleneck, {3, 4, 6, 3}, options) {}
ResNet101::ResNet101(const ResNetOptions& options)
    : Cloneable(ResNetBlock::bottleneck, {3, 4, 23, 3}, options) {}
ResNet152::ResNet152(const ResNetOptions& options)
    : Cloneable(ResNetBlock::bottleneck, {3, 8, 36, 3}, options) {}

namespace {

ResNet wider(std::int64_t third, ResNetOptions options, std::int64_t groups,
             std::int64_t width_per_group) {
  options.groups = groups;
  options.width_per_group = width_per_group;
  return ResNet(ResNetBlock::bottleneck, {3, 4, third, 3}, options);
}

}  // namespace

ResNet resnext50_32x4d(ResNetOptions options) { return wider(6, options, 32, 4); }
ResNet resnext101_32x8d(ResNetOptions options) { return wider(23, options, 32, 8); }
ResNet resnext101_64x4d(ResNetOptions options) { return wider(23, options, 64, 4); }
ResNet wide_resnet50_2(ResNetOptions options) { return wider(6, options, 1, 128); }
ResNet wide_resnet101_2(ResNetOptions options) { return wider(23, options, 1, 128); }

}  // namespace ferrite::nn
