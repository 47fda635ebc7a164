// Networks made ready for inference: batch norms folded into the layers before them.
#pragma once

#include <memory>

#include "ferrite/nn/conv.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"

namespace ferrite::nn {

namespace utils {

/// torch.nn.utils.fusion.fuse_conv_bn_eval: a copy of `conv`, with a bias, that computes
/// bn(conv(x)) of evaluation. Weights are multiplied in float64 and rounded once. ValueError unless
/// both modules are in evaluation mode and the norm has running statistics; ShapeError unless its
/// features are the convolution's output channels. Conv1d to Conv3d and ConvTranspose1d to
/// ConvTranspose3d.
template <class Conv>
Conv fuse_conv_bn_eval(const Conv& conv, const BatchNorm& bn);
extern template Conv1d fuse_conv_bn_eval(const Conv1d&, const BatchNorm&);
extern template Conv2d fuse_conv_bn_eval(const Conv2d&, const BatchNorm&);
extern template Conv3d fuse_conv_bn_eval(const Conv3d&, const BatchNorm&);
extern template ConvTranspose1d fuse_conv_bn_eval(const ConvTranspose1d&, const BatchNorm&);
extern template ConvTranspose2d fuse_conv_bn_eval(const ConvTranspose2d&, const BatchNorm&);
extern template ConvTranspose3d fuse_conv_bn_eval(const ConvTranspose3d&, const BatchNorm&);
/// The same for bn(linear(x)) of an input [N, in_features].
Linear fuse_linear_bn_eval(const Linear& linear, const BatchNorm& bn);

}  // namespace utils

/// A copy of `module` for inference alone; the original stays as it is. In the copy
/// - all modules are in evaluation mode, and no parameter requires a gradient;
/// - each batch norm behind a convolution or a linear layer is folded into it, and is an Identity;
/// - weights of 2-dimensional convolutions are channels_last, so that results are, too.
/// Outputs are those of `module.eval()` up to rounding. Parameters of folded layers have new
/// values, those of folded norms are gone: load weights into the original, before.
///
/// Which layer feeds which norm is observed in two forward passes of `example`, an input as the
/// network will get. A norm is folded if its input is the output of one call of a layer, unchanged,
/// and nothing else uses that output: in the second pass these outputs are NaN but for the norm.
/// Layers and norms that are called several times, that have hooks, whose weights are shared or
/// computed (weight_norm), and classes derived from the library's are left as they are. Error
/// unless the module can be cloned.
std::unique_ptr<Module> optimize_for_inference(const Module& module, const Tensor& example);

}  // namespace ferrite::nn
