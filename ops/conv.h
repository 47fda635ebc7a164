// Convolutions. The result is channels-last where the input's or the weight's
// suggest_memory_format() is, or the weight lies as [H, W, C, O] in memory, else contiguous;
// nothing is copied to get there.
//
// Operands are float32, float64, float16 or bfloat16, and share dtype and device (DTypeError,
// DeviceError), which the result has. ShapeError where numbers of dimensions, channels or sizes do
// not fit: the kernel is larger than the padded input, `groups` does not divide the channels, or
// the bias is not [O]. ValueError for an undefined input or weight, a stride, dilation or groups
// below 1 and a negative padding.
#pragma once

#include <cstddef>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/channel_statistics.h"
#include "ferrite/ops/pair.h"
#include "ferrite/ops/pool.h"

namespace ferrite {

/// Zeros around the input of N dimensions: a number, one for each dimension, or Padding::same, with
/// which the result has the input's size (stride 1 only; where the padding is odd the extra element
/// is at the end).
template <int N>
struct PaddingOf {
  /// The type of `same`, the padding that keeps the input's size.
  struct Same {};
  static constexpr Same same{};  ///< the padding with which the result has the input's size

  constexpr PaddingOf(std::int64_t all) : size(all) {}
  constexpr PaddingOf(std::int64_t height, std::int64_t width) requires(N == 2)
      : size(height, width) {}
  constexpr PaddingOf(std::int64_t depth, std::int64_t height, std::int64_t width) requires(N == 3)
      : size(depth, height, width) {}
  constexpr PaddingOf(SizeOf<N> sizes) requires(N > 1) : size(sizes) {}
  constexpr PaddingOf(Same) : size(0), is_same(true) {}
  /// "same", or "valid" for none (ValueError). An array, so that 0 is a number.
  template <std::size_t n>
  PaddingOf(const char (&name)[n]) : size(0), is_same(name == std::string_view("same")) {
    FERRITE_CHECK(is_same || name == std::string_view("valid"), ValueError, "conv",
                  "expected a padding of numbers, \"same\" or \"valid\", got \"{}\"", name);
  }

  SizeOf<N> size;        ///< the numbers, where it is not "same"
  bool is_same = false;  ///< whether the padding is `same`
};
using Padding1d = PaddingOf<1>;  ///< the padding of one dimension
using Padding = PaddingOf<2>;    ///< the padding of two dimensions
using Padding3d = PaddingOf<3>;  ///< the padding of three dimensions

/// Options of the function; those of the layer are nn::Conv2dOptions.
struct Conv2dFuncOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair stride = 1;
  Padding padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
};

/// Convolves input [N, C, H, W] or [C, H, W] with weight [O, C / groups, KH, KW] and adds bias [O],
/// if it is defined. The result is [N, O, H', W'] or [O, H', W'], with
/// H' = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, rounded down, and W' likewise.
///
/// ValueError for a stride, a dilation or groups below 1, a padding below 0, and Padding::same with
/// another stride than 1. ShapeError unless groups divides O, the input has as many channels as the
/// weight and the groups take, and the kernel fits into the padded input. DTypeError and
/// DeviceError unless all operands agree.
///
///   Tensor x = randn({8, 3, 32, 32}), weight = randn({16, 3, 3, 3});
///   Tensor y = conv2d(x, weight, {}, {.stride = 2, .padding = 1});  // [8, 16, 16, 16]
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv2dFuncOptions& options = {});
/// As above, with the options as arguments in PyTorch's order.
inline Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, Pair stride,
                     Padding padding = 0, Pair dilation = 1, std::int64_t groups = 1) {
  return conv2d(input, weight, bias,
                {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
}

/// relu(conv2d(...)), with the ReLU fused into the convolution where the device can. Shapes and
/// errors are those of conv2d().
Tensor conv2d_relu(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                   const Conv2dFuncOptions& options = {});

/// max_pool2d(conv2d_relu(...), pool), for an input [N, C, H, W] (ShapeError): only the pooled
/// result is kept for the gradient, which goes through the pooling and the ReLU in one pass.
Tensor conv2d_relu_max_pool(const Tensor& input, const Tensor& weight, const Tensor& bias,
                            const Conv2dFuncOptions& options, const MaxPool2dOptions& pool);

/// A convolution's result and the statistics of its channels, for a batch norm that follows.
struct ConvStatistics {
  Tensor output;                 ///< the result
  ChannelStatistics statistics;  ///< mean and variance of each channel of the result
};
/// conv2d(), for an input [N, C, H, W] (ShapeError), and the statistics of its output, for a
/// batch_norm in training behind it. Where cuDNN supports it, it adds them up as it writes the
/// output (cudnn::set_fused_statistics), which the batch norm then need not read for them.
ConvStatistics conv2d_statistics(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                                 const Conv2dFuncOptions& options = {});

namespace ops {

/// conv2d_statistics(), whose statistics may be sums (ChannelStatistics::are_sums): for batch_norm.
ConvStatistics conv2d_sums(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const Conv2dFuncOptions& options);

}  // namespace ops

struct Conv1dFuncOptions {
  std::int64_t stride = 1;
  Padding1d padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};

/// Convolves input [N, C, L] or [C, L] with weight [O, C / groups, K] and adds bias [O], if it is
/// defined. The result is [N, O, L'] or [O, L'], with
/// L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down. Errors as for conv2d().
///
///   Tensor x = randn({20, 16, 50}), weight = randn({33, 16, 3});
///   Tensor y = conv1d(x, weight, {}, {.stride = 2});  // [20, 33, 24]
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv1dFuncOptions& options = {});

struct Conv3dFuncOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Triple stride = 1;
  Padding3d padding = 0;
  Triple dilation = 1;
  std::int64_t groups = 1;
};

/// Convolves input [N, C, D, H, W] or [C, D, H, W] with weight [O, C / groups, KD, KH, KW] and adds
/// bias [O], if it is defined. The result is [N, O, D', H', W'] or [O, D', H', W'], with
/// D' = (D + 2 padding - dilation (KD - 1) - 1) / stride + 1, rounded down, and H' and W' likewise.
/// Errors as for conv2d().
///
/// It is one conv2d over the slices of the result: the KD slices of the input that each of them
/// sees are its channels. This takes KD times the memory of the input, and no more where KD is 1.
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv3dFuncOptions& options = {});

struct ConvTranspose2dFuncOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair stride = 1;
  Pair padding = 0;
  Pair output_padding = 0;  ///< below the stride or the dilation; rows and columns at the end
  std::int64_t groups = 1;
  Pair dilation = 1;
};

/// The gradient of conv2d by its input, as an operation: input [N, C, H, W] or [C, H, W], weight
/// [C, O / groups, KH, KW], bias [O] or undefined. The result is [N, O, H', W'] or [O, H', W'],
/// with H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1, and W' likewise.
///
/// ValueError for a stride, a dilation or groups below 1, a padding below 0, and an output_padding
/// that is not below the stride or the dilation. ShapeError unless groups divides C, the input has
/// C channels, and H' and W' are above 0. DTypeError and DeviceError unless all operands agree.
///
///   Tensor x = randn({2, 16, 8, 8}), weight = randn({16, 8, 4, 4});
///   Tensor y = conv_transpose2d(x, weight, {}, {.stride = 2, .padding = 1});  // [2, 8, 16, 16]
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dFuncOptions& options = {});
/// As above, with the options as arguments in PyTorch's order.
inline Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                               Pair stride, Pair padding = 0, Pair output_padding = 0,
                               std::int64_t groups = 1, Pair dilation = 1) {
  return conv_transpose2d(input, weight, bias,
                          {.stride = stride,
                           .padding = padding,
                           .output_padding = output_padding,
                           .groups = groups,
                           .dilation = dilation});
}

struct ConvTranspose1dFuncOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t groups = 1;
  std::int64_t dilation = 1;
};

/// The gradient of conv1d by its input, as an operation: input [N, C, L] or [C, L], weight
/// [C, O / groups, K], bias [O] or undefined. The result is [N, O, L'] or [O, L'], with
/// L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1. Errors as for
/// conv_transpose2d().
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dFuncOptions& options = {});

struct ConvTranspose3dFuncOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Triple stride = 1;
  Triple padding = 0;
  Triple output_padding = 0;
  std::int64_t groups = 1;
  Triple dilation = 1;
};

/// The gradient of conv3d by its input, as an operation: input [N, C, D, H, W] or [C, D, H, W],
/// weight [C, O / groups, KD, KH, KW], bias [O] or undefined. The result is [N, O, D', H', W'] or
/// [O, D', H', W'], with D' = (D - 1) stride - 2 padding + dilation (KD - 1) + output_padding + 1,
/// and H' and W' likewise. Errors as for conv_transpose2d().
///
/// It is one conv_transpose2d over the slices of the input, whose results for each of the KD slices
/// of the kernel are then added along the depth, in a fixed order.
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dFuncOptions& options = {});

}  // namespace ferrite
