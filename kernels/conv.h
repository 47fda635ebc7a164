// Two-dimensional convolutions: input [N, C, H, W], weight [O, C / groups, KH, KW], out
// [N, O, OH, OW]. All views of a call share a floating dtype; strides are any, NCHW and NHWC are
// fast. 16-bit types compute in float.
#pragma once

#include <array>
#include <string>

#include "ferrite/kernels/activation.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// Heights first. `padding` is what lies above and to the left; what lies below and to the right
/// follows from the size of `out`.
struct ConvParams {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
  /// What conv2d does to its sums, `none` or `relu`; the other passes are those without it.
  Activation activation = Activation::none;
};

/// out = activation(input * weight + bias). `bias` is [O], or has null data: none.
FERRITE_KERNEL(conv2d, const View& out, const View& input, const View& weight, const View& bias,
               const ConvParams& params);
/// conv2d(), and of each channel of `out` the mean and M2 that channel_stats() of kernels/norm.h
/// gives: `mean` and `m2` [O] as there, `out` dense, NCHW or NHWC. For a batch norm behind the
/// convolution, which then does not read `out` to get them; where a library has none of this, two
/// kernels do it.
FERRITE_KERNEL_OF("conv2d", conv2d_stats, const View& out, const View& mean, const View& m2,
                  const View& input, const View& weight, const View& bias,
                  const ConvParams& params);
/// The gradient by the input, from `grad`, that of out. With a bias [C] added to it, which the
/// transposed convolution has.
FERRITE_KERNEL(conv2d_data, const View& grad_input, const View& grad, const View& weight,
               const View& bias, const ConvParams& params);
/// The gradient by the weight, and where it has data that by the bias, from `grad`, that of out.
FERRITE_KERNEL(conv2d_weight, const View& grad_weight, const View& grad_bias, const View& input,
               const View& grad, const ConvParams& params);
/// out[c] = the sum of grad[:, c, :, :]: the gradient by the bias alone.
FERRITE_KERNEL(channel_sum, const View& out, const View& grad);

/// out = activation(out + bias), for out [N, C, H, W] and a bias [C] or none (null data): what
/// follows a convolution by who does not do it. `none` or `relu`.
FERRITE_KERNEL(add_channels, const View& out, const View& bias, Activation activation);

/// How convolutions on the CPU are computed, where there is a choice: those of 3 x 3 taps
/// in steps of 1, and their gradients, of float32 and float64. Winograd's algorithm (Lavin and
/// Gray, "Fast Algorithms for Convolutional Neural Networks", 2015) multiplies 2.25 (2 x 2 results
/// a tile) or 4 times less (4 x 4). `automatic` takes what its estimate of the shape says is
/// fastest, 4 x 4 only for sums of 576 products (64 channels) and more; the rms error of float32 is
/// then at most 1.7 times that of direct sums, at every instruction set (docs/cpu.md has figures).
/// The others are taken wherever they fit; 4 x 4 rounds up to 5 times as much for few channels. A
/// NaN spreads over its tiles.
enum class ConvAlgorithm : std::uint8_t { automatic, direct, winograd_2x2, winograd_4x4 };

/// At first FERRITE_CONV_ALGORITHM ("automatic", "direct", "winograd_2x2" or "winograd_4x4"), else
/// automatic.
ConvAlgorithm conv_algorithm();
void set_conv_algorithm(ConvAlgorithm algorithm);

enum class ConvPass : std::uint8_t { forward, data, weight };

/// How the CPU computes a pass of a convolution of such views, whose data are not read, as a line
/// of text: the engine that is taken and what each that can is expected to cost. With
/// FERRITE_CONV_PLAN=1 every kind of convolution prints it to standard error once.
std::string conv_plan(ConvPass pass, const View& input, const View& weight, const View& out,
                      const ConvParams& params);

}  // namespace ferrite::kernels
