// Convolutions. The result is channels-last where the input's or the weight's
// suggest_memory_format() is, else contiguous; nothing is copied to get there. float32, float64,
// float16 and bfloat16; operands share dtype and device (DTypeError, DeviceError), ShapeError where
// sizes do not fit.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/ops/channel_statistics.h"
#include "ferrite/ops/pair.h"

namespace ferrite {

/// Zeros around the input: a number, a pair, or Padding::same, with which the result has the
/// input's size (stride 1 only; where the padding is odd the extra row or column is at the end).
struct Padding {
  struct Same {};
  static constexpr Same same{};

  constexpr Padding(std::int64_t both) : size(both) {}
  constexpr Padding(std::int64_t height, std::int64_t width) : size(height, width) {}
  constexpr Padding(Pair pair) : size(pair) {}
  constexpr Padding(Same) : size(0), is_same(true) {}

  Pair size;
  bool is_same = false;
};

/// Of the function; nn::Conv2dOptions are those of the layer.
struct Conv2dFuncOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair stride = 1;
  Padding padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
};

/// input [N, C, H, W] or [C, H, W], weight [O, C / groups, KH, KW], bias [O] or undefined.
/// The result is [N, O, (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, ...].
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv2dFuncOptions& options = {});
/// In PyTorch's order.
inline Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, Pair stride,
                     Padding padding = 0, Pair dilation = 1, std::int64_t groups = 1) {
  return conv2d(input, weight, bias,
                {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
}

/// relu(conv2d(...)), the sums rectified on their way to memory.
Tensor conv2d_relu(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                   const Conv2dFuncOptions& options = {});

struct ConvStatistics {
  Tensor output;
  ChannelStatistics statistics;
};
/// conv2d(), for an input [N, C, H, W], and the statistics of its output, for a batch_norm in
/// training behind it: where cuDNN can it adds them up as it writes the output
/// (cudnn::set_fused_statistics), which the batch norm then need not read for them.
ConvStatistics conv2d_statistics(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                                 const Conv2dFuncOptions& options = {});

struct Conv1dFuncOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};

/// input [N, C, L] or [C, L], weight [O, C / groups, K], bias [O] or undefined.
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv1dFuncOptions& options = {});

struct ConvTranspose2dFuncOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair stride = 1;
  Pair padding = 0;
  Pair output_padding = 0;  ///< below the stride or the dilation; rows and columns at the end
  std::int64_t groups = 1;
  Pair dilation = 1;
};

/// The gradient of conv2d by its input, as an operation: input [N, C, H, W] or [C, H, W], weight
/// [C, O / groups, KH, KW], bias [O] or undefined. The result is
/// [N, O, (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1, ...].
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dFuncOptions& options = {});
/// In PyTorch's order.
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

}  // namespace ferrite
