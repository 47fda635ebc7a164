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

/// Of the function and of nn::MaxPool2d.
struct MaxPool2dOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalPair kernel_size = {};  ///< either here or as an argument (ValueError)
  OptionalPair stride = {};       ///< the kernel's size where it is not given
  Pair padding = 0;               ///< at most half the kernel; never selected as the maximum
  Pair dilation = 1;
  bool ceil_mode = false;  ///< also use windows that start inside the padded input but extend
                           ///< beyond it
};

/// The maximum of each window; NaN if the window contains one, -infinity if dilation leaves it in
/// the padding alone. `max_pool2d(x, 3, {.stride = 2, .padding = 1})`, all by name with
/// {.kernel_size = 3, ...}, or in PyTorch's argument order.
Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& options);
Tensor max_pool2d(const Tensor& input, Pair kernel_size, const MaxPool2dOptions& options = {});
Tensor max_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  Pair dilation = 1, bool ceil_mode = false);

/// Also returns the positions of the maxima: int64, h * W + w in the input's plane, the first of
/// equal ones, -1 for a window in the padding alone.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input,
                                                  const MaxPool2dOptions& options);

/// Of the function and of nn::AvgPool2d.
struct AvgPool2dOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalPair kernel_size = {};  ///< either here or as an argument (ValueError)
  OptionalPair stride = {};       ///< the kernel's size where it is not given
  Pair padding = 0;               ///< at most half the kernel; counted as zeros
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< divide by the padded window's size, else by the number of its
                                  ///< cells inside
  std::optional<std::int64_t> divisor_override = {};  ///< divide by this instead
};

/// The mean of each window.
Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& options);
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, const AvgPool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<std::int64_t> divisor_override = {});

namespace ops {
/// `options` with the kernel's size that was given besides them; ValueError if they have another.
template <class Options>
Options with_kernel_size(Options options, Pair kernel_size, const char* op) {
  FERRITE_CHECK(options.kernel_size.value_or(kernel_size) == kernel_size, ValueError, op,
                "kernel_size is given twice: as an argument and in the options");
  options.kernel_size = kernel_size;
  return options;
}
}  // namespace ops

/// Windows chosen to give `output_size`: from floor(i * in / out) to ceil((i + 1) * in / out).
Tensor adaptive_avg_pool2d(const Tensor& input, Pair output_size);
Tensor adaptive_max_pool2d(const Tensor& input, Pair output_size);
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input, Pair output_size);

}  // namespace ferrite
