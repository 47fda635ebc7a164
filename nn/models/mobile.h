// MobileNetV2 and EfficientNet, networks of depthwise convolutions, with torchvision's parameter
// names and initialisation, so that weights can be exchanged with it. They take [N, in_channels, H,
// W], for any H and W, to logits [N, classes].
#pragma once

#include <cstdint>

#include "ferrite/nn/activation.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/pooling.h"

namespace ferrite::nn {

/// torchvision.ops.StochasticDepth in the mode "row" (Huang et al. 2016): in training, makes each
/// sample of the batch zero with probability p, and divides the others by 1 - p. ValueError unless
/// 0 <= p <= 1.
class StochasticDepth : public Cloneable<StochasticDepth> {
 public:
  explicit StochasticDepth(double p);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

struct MobileNetV2Options {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  double width_mult = 1;  ///< factor of all channels, which stay multiples of 8
  double dropout = 0.2;
};

/// MobileNetV2 (Sandler et al. 2018). 3,504,872 parameters for 1000 classes. ValueError for sizes
/// that are not above 0.
class MobileNetV2 : public Cloneable<MobileNetV2> {
 public:
  explicit MobileNetV2(const MobileNetV2Options& options = {});
  Tensor forward(const Tensor& input) override;

  Sequential features;
  Sequential classifier;  ///< the dropout and the linear layer that make logits of the features
};

/// x * sigmoid(fc2(silu(fc1(mean of x over height and width)))) (Hu et al. 2018).
class SqueezeExcitation : public Cloneable<SqueezeExcitation> {
 public:
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed);
  Tensor forward(const Tensor& input) override;

  AdaptiveAvgPool2d avgpool;
  Conv2d fc1;                ///< the 1x1 convolution to fewer channels
  Conv2d fc2;                ///< the 1x1 convolution back to all channels
  SiLU activation;           ///< the SiLU behind fc1
  Sigmoid scale_activation;  ///< the sigmoid behind fc2, whose result multiplies the input
};

struct EfficientNetOptions {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  double width_mult = 1, depth_mult = 1;  ///< of channels, and of the layers of a stage
  double dropout = 0.2;
  double stochastic_depth = 0.2;  ///< of the last block; the others' rise to it
};

/// EfficientNet (Tan and Le 2019): B0, of 5,288,548 parameters for 1000 classes; with {.width_mult
/// = 1, .depth_mult = 1.1} B1, {1.1, 1.2} B2, {1.2, 1.4} B3 and {1.4, 1.8} B4. ValueError for sizes
/// that are not above 0.
class EfficientNet : public Cloneable<EfficientNet> {
 public:
  explicit EfficientNet(const EfficientNetOptions& options = {});
  Tensor forward(const Tensor& input) override;

  Sequential features;
  AdaptiveAvgPool2d avgpool;
  Sequential classifier;  ///< the dropout and the linear layer that make logits of the features
};

}  // namespace ferrite::nn
