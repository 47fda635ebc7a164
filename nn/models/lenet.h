// Two variants of LeNet: the classic LeNet-5, and that of the chapter on multi-GPU training in
// "Dive into Deep Learning".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ferrite/nn/conv.h"
#include "ferrite/nn/linear.h"

namespace ferrite::nn {

struct LeNet5Options {
  /// The function between the layers.
  enum class Activation : std::uint8_t { relu, tanh, sigmoid };
  /// How 2x2 cells become one.
  enum class Pooling : std::uint8_t { max, average };

  std::int64_t classes = 10;
  std::int64_t in_channels = 1;
  /// The defaults train best. The network of 1998 has {.activation = tanh, .pooling = average}.
  Activation activation = Activation::relu;
  Pooling pooling = Pooling::max;  ///< the mean or the maximum of 2x2 cells
};

/// LeNet-5 (LeCun et al. 1998) for [N, in_channels, 28, 28]: convolutions of 6 (5x5, padded by 2)
/// and 16 (5x5) channels, each followed by 2x2 pooling, then layers of 120, 84 and `classes`.
/// Gives logits [N, classes].
class LeNet5 : public Cloneable<LeNet5> {
 public:
  explicit LeNet5(const LeNet5Options& options = {});
  explicit LeNet5(std::int64_t classes, std::int64_t in_channels = 1)
      : LeNet5(LeNet5Options{.classes = classes, .in_channels = in_channels}) {}
  Tensor forward(const Tensor& input) override;

  Conv2d conv1;  ///< the convolution from in_channels to 6 channels, 5x5
  Conv2d conv2;  ///< the convolution from 6 to 16 channels, 5x5
  Linear fc1;    ///< the linear layer from 400 to 120 features
  Linear fc2;    ///< the linear layer from 120 to 84 features
  Linear fc3;    ///< the linear layer from 84 features to the classes

 private:
  Tensor activate(const Tensor& x) const;
  Tensor hidden(Linear& layer, const Tensor& x) const;
  Tensor hidden(Conv2d& layer, const Tensor& x) const;
  Tensor pooled(Conv2d& layer, const Tensor& x) const;

  LeNet5Options options_;
};

/// W1, b1, ... W4, b4 of lenet(): weights from N(0, scale^2), biases zero. W1 [20, 1, 3, 3],
/// W2 [50, 20, 5, 5], W3 [800, 128], W4 [128, 10]. All require a gradient.
std::vector<Tensor> lenet_parameters(double scale = 0.01);

/// The network as a function of its parameters (Zhang et al., "Dive into Deep Learning", 13.5):
/// X [N, 1, 28, 28] to logits [N, 10]. Convolution of 20 channels (3x3), ReLU, 2x2 average pooling,
/// convolution of 50 channels (5x5), ReLU, 2x2 average pooling, 128 hidden units with ReLU, 10
/// outputs. ValueError unless there are eight parameters.
Tensor lenet(const Tensor& X, std::span<const Tensor> params);

/// The same as a module with parameters W1, b1, ... W4, b4.
class D2LLeNet : public Cloneable<D2LLeNet> {
 public:
  explicit D2LLeNet(double scale = 0.01);
  Tensor forward(const Tensor& X) override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  Tensor W1;  ///< [20, 1, 3, 3], the weight of the first convolution
  Tensor b1;  ///< [20], the bias of the first convolution
  Tensor W2;  ///< [50, 20, 5, 5], the weight of the second convolution
  Tensor b2;  ///< [50], the bias of the second convolution
  Tensor W3;  ///< [800, 128], the weight of the hidden layer
  Tensor b3;  ///< [128], the bias of the hidden layer
  Tensor W4;  ///< [128, 10], the weight of the output layer
  Tensor b4;  ///< [10], the bias of the output layer
};

}  // namespace ferrite::nn
