// Normalisation. Statistics and weights are float32 beside 16-bit inputs (weights may be of the
// input's type too) and of the input's type otherwise. Results have the input's type; those
// of batch_norm and group_norm its memory format too, layer_norm gives contiguous tensors.
// Gradients are differentiable to any order, with ops instead of kernels where create_graph asks
// for it; those of batch_norm with `parts` are once differentiable.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/channel_statistics.h"
#include "ferrite/ops/pool.h"

namespace ferrite {

/// A second batch norm, on the shortcut of a residual block, by the arguments that batch_norm()
/// would have.
struct BatchNormShortcut {
  Tensor input;  ///< of the shape, dtype and device of the first one's
  Tensor running_mean = {}, running_var = {};  ///< in memory of their own
  Tensor weight = {}, bias = {};               ///< its parameters
  double momentum = 0.1;                       ///< weight of this batch in the running statistics
  double eps = 1e-5;                           ///< as that of batch_norm()
  ChannelStatistics statistics = {};           ///< those of its input, where they are known
  Tensor batches = {};                         ///< its number of batches
};

/// Named as in libtorch.
struct BatchNormFuncOptions {
  /// Whether to normalise by the statistics of this batch rather than the running ones.
  bool training = false;
  double momentum = 0.1;  ///< weight of this batch in the running statistics
  double eps = 1e-5;
  /// Added to the result, before the ReLU; of the shape, dtype and device of the input. The sum is
  /// rounded to the input's type once, at the end.
  Tensor residual = {};
  /// In place of a residual: another batch norm, in the same mode, whose result is added. `parts`
  /// are those of the first alone.
  std::optional<BatchNormShortcut> shortcut = {};
  bool relu = false;  ///< whether a ReLU follows
  /// A max_pool2d() after that, of [N, C, H, W].
  std::optional<MaxPool2dOptions> max_pool = {};
  /// The statistics of the input, where they are known (conv2d_statistics): training need not
  /// compute them.
  ChannelStatistics statistics = {};
  /// One int64, the number of batches so far, to which training adds one.
  Tensor batches = {};
  /// Where given, the input is one part of the batch, perhaps an empty one, and training uses the
  /// statistics of all parts together. The gradients of weight and bias are this part's share.
  std::shared_ptr<BatchParts> parts = {};
};

/// (x - mean) / sqrt(var + eps) * weight + bias for each channel of [N, C], [N, C, L] or
/// [N, C, H, W] (Ioffe and Szegedy 2015). `weight`, `bias`, `running_mean` and `running_var` have C
/// elements; the first two, and the last two together, may be undefined.
///
/// Training: mean and biased variance of this batch; the running statistics move towards them, in
/// place, running = (1 - momentum) * running + momentum * batch, with the unbiased variance.
/// ShapeError for a single value a channel. Otherwise the running statistics are used (ValueError
/// if there are none: pass training = true).
///
/// A residual and a ReLU, as blocks of residual networks have them, cost no pass over the data of
/// their own. Without a residual the ReLU keeps no output for its gradient: it finds from the input
/// again where it let it pass. In training, a ReLU without a residual and the max pooling behind it
/// are one pass too in channels_last, which keeps neither of their inputs. In training, a batch
/// norm on the shortcut and the ReLU behind the sum are one pass with the first norm, forward and
/// in the gradient. Errors and profiles name the form: batch_norm_relu, batch_norm_add_relu,
/// batch_norm_add, batch_norm_relu_max_pool, batch_norm_shortcut.
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {},
                  const BatchNormFuncOptions& options = {});
/// In PyTorch's order.
inline Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                         const Tensor& weight, const Tensor& bias, bool training,
                         double momentum = 0.1, double eps = 1e-5) {
  return batch_norm(input, running_mean, running_var, weight, bias,
                    {.training = training, .momentum = momentum, .eps = eps});
}

/// (x - mean) / sqrt(var + eps) * weight + bias, with mean and biased variance over the last
/// dimensions, which are `normalized_shape` (Ba et al. 2016; ShapeError for an input that does not
/// end in it), in the shape of the input. `weight` and `bias` have that shape or are undefined.
/// DTypeError for other than floating types, ValueError for a negative eps.
///
///   Tensor y = layer_norm(randn({8, 20, 512}), {512});  // [8, 20, 512]
Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// x / sqrt(mean of squares + eps) * weight over the last dimensions, which are `normalized_shape`
/// (Zhang and Sennrich 2019), in the shape of the input. `weight` has that shape or is undefined;
/// `eps` is by default the epsilon of the statistics' type. Errors as for layer_norm().
Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

/// Normalizes each of `num_groups` groups of channels of [N, C, *], as layer_norm() does, in the
/// shape of the input (Wu and He 2018). `weight` and `bias` have C elements or are undefined.
/// ShapeError unless num_groups divides C, ValueError for less than one group; other errors as for
/// layer_norm().
///
///   Tensor y = group_norm(randn({2, 32, 8, 8}), 4);  // groups of 8 channels
Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

struct InstanceNormFuncOptions {
  /// Whether to normalise by the statistics of each instance rather than the running ones.
  bool use_input_stats = true;
  double momentum = 0.1;  ///< weight of this batch in the running statistics
  double eps = 1e-5;
};

/// Normalises each channel of each element of a batch [N, C, *] (Ulyanov et al. 2016): a group_norm
/// of C groups. Given running statistics move towards the means of the instances' as those of
/// batch_norm do. ShapeError for a single value a channel.
Tensor instance_norm(const Tensor& input, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, const InstanceNormFuncOptions& options = {});

struct LocalResponseNormOptions {
  double alpha = 1e-4;  ///< the factor of the sum of squares in local response normalization
  double beta = 0.75;   ///< the exponent of local response normalization
  double k = 1;         ///< the summand beside the sum of squares in local response normalization
};
/// x / (k + alpha m)^beta, with m the mean of the squares of `size` neighbouring channels of
/// [N, C, *], those beyond the ends being 0 (Krizhevsky et al. 2012).
Tensor local_response_norm(const Tensor& input, std::int64_t size,
                           const LocalResponseNormOptions& options = {});

}  // namespace ferrite
