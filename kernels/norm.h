// Normalisation in pieces, so that statistics can be combined across devices (SyncBatchNorm) and
// the affine step can be fused with what follows it.
//
// Batch norm sees its input as [outer, channels, inner]: NCHW is [N, C, H * W], NHWC is
// [N * H * W, C, 1]. Statistics, `weight` and `bias` ([channels]) share a dtype: float32 for 16-bit
// and float32 inputs, float64 for float64. An optional operand may be a View without data. Sums are
// partitioned by size alone, so results have the same bits for any number of threads.
#pragma once

#include "ferrite/kernels/kernel.h"
#include "ferrite/kernels/pool.h"

namespace ferrite::kernels {

struct ChannelLayout {
  std::int64_t outer = 0, channels = 0, inner = 0;
  /// Values per channel.
  std::int64_t count() const { return outer * inner; }
};

/// Each channel's mean and sum of squared deviations from it (M2).
FERRITE_KERNEL_OF("batch_norm", channel_stats, const ChannelLayout& layout, const View& mean,
                  const View& m2, const View& in);

/// Converts each channel's sum (in `mean`) and sum of squares (in `m2`) of `n` values, in place, to
/// the results of channel_stats(). If the mean is far from zero, M2 loses as many digits as mean^2
/// / variance has.
FERRITE_KERNEL_OF("batch_norm", stats_of_sums, const View& mean, const View& m2, std::int64_t n);

/// Combines the statistics of several parts (Chan et al. 1979): `means` and `m2s` are [parts,
/// channels], `counts` is [parts], each with any stride between parts; `count` has one element. All
/// share a dtype. The values of parts with a count of 0 are ignored.
FERRITE_KERNEL_OF("batch_norm", combine_stats, const View& mean, const View& m2, const View& count,
                  const View& means, const View& m2s, const View& counts);

/// invstd = 1 / sqrt(m2 / n + eps); then moves the running statistics (optional, any floating
/// dtype) by `momentum`, unless the statistics are of fewer than two values. n is the element of
/// `count` if that has data, else `n`.
FERRITE_KERNEL_OF("batch_norm", batch_norm_finish, const View& invstd, const View& running_mean,
                  const View& running_var, const View& mean, const View& m2, const View& count,
                  std::int64_t n, double momentum, double eps);

/// invstd = 1 / sqrt(var + eps).
FERRITE_KERNEL_OF("batch_norm", inverse_std, const View& invstd, const View& var, double eps);

/// The activation after batch norm, in the same pass over the data.
enum class NormActivation { none, relu };

/// out = f((in - mean) * invstd * weight + bias + residual), where f is `activation`; weight, bias
/// and residual (of the layout and dtype of `in`) are optional. Rounded once, at the end.
FERRITE_KERNEL_OF("batch_norm", batch_norm_apply, const ChannelLayout& layout, const View& out,
                  const View& in, const View& mean, const View& invstd, const View& weight,
                  const View& bias, const View& residual, NormActivation activation);

/// A batch's statistics: the results of channel_stats(), or, as stats_of_sums() takes them, sums
/// and sums of squares.
struct BatchStatistics {
  View mean, m2;
  bool are_sums = false;
};
/// What training moves; all optional.
struct RunningStatistics {
  View mean, var;
  View batches;  ///< one int64, the number of batches
  double momentum = 0.1;
};
/// What training takes besides the input.
struct BatchTraining {
  BatchStatistics batch;
  RunningStatistics running;
  double eps = 1e-5;
};
/// The number of int32 zeros by which blocks of batch_norm_backward_reduce() find out which is the
/// last.
inline constexpr std::int64_t kNormCounters = 1024;

/// batch_norm_finish() and batch_norm_apply() of a batch in one, which also counts the batch. If
/// `out` has no data, there is no affine step.
/// `mean` and `invstd` are written; `mean` may be that of `batch` unless these are sums. `counters`
/// (optional, int32 [kNormCounters]) becomes zeros.
FERRITE_KERNEL_OF("batch_norm", batch_norm_train, const ChannelLayout& layout, const View& out,
                  const View& in, const View& mean, const View& invstd,
                  const BatchStatistics& batch, const RunningStatistics& running, double eps,
                  const View& weight, const View& bias, const View& residual,
                  NormActivation activation, const View& counters);

/// How the gradient determines where the ReLU of batch_norm_apply() passes it: where the result is
/// above 0 or NaN.
struct ReluMask {
  enum class From {
    nothing,  ///< there was no ReLU
    input,    ///< the result is recomputed, bit for bit, from `in`, `weight` and `bias`: one
              ///< operand less to read; only for results without a residual
    output    ///< read from `out`
  };
  From from = From::nothing;
  View weight, bias;  ///< From::input: as in batch_norm_apply
  View out;           ///< From::output
};

/// sum_dy = each channel's sum of dy (the gradient of the bias); sum_dy_xhat = each channel's sum
/// of dy * (in - mean) * invstd (the gradient of the weight). Either is optional. dy counts as 0
/// where `mask` blocks it; `passed` (optional, may be dy) receives dy after masking, the gradient
/// of the residual. `counters` (optional) is as in batch_norm_train(): zeros before and after. With
/// it, a CUDA device may need only one kernel.
FERRITE_KERNEL_OF("batch_norm", batch_norm_backward_reduce, const ChannelLayout& layout,
                  const View& sum_dy, const View& sum_dy_xhat, const View& dy, const View& in,
                  const View& mean, const View& invstd, const ReluMask& mask, const View& passed,
                  const View& counters);

/// dx = weight * invstd * (dy - sum_dy / n - xhat * sum_dy_xhat / n), n as in batch_norm_finish.
/// If both sums have no data, the statistics are constants: dx = weight * invstd * dy. dy counts as
/// 0 where `mask` blocks it.
FERRITE_KERNEL_OF("batch_norm", batch_norm_backward_apply, const ChannelLayout& layout,
                  const View& dx, const View& dy, const View& in, const View& mean,
                  const View& invstd, const View& weight, const View& sum_dy,
                  const View& sum_dy_xhat, const View& count, std::int64_t n, const ReluMask& mask);

/// The affine step, a ReLU and max_pool2d() in one pass over NHWC tensors. `out` and `code`
/// (optional) are the results of the pooling. `picked` (optional, like `out`) receives the elements
/// of `in` at the maxima: given it, and a mask from the input, batch_norm_backward_reduce()
/// computes the same sums as it would over all of `in`. Each window has at least one cell of the
/// input.
FERRITE_KERNEL_OF("batch_norm", batch_norm_max_pool, const Pool2d& pool, const View& out,
                  const View& picked, const View& code, const View& in, const View& mean,
                  const View& invstd, const View& weight, const View& bias);
/// batch_norm_backward_apply() with a batch's statistics and a mask from the input, where dy is the
/// result of max_pool2d_backward() for `grad_out`.
FERRITE_KERNEL_OF("batch_norm", batch_norm_max_pool_backward, const Pool2d& pool, const View& dx,
                  const View& grad_out, const View& code, const View& in, const View& mean,
                  const View& invstd, const View& weight, const View& bias, const View& sum_dy,
                  const View& sum_dy_xhat);

/// One of two batch norms of equal layout and dtype whose results are added, and pass a ReLU
/// together. `weight` and `bias` are optional.
struct PairedNorm {
  View in, mean, invstd, weight, bias;
};
/// batch_norm_train() of both, with their means and inverse deviations written, and out = relu(the
/// sum of their results), in one pass. Rounded once, at the end.
FERRITE_KERNEL_OF("batch_norm", batch_norm_pair_train, const ChannelLayout& layout, const View& out,
                  const PairedNorm& a, const PairedNorm& b, const BatchTraining& of_a,
                  const BatchTraining& of_b, const View& counters);

/// The gradients of the parameters of a pair; all are needed.
struct PairSums {
  View dy, dy_again;          ///< each channel's sum of dy, twice: the gradients of both biases
  View dy_xhat_a, dy_xhat_b;  ///< of dy * (in - mean) * invstd: the gradients of the weights
};
/// batch_norm_backward_reduce() of both. dy counts as 0 where the ReLU blocked, which is found from
/// the inputs again.
FERRITE_KERNEL_OF("batch_norm", batch_norm_pair_backward_reduce, const ChannelLayout& layout,
                  const PairSums& sums, const View& dy, const PairedNorm& a, const PairedNorm& b,
                  const View& counters);
/// batch_norm_backward_apply() of both; dx_a and dx_b are optional, and on a CUDA device one of
/// them may be dy (the CPU computes some elements twice).
FERRITE_KERNEL_OF("batch_norm", batch_norm_pair_backward_apply, const ChannelLayout& layout,
                  const View& dx_a, const View& dx_b, const View& dy, const PairedNorm& a,
                  const PairedNorm& b, const PairSums& sums);

/// Rows of `width` contiguous elements: out = (in - mean) * rstd * weight + bias, each row with its
/// own mean and rstd (written, [rows]); weight and bias [width], optional. If `mean` has no data,
/// it counts as 0, and rstd is 1 / sqrt(mean of squares + eps): root mean square norm.
FERRITE_KERNEL(layer_norm, std::int64_t rows, std::int64_t width, const View& out, const View& mean,
               const View& rstd, const View& in, const View& weight, const View& bias, double eps);
/// Computes those gradients that have data.
FERRITE_KERNEL_OF("layer_norm", layer_norm_backward, std::int64_t rows, std::int64_t width,
                  const View& grad_in, const View& grad_weight, const View& grad_bias,
                  const View& grad_out, const View& in, const View& mean, const View& rstd,
                  const View& weight);

/// Images whose channels are normalised in groups: [images, groups * channels, pixels], or, if
/// `channels_last` (on the CPU alone), [images, pixels, groups * channels].
struct GroupLayout {
  std::int64_t images = 0, groups = 0;
  std::int64_t channels = 0;  ///< of a group
  std::int64_t pixels = 0;
  bool channels_last = false;
  /// The channels of an image.
  std::int64_t all_channels() const { return groups * channels; }
};

/// out = (in - mean) * rstd * weight + bias, with the mean and rstd = 1 / sqrt(variance + eps) of
/// each image's group (written, [images, groups]); weight and bias, one for each channel, are
/// optional. An image's result does not depend on the others.
FERRITE_KERNEL(group_norm, const GroupLayout& layout, const View& out, const View& mean,
               const View& rstd, const View& in, const View& weight, const View& bias, double eps);
/// Computes those gradients that have data.
FERRITE_KERNEL_OF("group_norm", group_norm_backward, const GroupLayout& layout, const View& grad_in,
                  const View& grad_weight, const View& grad_bias, const View& grad_out,
                  const View& in, const View& mean, const View& rstd, const View& weight);

}  // namespace ferrite::kernels
