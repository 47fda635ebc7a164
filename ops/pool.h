// Pooling over the last dimensions: of [N, C, L], [N, C, H, W] and [N, C, D, H, W], or the same
// without a batch. Results in two dimensions keep the input's memory format (channels_last stays
// channels_last). One dimension is a plane of one row. Three are one pooling of the planes, then
// one along the depth: maxima and means of a box can be taken one dimension after another. (In 16
// bits the mean is rounded after each.) Floating types only. ShapeError for inputs of other ranks,
// for empty channels or planes and for windows that leave no output; ValueError for sizes out of
// range. An empty batch gives an empty result.
#pragma once

#include <optional>
#include <utility>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/pair.h"

namespace ferrite {

/// Options of the functions and of nn::MaxPool1d to MaxPool3d.
template <int N>
struct MaxPoolOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalSizeOf<N> kernel_size = {};  ///< either here or as an argument (ValueError)
  OptionalSizeOf<N> stride = {};       ///< the kernel's size where it is not given
  SizeOf<N> padding = 0;               ///< at most half the kernel; never selected as the maximum
  SizeOf<N> dilation = 1;
  bool ceil_mode = false;  ///< also use windows that start inside the padded input but extend
                           ///< beyond it
};
using MaxPool1dOptions = MaxPoolOptions<1>;
using MaxPool2dOptions = MaxPoolOptions<2>;
using MaxPool3dOptions = MaxPoolOptions<3>;

/// The maximum of each window; NaN if the window contains one, -infinity if dilation leaves it in
/// the padding alone. `max_pool2d(x, 3, {.stride = 2, .padding = 1})`, all by name with
/// {.kernel_size = 3, ...}, or in PyTorch's argument order.
Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& options);
Tensor max_pool2d(const Tensor& input, Pair kernel_size, const MaxPool2dOptions& options = {});
Tensor max_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  Pair dilation = 1, bool ceil_mode = false);
/// The largest value of each window of [N, C, L] or [C, L].
Tensor max_pool1d(const Tensor& input, const MaxPool1dOptions& options);
Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size,
                  const MaxPool1dOptions& options = {});
/// The largest value of each window of [N, C, D, H, W] or [C, D, H, W].
Tensor max_pool3d(const Tensor& input, const MaxPool3dOptions& options);
Tensor max_pool3d(const Tensor& input, Triple kernel_size, const MaxPool3dOptions& options = {});

/// Also returns the positions of the maxima: int64, row-major in the input's line, plane or volume,
/// the first of equal ones, -1 for a window in the padding alone.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input,
                                                  const MaxPool2dOptions& options);
/// The largest value of each window of [N, C, L] or [C, L], and its position, int64.
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input,
                                                  const MaxPool1dOptions& options);
/// The largest value of each window of [N, C, D, H, W] or [C, D, H, W], and its position, int64.
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input,
                                                  const MaxPool3dOptions& options);

/// Options of the functions and of nn::AvgPool1d to AvgPool3d.
template <int N>
struct AvgPoolOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalSizeOf<N> kernel_size = {};  ///< either here or as an argument (ValueError)
  OptionalSizeOf<N> stride = {};       ///< the kernel's size where it is not given
  SizeOf<N> padding = 0;               ///< at most half the kernel; counted as zeros
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< divide by the padded window's size, else by the number of its
                                  ///< cells inside
  /// Divide by this instead; PyTorch's avg_pool1d has no such option.
  std::optional<std::int64_t> divisor_override = {};
};
using AvgPool1dOptions = AvgPoolOptions<1>;
using AvgPool2dOptions = AvgPoolOptions<2>;
using AvgPool3dOptions = AvgPoolOptions<3>;

/// The mean of each window.
Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& options);
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, const AvgPool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<std::int64_t> divisor_override = {});
/// The mean of each window of [N, C, L] or [C, L].
Tensor avg_pool1d(const Tensor& input, const AvgPool1dOptions& options);
Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size,
                  const AvgPool1dOptions& options = {});
/// The mean of each window of [N, C, D, H, W] or [C, D, H, W].
Tensor avg_pool3d(const Tensor& input, const AvgPool3dOptions& options);
Tensor avg_pool3d(const Tensor& input, Triple kernel_size, const AvgPool3dOptions& options = {});

namespace ops {
/// `options` with the kernel's size that was given besides them; ValueError if they have another.
template <class Options>
Options with_kernel_size(Options options, decltype(Options::padding) kernel_size, const char* op) {
  FERRITE_CHECK(options.kernel_size.value_or(kernel_size) == kernel_size, ValueError, op,
                "kernel_size is given twice: as an argument and in the options");
  options.kernel_size = kernel_size;
  return options;
}
}  // namespace ops

/// Windows chosen to give `output_size`: from floor(i * in / out) to ceil((i + 1) * in / out).
Tensor adaptive_avg_pool2d(const Tensor& input, Pair output_size);
/// The means of windows that are chosen so that [N, C, L] becomes [N, C, output_size].
Tensor adaptive_avg_pool1d(const Tensor& input, std::int64_t output_size);
/// The means of windows that are chosen so that the last three dimensions get this size.
Tensor adaptive_avg_pool3d(const Tensor& input, Triple output_size);
/// The largest values of windows that are chosen so that the result has this size.
Tensor adaptive_max_pool2d(const Tensor& input, Pair output_size);
/// The largest values of windows that are chosen so that the result has this size.
Tensor adaptive_max_pool1d(const Tensor& input, std::int64_t output_size);
/// The largest values of windows that are chosen so that the result has this size.
Tensor adaptive_max_pool3d(const Tensor& input, Triple output_size);
/// The largest values of windows that are chosen so that the result has this size, and their
/// positions, int64.
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input, Pair output_size);
/// The largest values of windows that are chosen so that the result has this size, and their
/// positions, int64.
std::pair<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& input,
                                                           std::int64_t output_size);
/// The largest values of windows that are chosen so that the result has this size, and their
/// positions, int64.
std::pair<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& input, Triple output_size);

/// Options of nn::LPPool1d to LPPool3d.
template <int N>
struct LPPoolOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalSizeOf<N> stride = {};  ///< the kernel's size where it is not given
  bool ceil_mode = false;
};
using LPPool1dOptions = LPPoolOptions<1>;
using LPPool2dOptions = LPPoolOptions<2>;
using LPPool3dOptions = LPPoolOptions<3>;

/// (sum of x^p)^(1/p) of each window, for p = `norm_type`, with the sum of a window cut off at the
/// end scaled to a whole one, as in PyTorch, whose gradient of a window of zeros is NaN, too.
/// ValueError if `norm_type` is 0.
Tensor lp_pool1d(const Tensor& input, double norm_type, std::int64_t kernel_size,
                 const LPPool1dOptions& options = {});
/// The p-norm of each window.
Tensor lp_pool2d(const Tensor& input, double norm_type, Pair kernel_size,
                 const LPPool2dOptions& options = {});
/// The p-norm of each window.
Tensor lp_pool3d(const Tensor& input, double norm_type, Triple kernel_size,
                 const LPPool3dOptions& options = {});

/// Options of nn::MaxUnpool1d to MaxUnpool3d.
template <int N>
struct MaxUnpoolOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalSizeOf<N> stride = {};  ///< the kernel's size where it is not given
  SizeOf<N> padding = 0;
  OptionalSizeOf<N> output_size = {};  ///< (in - 1) * stride - 2 * padding + kernel if not given
};
using MaxUnpool1dOptions = MaxUnpoolOptions<1>;
using MaxUnpool2dOptions = MaxUnpoolOptions<2>;
using MaxUnpool3dOptions = MaxUnpoolOptions<3>;

/// Zeros with the elements of `input` at `indices`, as max_pool..._with_indices gives them: a
/// partial inverse of it. Of elements for one place the last is written. ShapeError unless `input`
/// and `indices` agree in shape, IndexError for an index out of range.
Tensor max_unpool1d(const Tensor& input, const Tensor& indices, std::int64_t kernel_size,
                    const MaxUnpool1dOptions& options = {});
/// Values at the places that max pooling gave, zeros elsewhere.
Tensor max_unpool2d(const Tensor& input, const Tensor& indices, Pair kernel_size,
                    const MaxUnpool2dOptions& options = {});
/// Values at the places that max pooling gave, zeros elsewhere.
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, Triple kernel_size,
                    const MaxUnpool3dOptions& options = {});

}  // namespace ferrite
