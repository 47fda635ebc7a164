// Normalisation. Statistics and weights are float32 beside 16-bit inputs (weights may be of the
// input's type too) and of the input's type otherwise. Results have the input's type; those
// of batch_norm and group_norm its memory format too, layer_norm gives contiguous tensors.
// Gradients are once differentiable.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/ops/channel_statistics.h"

namespace ferrite {

/// (x - mean) / sqrt(var + eps) * weight + bias for each channel of [N, C], [N, C, L] or
/// [N, C, H, W] (Ioffe and Szegedy 2015). `weight`, `bias`, `running_mean` and `running_var` have C
/// elements; the first two, and the last two together, may be undefined.
///
/// Training: mean and biased variance of this batch; the running statistics move towards them, in
/// place, running = (1 - momentum) * running + momentum * batch, with the unbiased variance.
/// ShapeError for a single value a channel. Otherwise the running statistics are used (ValueError
/// if there are none: pass training = true). `statistics`, where defined, are those of `input`
/// (conv2d_statistics), which training then need not look for.
///
/// `parts`, where given: `input` is one part of the batch, perhaps an empty one, and training uses
/// the statistics of all parts together. The gradients of weight and bias are this part's share.
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5,
                  const ChannelStatistics& statistics = {},
                  const std::shared_ptr<BatchParts>& parts = {});

/// relu(batch_norm(...)) and relu(batch_norm(...) + residual) in the passes over the data that
/// batch_norm makes: what a residual network is built of. The arguments, running statistics and
/// gradients are batch_norm's and relu's; `residual` has the shape, dtype and device of `input`.
/// The sum is rounded to the input's type once, after the ReLU. The first keeps no output for its
/// gradient: it finds from the input again where the ReLU let it pass.
Tensor batch_norm_relu(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                       double momentum = 0.1, double eps = 1e-5,
                       const ChannelStatistics& statistics = {},
                       const std::shared_ptr<BatchParts>& parts = {});
Tensor batch_norm_add_relu(const Tensor& input, const Tensor& residual, const Tensor& running_mean,
                           const Tensor& running_var, const Tensor& weight = {},
                           const Tensor& bias = {}, bool training = false, double momentum = 0.1,
                           double eps = 1e-5, const ChannelStatistics& statistics = {},
                           const std::shared_ptr<BatchParts>& parts = {});

/// Normalises over the last dimensions, which are `normalized_shape` (Ba et al. 2016). `weight` and
/// `bias` have that shape or are undefined.
Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// Normalises each of `num_groups` groups of channels of [N, C, *] (Wu and He 2018). `weight` and
/// `bias` have C elements or are undefined.
Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

}  // namespace ferrite
