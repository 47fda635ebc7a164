// Two-dimensional convolutions: input [N, C, H, W], weight [O, C / groups, KH, KW], out
// [N, O, OH, OW]. All views of a call share a floating dtype; strides are arbitrary, and NCHW and
// NHWC are fast. 16-bit types are computed in float32.
#pragma once

#include <array>
#include <string>

#include "ferrite/kernels/activation.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// The height comes first in each pair. `padding` is that above and to the left; the padding below
/// and to the right follows from the size of `out`.
struct ConvParams {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
  /// Applied by conv2d to its result: `none` or `relu`. The gradient kernels ignore it.
  Activation activation = Activation::none;
};

/// out = activation(input * weight + bias). `bias` is [O]; null data means no bias.
FERRITE_KERNEL(conv2d, const View& out, const View& input, const View& weight, const View& bias,
               const ConvParams& params);
/// conv2d(), and also the `mean` and `m2` [O] of each channel of `out`, as channel_stats() of
/// kernels/norm.h defines them. `out` is dense, NCHW or NHWC. A batch norm after the convolution
/// then need not read `out` for its statistics. If the library in use cannot fuse them, a second
/// kernel computes them. Where `are_sums` is not null, they may be each channel's sum and sum of
/// squares instead, as stats_of_sums() and batch_norm_train() of kernels/norm.h take them; then
/// the call sets `*are_sums` before it returns. Only libraries of CUDA devices do.
FERRITE_KERNEL_OF("conv2d", conv2d_stats, const View& out, const View& mean, const View& m2,
                  const View& input, const View& weight, const View& bias, const ConvParams& params,
                  bool* are_sums);
/// The gradient with respect to the input, from `grad`, the gradient of out. It is also the forward
/// pass of a transposed convolution, for which a bias [C] is added (null data: none).
FERRITE_KERNEL(conv2d_data, const View& grad_input, const View& grad, const View& weight,
               const View& bias, const ConvParams& params);
/// Adds that gradient to grad_input, in the same pass over the data where the library in use can,
/// rounding the sum once.
FERRITE_KERNEL_OF("conv2d_data", conv2d_data_add, const View& grad_input, const View& grad,
                  const View& weight, const ConvParams& params);
/// The gradient with respect to the weight, from `grad`, the gradient of out; also with respect to
/// the bias if `grad_bias` [O] has data.
FERRITE_KERNEL(conv2d_weight, const View& grad_weight, const View& grad_bias, const View& input,
               const View& grad, const ConvParams& params);
/// out[c] = the sum of grad[:, c, :, :]: only the gradient with respect to the bias.
FERRITE_KERNEL(channel_sum, const View& out, const View& grad);

/// out = activation(out + bias) in place, for out [N, C, H, W] and a bias [C] (null data: none):
/// bias and activation for engines that cannot fuse them. The activation is `none` or `relu`.
FERRITE_KERNEL(add_channels, const View& out, const View& bias, Activation activation);

/// The algorithm of convolutions on the CPU. There is a choice for 3 x 3 and 5 x 5 kernels of
/// stride 1 and their gradients, in float32 and float64. Winograd's algorithm (Lavin and Gray,
/// "Fast Algorithms for Convolutional Neural Networks", 2015) needs 2.25 times fewer
/// multiplications of a 3 x 3 kernel with tiles of 2 x 2 results, and 4 times fewer with tiles of 4
/// x 4; of a 5 x 5 kernel, 2.78 times fewer with tiles of 2 x 2. `automatic` takes the algorithm
/// that it estimates to be the fastest for the shape, and 4 x 4 only for sums of at least 576
/// products (64 channels), a 5 x 5 kernel's for at least 800 (32 channels). The rms error of
/// float32 is then at most 1.7 times that of direct sums, for every instruction set (figures:
/// docs/cpu.md). The other values are used wherever they apply; with few channels, the rounding
/// error of 4 x 4 is up to 5 times as large. A NaN spreads over the tiles that contain it. The
/// choice depends neither on the batch size nor on an image's position in the batch, so conv2d and
/// conv2d_data give an image the same bits in every batch.
enum class ConvAlgorithm : std::uint8_t { automatic, direct, winograd_2x2, winograd_4x4 };

/// Initially the value of FERRITE_CONV_ALGORITHM ("automatic", "direct", "winograd_2x2" or
/// "winograd_4x4"); automatic if that is unset.
ConvAlgorithm conv_algorithm();
void set_conv_algorithm(ConvAlgorithm algorithm);

enum class ConvPass : std::uint8_t { forward, data, weight };

/// How the CPU computes a pass of a convolution of such views, whose data are not read, as a line
/// of text: the engine that is taken and what each that can is expected to cost. With
/// FERRITE_CONV_PLAN=1 every kind of convolution prints it to standard error once.
std::string conv_plan(ConvPass pass, const View& input, const View& weight, const View& out,
                      const ConvParams& params);

}  // namespace ferrite::kernels
