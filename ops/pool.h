// Pooling over the last two dimensions of [N, C, H, W] or [C, H, W]. Results keep the input's
// memory format (channels_last stays channels_last). Floating types only. ShapeError for inputs of
// other ranks, for empty channels or planes and for windows that leave no output; ValueError for
// sizes out of range. An empty batch gives an empty result.
#pragma once

#include <optional>
#include <utility>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/pair.h"

namespace ferrite {

namespace ops {
/// First member of an options struct: prevents `{3, 1}` from initializing its fields in order, so
/// that it can mean a Pair in overloads that take either. `{.kernel_size = 3}` is the struct.
struct NamedFieldsOnly {
  constexpr NamedFieldsOnly() {}
};
}  // namespace ops

struct MaxPool2dOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair kernel_size;
  Pair stride = kernel_size;
  Pair padding = 0;  ///< at most half the kernel; never selected as the maximum
  Pair dilation = 1;
  bool ceil_mode = false;  ///< also use windows that start inside the padded input but extend
                           ///< beyond it
};

/// The maximum of each window; NaN if the window contains one, -infinity if dilation leaves it in
/// the padding alone. `max_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1})`, or in
/// PyTorch's argument order.
Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& options);
Tensor max_pool2d(const Tensor& input, Pair kernel_size);
Tensor max_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  Pair dilation = 1, bool ceil_mode = false);

/// Also returns the positions of the maxima: int64, h * W + w in the input's plane, the first of
/// equal ones, -1 for a window in the padding alone.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input,
                                                  const MaxPool2dOptions& options);

struct AvgPool2dOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair kernel_size;
  Pair stride = kernel_size;
  Pair padding = 0;  ///< at most half the kernel; counted as zeros
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< divide by the padded window's size, else by the number of its
                                  ///< cells inside
  std::optional<std::int64_t> divisor_override = {};  ///< divide by this instead
};

/// The mean of each window.
Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& options);
Tensor avg_pool2d(const Tensor& input, Pair kernel_size);
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<std::int64_t> divisor_override = {});

/// Windows chosen to give `output_size`: from floor(i * in / out) to ceil((i + 1) * in / out).
Tensor adaptive_avg_pool2d(const Tensor& input, Pair output_size);
Tensor adaptive_max_pool2d(const Tensor& input, Pair output_size);
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input, Pair output_size);

}  // namespace ferrite
