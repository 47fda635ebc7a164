// Residual networks (He, Zhang, Ren and Sun 2016, "Deep Residual Learning for Image Recognition"),
// with torchvision's parameter names ("layer1.0.conv1.weight") and initialisation, so that weights
// can be exchanged with it. Blocks run fused (nn/fused.h) and keep the input's memory format.
#pragma once

#include <array>
#include <cstdint>

#include "ferrite/nn/activation.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"
#include "ferrite/nn/pooling.h"

namespace ferrite::nn {

/// The layers before the first stage.
enum class ResNetStem : std::uint8_t {
  standard,  ///< torchvision's, for 224 x 224: convolution 7x7 of stride 2, max pooling 3x3 of 2
  small,     ///< that of "Dive into Deep Learning", for 28 x 28 or 32 x 32: convolution 3x3
};

/// A block with its shortcut.
enum class ResNetBlock : std::uint8_t { basic, bottleneck };

struct ResNetOptions {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  /// The layers before the first block: for large or small images.
  ResNetStem stem = ResNetStem::standard;
  /// Whether blocks start as the identity: the weight of each block's last norm is then 0 (Goyal et
  /// al. 2017).
  bool zero_init_residual = false;
  /// Channels of the first stage; each later stage has twice the channels of the previous one.
  std::int64_t width = 64;
  /// Whether to keep only the input of each block for backward, which recomputes the rest: this
  /// saves memory and costs time (autograd/checkpoint.h).
  bool checkpoint_blocks = false;
  /// Groups of Bottleneck's 3x3 convolution, and the channels of each for every 64 of the stage
  /// (Xie et al. 2017, "Aggregated Residual Transformations"; Zagoruyko and Komodakis 2016, "Wide
  /// Residual Networks").
  std::int64_t groups = 1, width_per_group = 64;
};

/// relu(x + bn2(conv2(relu(bn1(conv1(x)))))) with 3x3 convolutions, the first of which has the
/// stride. If the shape changes, `downsample`, a 1x1 convolution and a norm, is applied to the x
/// that is added.
class BasicBlock : public Cloneable<BasicBlock> {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride = 1,
             bool zero_init_residual = false);
  Tensor forward(const Tensor& input) override;

  Conv2d conv1;
  BatchNorm2d bn1;
  ReLU relu;
  Conv2d conv2;
  BatchNorm2d bn2;
  Sequential downsample;  // empty where the shape stays
};

/// Like BasicBlock, with three convolutions: 1x1 to `channels` * `width_per_group` / 64 * `groups`,
/// 3x3 in groups with the stride, 1x1 to 4 * `channels`.
class Bottleneck : public Cloneable<Bottleneck> {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in_channels, std::int64_t channels, std::int64_t stride = 1,
             bool zero_init_residual = false, std::int64_t groups = 1,
             std::int64_t width_per_group = 64);
  Tensor forward(const Tensor& input) override;

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;     ///< the third convolution of a bottleneck, 1x1
  BatchNorm2d bn3;  ///< the batch norm behind the third convolution
  ReLU relu;
  Sequential downsample;  // empty where the shape stays
};

/// [N, in_channels, H, W], for any H and W, to logits [N, classes]: the stem, four stages of
/// `blocks` blocks, the last three of which halve height and width, the mean over height and width,
/// and a linear layer. ValueError for classes, channels, width, groups or blocks below 1, and for
/// basic blocks in groups or of another width.
class ResNet : public Cloneable<ResNet> {
 public:
  ResNet(ResNetBlock block, const std::array<std::int64_t, 4>& blocks,
         const ResNetOptions& options = {});
  Tensor forward(const Tensor& input) override;

 private:
  Tensor run_stage(Sequential& stage, Tensor x) const;

  ResNetOptions options_;  // checked before the layers are made

 public:
  Conv2d conv1;
  BatchNorm2d bn1;
  ReLU relu;
  /// The max pooling of the stem, 3x3 with stride 2; unused in the small stem.
  MaxPool2d maxpool;  // a child of the standard stem alone
  Sequential layer1;  ///< the blocks of the first stage, which keeps height and width
  Sequential layer2;  ///< the blocks of the second stage, which halves height and width
  Sequential layer3;  ///< the blocks of the third stage, which halves height and width
  Sequential layer4;  ///< the blocks of the fourth stage, which halves height and width
  AdaptiveAvgPool2d avgpool;
  Linear fc;  ///< the linear layer from features to logits
};

/// 11,689,512 parameters for 1000 classes.
class ResNet18 : public Cloneable<ResNet18, ResNet> {
 public:
  explicit ResNet18(const ResNetOptions& options = {});
  explicit ResNet18(std::int64_t classes, std::int64_t in_channels = 3)
      : ResNet18(ResNetOptions{.classes = classes, .in_channels = in_channels}) {}
};

/// 21,797,672 parameters for 1000 classes.
class ResNet34 : public Cloneable<ResNet34, ResNet> {
 public:
  explicit ResNet34(const ResNetOptions& options = {});
  explicit ResNet34(std::int64_t classes, std::int64_t in_channels = 3)
      : ResNet34(ResNetOptions{.classes = classes, .in_channels = in_channels}) {}
};

/// 25,557,032 parameters for 1000 classes.
class ResNet50 : public Cloneable<ResNet50, ResNet> {
 public:
  explicit ResNet50(const ResNetOptions& options = {});
  explicit ResNet50(std::int64_t classes, std::int64_t in_channels = 3)
      : ResNet50(ResNetOptions{.classes = classes, .in_channels = in_channels}) {}
};

/// 44,549,160 parameters for 1000 classes.
class ResNet101 : public Cloneable<ResNet101, ResNet> {
 public:
  explicit ResNet101(const ResNetOptions& options = {});
  explicit ResNet101(std::int64_t classes, std::int64_t in_channels = 3)
      : ResNet101(ResNetOptions{.classes = classes, .in_channels = in_channels}) {}
};

/// 60,192,808 parameters for 1000 classes.
class ResNet152 : public Cloneable<ResNet152, ResNet> {
 public:
  explicit ResNet152(const ResNetOptions& options = {});
  explicit ResNet152(std::int64_t classes, std::int64_t in_channels = 3)
      : ResNet152(ResNetOptions{.classes = classes, .in_channels = in_channels}) {}
};

/// torchvision's wider networks; `groups` and `width_per_group` are theirs.
ResNet resnext50_32x4d(ResNetOptions options = {});
/// ResNeXt-101 with 32 groups of 8 channels.
ResNet resnext101_32x8d(ResNetOptions options = {});
/// ResNeXt-101 with 64 groups of 4 channels.
ResNet resnext101_64x4d(ResNetOptions options = {});
/// ResNet-50 whose bottlenecks have twice the channels.
ResNet wide_resnet50_2(ResNetOptions options = {});
/// ResNet-101 whose bottlenecks have twice the channels.
ResNet wide_resnet101_2(ResNetOptions options = {});

}  // namespace ferrite::nn
