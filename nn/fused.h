// Fused layers: consecutive layers that run as one op or share work. Only this file knows which
// layers can be fused. Values, gradients, running statistics and errors are those of the layers run
// one by one, up to rounding. A layer with hooks runs by itself, so that its hooks see its own
// input and output.
#pragma once

#include <span>

#include "ferrite/nn/containers.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"
#include "ferrite/nn/pooling.h"
#include "ferrite/ops/activation.h"

namespace ferrite::nn {

/// relu(linear(x)) as one call, which fuses what the device can.
Tensor linear_relu(Linear& linear, const Tensor& x);
/// gelu(linear(x)) as one call, which fuses what the device can.
Tensor linear_gelu(Linear& linear, const Tensor& x,
                   GeluApproximation approximation = GeluApproximation::none);

/// relu(linear(x)) for each of these layers but the last, and linear(x) for the last, as one call,
/// which fuses what the device can. Where they are one op, it has the path of the calling module.
Tensor linear_relu_chain(std::span<Linear* const> layers, const Tensor& x);

/// relu(conv(x)) as one call, which fuses what the device can.
Tensor conv_relu(Conv2d& conv, const Tensor& x);
/// Max pooling of relu(conv(x)) as one call, which fuses what the device can.
Tensor conv_relu_max_pool(Conv2d& conv, const Tensor& x, const MaxPool2dOptions& pool);

/// relu(bn(x)) as one call, which fuses what the device can.
Tensor bn_relu(BatchNorm& bn, const Tensor& x);
/// Max pooling of relu(bn(x)) as one call, which fuses what the device can.
Tensor bn_relu_max_pool(BatchNorm& bn, const Tensor& x, const MaxPool2dOptions& pool);

/// bn(conv(x)) as one call, which fuses what the device can: in training the convolution also
/// computes the statistics of the batch.
Tensor conv_bn(Conv2d& conv, BatchNorm& bn, const Tensor& x);
/// relu(bn(conv(x))) as one call, which fuses what the device can.
Tensor conv_bn_relu(Conv2d& conv, BatchNorm& bn, const Tensor& x);
/// Max pooling of relu(bn(conv(x))) as one call, which fuses what the device can.
Tensor conv_bn_relu_max_pool(Conv2d& conv, BatchNorm& bn, const Tensor& x,
                             const MaxPool2dOptions& pool);
/// relu(bn(conv(x)) + residual) as one call, which fuses what the device can.
Tensor conv_bn_add_relu(Conv2d& conv, BatchNorm& bn, const Tensor& x, const Tensor& residual);

/// The shortcut of a residual block. Of a convolution and a batch norm, conv_bn_add_relu() computes
/// the norm together with its own; until then only the convolution has run.
class Shortcut {
 public:
  /// Runs `layers`, which must outlive this, on `input`; without layers that is the output.
  Shortcut(Sequential& layers, const Tensor& input);
  /// What comes out of the layers. Runs the norm if it is left: call it once, and not before
  /// conv_bn_add_relu().
  Tensor output() const;

 private:
  friend Tensor conv_bn_add_relu(Conv2d&, BatchNorm&, const Tensor&, const Shortcut&);

  Tensor x_;
  BatchNorm* norm_ = nullptr;  // left to run on x_
  ChannelStatistics statistics_;
};
/// relu(bn(conv(x)) + shortcut.output()) as one call, which fuses what the device can.
Tensor conv_bn_add_relu(Conv2d& conv, BatchNorm& bn, const Tensor& x, const Shortcut& shortcut);

/// The output of a Sequential of these modules, which run one by one or fused with those that
/// follow.
Tensor run_in_order(std::span<Module* const> modules, const Tensor& input);

}  // namespace ferrite::nn
