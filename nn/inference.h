// Networks made ready for inference: batch norms folded into the layers before them.
#pragma once

#include <memory>

#include "ferrite/nn/conv.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/norm.h"

namespace ferrite::nn {

namespace detail {

struct FoldedNorm {
  Tensor weight, bias;  ///< in the dtype of the weight
};

/// The parameters with which a layer computes (layer(x) - mean) * s + shift, s = scale / sqrt(var +
/// eps): weight * s and (bias - mean) * s + shift, computed in float64 and rounded once. The weight
/// is [channels, ...], or [in, channels / groups, ...] if `transposed`; `bias`, `scale` and `shift`
/// may be undefined. Not recorded.
FoldedNorm fold_norm(const Tensor& weight, const Tensor& bias, const Tensor& mean,
                     const Tensor& var, const Tensor& scale, const Tensor& shift, double eps,
                     bool transposed = false);

}  // namespace detail

namespace utils {

/// torch.nn.utils.fusion.fuse_conv_bn_eval: a copy of `conv`, with a bias, that computes
/// bn(conv(x)) of evaluation. Weights are multiplied in float64 and rounded once. ValueError unless
/// both modules are in evaluation mode, the norm has running statistics, and weight and bias are
/// parameters (after remove_weight_norm()); ShapeError unless the norm's features are the
/// convolution's output channels. Conv1d to Conv3d and ConvTranspose1d to ConvTranspose3d.
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
/// - weights of 2-dimensional convolutions are laid out for the device's kernels, and results are
///   channels_last.
/// Outputs are those of `module.eval()` up to rounding. Parameters of folded layers have new
/// values, those of folded norms are gone: load weights into the original, before.
///
/// Which layer feeds which norm is observed in two forward passes of `example`, an input as the
/// network will get. A norm is folded if its input is the output of one call of a layer, unchanged,
/// and nothing else uses that output or the parameters of the two, as `linear(h, enc.weight.t())`
/// does: in the second pass these outputs are NaN but for the norm, and these parameters are NaN
/// but in their modules' calls. Hence nothing is folded if the output for `example` has NaNs.
/// Layers and norms that are called several times, that have hooks, whose weights are shared or
/// computed (weight_norm), and classes derived from the library's are left as they are. Error
/// unless the module can be cloned.
std::unique_ptr<Module> optimize_for_inference(const Module& module, const Tensor& example);

}  // namespace ferrite::nn
