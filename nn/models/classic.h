// AlexNet, VGG and SqueezeNet, with torchvision's parameter names and initialisation, so that
// weights can be exchanged with it. All take [N, in_channels, H, W] to logits [N, classes].
#pragma once

#include <cstdint>

#include "ferrite/nn/activation.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/pooling.h"

namespace ferrite::nn {

/// Networks of `features`, pooled to a fixed size, and a `classifier`.
class FeatureNet : public Cloneable<FeatureNet> {
 public:
  Tensor forward(const Tensor& input) override;

  Sequential features;
  AdaptiveAvgPool2d avgpool;
  Sequential classifier;  ///< the layers that make logits of the features

 protected:
  FeatureNet(Sequential given_features, Pair pooled, Sequential given_classifier);
};

struct AlexNetOptions {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  double dropout = 0.5;
  std::int64_t width = 64;     ///< channels of the first layer; the others are in proportion
  std::int64_t hidden = 4096;  ///< features of the linear layers
};

/// AlexNet in the form of Krizhevsky 2014, "One weird trick", for images of 63 x 63 and more.
/// 61,100,840 parameters for 1000 classes. ValueError for sizes below 1.
class AlexNet : public Cloneable<AlexNet, FeatureNet> {
 public:
  explicit AlexNet(const AlexNetOptions& options = {});
};

struct VGGOptions {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  bool batch_norm = false;  ///< a norm after each convolution: torchvision's vgg*_bn
  double dropout = 0.5;
  std::int64_t width = 64;     ///< channels of the first stage; the last two have 8 times as many
  std::int64_t hidden = 4096;  ///< features of the linear layers
};

/// VGG of 11, 13, 16 or 19 layers (Simonyan and Zisserman 2014), for images of 32 x 32 and more.
/// 132,863,336, 133,047,848, 138,357,544 and 143,667,240 parameters for 1000 classes, without
/// norms. ValueError for other numbers of layers, and for sizes below 1.
class VGG : public Cloneable<VGG, FeatureNet> {
 public:
  explicit VGG(int layers, const VGGOptions& options = {});
};

struct SqueezeNetOptions {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  double dropout = 0.5;
};

/// relu(squeeze(x)), a 1x1 convolution, expanded by a 1x1 and a 3x3 convolution side by side.
class Fire : public Cloneable<Fire> {
 public:
  Fire(std::int64_t in_channels, std::int64_t squeezed, std::int64_t expanded);
  Tensor forward(const Tensor& input) override;

  Conv2d squeeze;             ///< the 1x1 convolution to fewer channels
  ReLU squeeze_activation;    ///< the ReLU behind squeeze
  Conv2d expand1x1;           ///< the 1x1 convolution to more channels
  ReLU expand1x1_activation;  ///< the ReLU behind expand1x1
  Conv2d expand3x3;           ///< the 3x3 convolution to more channels
  ReLU expand3x3_activation;  ///< the ReLU behind expand3x3
};

/// SqueezeNet 1.1 (Iandola et al. 2016), for images of 17 x 17 and more. 1,235,496 parameters for
/// 1000 classes. ValueError for sizes below 1.
class SqueezeNet : public Cloneable<SqueezeNet> {
 public:
  explicit SqueezeNet(const SqueezeNetOptions& options = {});
  Tensor forward(const Tensor& input) override;

  Sequential features;
  Sequential classifier;  ///< the layers that make logits of the features
};

}  // namespace ferrite::nn
