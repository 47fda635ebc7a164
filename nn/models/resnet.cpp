#include "ferrite/nn/models/resnet.h"

#include <algorithm>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/nn/fused.h"
#include "ferrite/nn/init.h"
#include "ferrite/ops/pool.h"

namespace ferrite::nn {

namespace {

/// A convolution that keeps the size, up to the stride. It has no bias, because a norm follows.
Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                   std::int64_t stride = 1) {
  Conv2d conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
  init::kaiming_normal_(conv.weight, 0, init::FanMode::fan_out, init::Nonlinearity::relu);
  return conv;
}

BatchNorm2d last_norm(std::int64_t channels, bool zero_init) {
  BatchNorm2d norm(channels);
  if (zero_init) init::zeros_(norm.weight);
  return norm;
}

/// The projection that is applied to a block's input before it is added to the output.
Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  Sequential downsample;
  if (stride == 1 && in == out) return downsample;
  downsample.push_back(convolution(in, out, 1, stride));
  downsample.push_back(BatchNorm2d(out));
  return downsample;
}

template <class Block>
Sequential stage(std::int64_t in, std::int64_t channels, std::int64_t blocks, std::int64_t stride,
                 bool zero_init) {
  Sequential result;
  for (std::int64_t i = 0; i < blocks; ++i)
    result.push_back(Block(i == 0 ? in : channels * Block::kExpansion, channels,
                           i == 0 ? stride : 1, zero_init));
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
             : stage<Bottleneck>(in, channels, blocks[i], stride, options.zero_init_residual);
}

ResNetOptions checked(const ResNetOptions& options, const std::array<std::int64_t, 4>& blocks) {
  FERRITE_CHECK(options.classes > 0 && options.in_channels > 0 && options.width > 0 &&
                    std::ranges::min(blocks) > 0,
                ValueError, "ResNet",
                "expected sizes above 0, got {} classes, {} channels in, width {} and stages of "
                "{}, {}, {} and {} blocks",
                options.classes, options.in_channels, options.width, blocks[0], blocks[1],
                blocks[2], blocks[3]);
  return options;
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
                       bool zero_init_residual)
    : conv1_(convolution(in_channels, channels, 3, stride)),
      bn1_(channels),
      conv2_(convolution(channels, channels, 3)),
      bn2_(last_norm(channels, zero_init_residual)),
      downsample_(shortcut(in_channels, channels, stride)) {
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  register_module("conv2", conv2_);
  register_module("bn2", bn2_);
  if (!downsample_.empty()) register_module("downsample", downsample_);
}

Tensor BasicBlock::forward(const Tensor& input) {
  const Tensor identity = downsample_.empty() ? input : downsample_(input);
  const Tensor out = conv_bn_relu(conv1_, bn1_, input);
  return conv_bn_add_relu(conv2_, bn2_, out, identity);
}

Bottleneck::Bottleneck(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
                       bool zero_init_residual)
    : conv1_(convolution(in_channels, channels, 1)),
      bn1_(channels),
      conv2_(convolution(channels, channels, 3, stride)),
      bn2_(channels),
      conv3_(convolution(channels, channels * kExpansion, 1)),
      bn3_(last_norm(channels * kExpansion, zero_init_residual)),
      downsample_(shortcut(in_channels, channels * kExpansion, stride)) {
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  register_module("conv2", conv2_);
  register_module("bn2", bn2_);
  register_module("conv3", conv3_);
  register_module("bn3", bn3_);
  if (!downsample_.empty()) register_module("downsample", downsample_);
}

Tensor Bottleneck::forward(const Tensor& input) {
  const Tensor identity = downsample_.empty() ? input : downsample_(input);
  Tensor out = conv_bn_relu(conv1_, bn1_, input);
  out = conv_bn_relu(conv2_, bn2_, out);
  return conv_bn_add_relu(conv3_, bn3_, out, identity);
}

ResNet::ResNet(ResNetBlock block, const std::array<std::int64_t, 4>& blocks,
               const ResNetOptions& options)
    : options_(checked(options, blocks)),
      conv1_(options.stem == ResNetStem::small
                 ? convolution(options.in_channels, options.width, 3)
                 : convolution(options.in_channels, options.width, 7, 2)),
      bn1_(options.width),
      layer1_(make_stage(block, blocks, options, 0)),
      layer2_(make_stage(block, blocks, options, 1)),
      layer3_(make_stage(block, blocks, options, 2)),
      layer4_(make_stage(block, blocks, options, 3)),
      fc_(options.width * 8 * expansion(block), options.classes) {
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  register_module("layer1", layer1_);
  register_module("layer2", layer2_);
  register_module("layer3", layer3_);
  register_module("layer4", layer4_);
  register_module("fc", fc_);
}

Tensor ResNet::run_stage(Sequential& stage, Tensor x) const {
  if (!options_.checkpoint_blocks || stage.has_hooks()) return stage(x);
  for (Module* block : stage.children())
    x = autograd::checkpoint([block](const Tensor& in) { return (*block)(in); }, x);
  return x;
}

Tensor ResNet::forward(const Tensor& input) {
  Tensor x = conv_bn_relu(conv1_, bn1_, input);
  if (options_.stem == ResNetStem::standard) x = max_pool2d(x, 3, 2, 1);
  for (Sequential* stage : {&layer1_, &layer2_, &layer3_, &layer4_}) x = run_stage(*stage, x);
  return fc_(adaptive_avg_pool2d(x, 1).flatten(1));
}

ResNet18::ResNet18(const ResNetOptions& options)
    : Cloneable(ResNetBlock::basic, {2, 2, 2, 2}, options) {}
ResNet34::ResNet34(const ResNetOptions& options)
    : Cloneable(ResNetBlock::basic, {3, 4, 6, 3}, options) {}
ResNet50::ResNet50(const ResNetOptions& options)
    : Cloneable(ResNetBlock::bottleneck, {3, 4, 6, 3}, options) {}

}  // namespace ferrite::nn
