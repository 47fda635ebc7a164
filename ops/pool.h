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
  OptionalSizeOf<N> kernel_size = {};  ///< needed, here or as an argument (ValueError)
  OptionalSizeOf<N> stride = {};       ///< the kernel's size where it is not given
  SizeOf<N> padding = 0;               ///< at most half the kernel; never selected as the maximum
  SizeOf<N> dilation = 1;
  bool ceil_mode = false;  ///< also use windows that start in the input or the padding before it
                           ///< but extend beyond the padded input
};
using MaxPool1dOptions = MaxPoolOptions<1>;
using MaxPool2dOptions = MaxPoolOptions<2>;
using MaxPool3dOptions = MaxPoolOptions<3>;

/// The maximum of each window of [N, C, H, W] or [C, H, W]: [N, C, H', W'] or [C, H', W'], with
/// H' = (H + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down (with ceil_mode up),
/// and W' likewise. It is NaN if the window contains one, and -infinity if dilation leaves the
/// window in the padding alone.
///
/// DTypeError for other than floating types. ValueError for a kernel_size, stride or dilation below
/// 1, a padding outside 0 to half the kernel_size, and a kernel_size that is missing or given
/// twice. ShapeError for other ranks, for empty channels or planes, and where no window fits.
///
///   Tensor x = randn({8, 64, 112, 112});
///   Tensor y = max_pool2d(x, 3, {.stride = 2, .padding = 1});  // [8, 64, 56, 56]
Tensor max_pool2d(const Tensor& input, const MaxPool2dOptions& options);
Tensor max_pool2d(const Tensor& input, Pair kernel_size, const MaxPool2dOptions& options = {});
/// As above, with the options as arguments in PyTorch's order: `max_pool2d(x, 3, 2, 1)`.
Tensor max_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  Pair dilation = 1, bool ceil_mode = false);
/// The maximum of each window of [N, C, L] or [C, L]: [N, C, L'] or [C, L'], with
/// L' = (L + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down (with ceil_mode up).
/// Values and errors as for max_pool2d().
Tensor max_pool1d(const Tensor& input, const MaxPool1dOptions& options);
Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size,
                  const MaxPool1dOptions& options = {});
/// The maximum of each window of [N, C, D, H, W] or [C, D, H, W]: [N, C, D', H', W'] or
/// [C, D', H', W'], with sizes, values and errors as for max_pool2d().
Tensor max_pool3d(const Tensor& input, const MaxPool3dOptions& options);
Tensor max_pool3d(const Tensor& input, Triple kernel_size, const MaxPool3dOptions& options = {});

/// max_pool2d() and the positions of the maxima, int64 of the same shape, as max_unpool2d() takes
/// them: the position (y, x) of a plane is y * W + x; of equal maxima the first; -1 for a window in
/// the padding alone.
///
///   auto [y, indices] = max_pool2d_with_indices(x, {.kernel_size = 2});
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input,
                                                  const MaxPool2dOptions& options);
/// max_pool1d() and the positions of the maxima, int64 of the same shape.
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input,
                                                  const MaxPool1dOptions& options);
/// max_pool3d() and the positions of the maxima, int64 of the same shape: the position (z, y, x) of
/// a volume is (z * H + y) * W + x.
std::pair<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input,
                                                  const MaxPool3dOptions& options);

/// Options of the functions and of nn::AvgPool1d to AvgPool3d.
template <int N>
struct AvgPoolOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalSizeOf<N> kernel_size = {};  ///< needed, here or as an argument (ValueError)
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

/// The mean of each window of [N, C, H, W] or [C, H, W]: [N, C, H', W'] or [C, H', W'], with
/// H' = (H + 2 padding - kernel) / stride + 1, rounded down (with ceil_mode up), and W' likewise.
/// Errors as for max_pool2d(); ValueError also for a divisor_override of 0.
///
///   Tensor y = avg_pool2d(randn({8, 6, 28, 28}), 2);  // [8, 6, 14, 14]
Tensor avg_pool2d(const Tensor& input, const AvgPool2dOptions& options);
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, const AvgPool2dOptions& options = {});
/// As above, with the options as arguments in PyTorch's order.
Tensor avg_pool2d(const Tensor& input, Pair kernel_size, Pair stride, Pair padding = 0,
                  bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<std::int64_t> divisor_override = {});
/// The mean of each window of [N, C, L] or [C, L]: [N, C, L'] or [C, L'], with
/// L' = (L + 2 padding - kernel) / stride + 1, rounded down (with ceil_mode up). Errors as for
/// avg_pool2d().
Tensor avg_pool1d(const Tensor& input, const AvgPool1dOptions& options);
Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size,
                  const AvgPool1dOptions& options = {});
/// The mean of each window of [N, C, D, H, W] or [C, D, H, W]: [N, C, D', H', W'] or
/// [C, D', H', W'], with sizes and errors as for avg_pool2d().
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

/// The means of windows that are chosen so that [N, C, H, W] becomes [N, C, *output_size], and
/// [C, H, W] becomes [C, *output_size]: window i reaches from floor(i * in / out) to
/// ceil((i + 1) * in / out). ValueError for an output_size below 1; other errors as for
/// max_pool2d().
///
///   Tensor y = adaptive_avg_pool2d(randn({8, 512, 7, 7}), 1);  // [8, 512, 1, 1]
Tensor adaptive_avg_pool2d(const Tensor& input, Pair output_size);
/// The means of windows that are chosen so that [N, C, L] becomes [N, C, output_size], and [C, L]
/// becomes [C, output_size]. Windows and errors as for adaptive_avg_pool2d().
Tensor adaptive_avg_pool1d(const Tensor& input, std::int64_t output_size);
/// The means of windows that are chosen so that [N, C, D, H, W] becomes [N, C, *output_size], and
/// [C, D, H, W] becomes [C, *output_size]. Windows and errors as for adaptive_avg_pool2d().
Tensor adaptive_avg_pool3d(const Tensor& input, Triple output_size);
/// The maxima of the windows of adaptive_avg_pool2d(): [N, C, *output_size] of [N, C, H, W], or
/// [C, *output_size] of [C, H, W]. Errors as there.
Tensor adaptive_max_pool2d(const Tensor& input, Pair output_size);
/// The maxima of the windows of adaptive_avg_pool1d(): [N, C, output_size] of [N, C, L], or
/// [C, output_size] of [C, L]. Errors as there.
Tensor adaptive_max_pool1d(const Tensor& input, std::int64_t output_size);
/// The maxima of the windows of adaptive_avg_pool3d(): [N, C, *output_size] of [N, C, D, H, W], or
/// [C, *output_size] of [C, D, H, W]. Errors as there.
Tensor adaptive_max_pool3d(const Tensor& input, Triple output_size);
/// adaptive_max_pool2d() and the positions of the maxima, int64 of the same shape, as
/// max_pool2d_with_indices() gives them.
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input, Pair output_size);
/// adaptive_max_pool1d() and the positions of the maxima, int64 of the same shape, as
/// max_pool1d_with_indices() gives them.
std::pair<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& input,
                                                           std::int64_t output_size);
/// adaptive_max_pool3d() and the positions of the maxima, int64 of the same shape, as
/// max_pool3d_with_indices() gives them.
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

/// The p-norm of each window of [N, C, L] or [C, L]: (sum of x^p)^(1/p) for p = `norm_type`,
/// [N, C, L'] or [C, L'] with L' = (L - kernel_size) / stride + 1, rounded down (with ceil_mode
/// up). The sum of a window cut off at the end is scaled to a whole one. For p = infinity it is the
/// largest |x|, for minus infinity the smallest, as in PyTorch. The gradient of a window of zeros
/// is NaN, as there. ValueError if `norm_type` is 0; other errors as for avg_pool2d().
Tensor lp_pool1d(const Tensor& input, double norm_type, std::int64_t kernel_size,
                 const LPPool1dOptions& options = {});
/// The p-norm of each window of [N, C, H, W] or [C, H, W], with values, sizes and errors as for
/// lp_pool1d().
Tensor lp_pool2d(const Tensor& input, double norm_type, Pair kernel_size,
                 const LPPool2dOptions& options = {});
/// The p-norm of each window of [N, C, D, H, W] or [C, D, H, W], with values, sizes and errors as
/// for lp_pool1d().
Tensor lp_pool3d(const Tensor& input, double norm_type, Triple kernel_size,
                 const LPPool3dOptions& options = {});

/// Options of nn::MaxUnpool1d to MaxUnpool3d.
template <int N>
struct MaxUnpoolOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalSizeOf<N> stride = {};  ///< the kernel's size where it is not given
  SizeOf<N> padding = 0;
  /// (in - 1) * stride - 2 * padding + kernel if not given, else nearer to it than a stride
  /// (ValueError).
  OptionalSizeOf<N> output_size = {};
};
using MaxUnpool1dOptions = MaxUnpoolOptions<1>;
using MaxUnpool2dOptions = MaxUnpoolOptions<2>;
using MaxUnpool3dOptions = MaxUnpoolOptions<3>;

/// A partial inverse of max_pool1d_with_indices(): zeros [N, C, L'] or [C, L'] with the elements of
/// `input` [N, C, L] or [C, L] at `indices`, int64 or int32 of the same shape. Of elements for one
/// place the last is written. L' is the output_size, by default
/// (L - 1) * stride - 2 * padding + kernel_size. ShapeError unless `input` and `indices` agree in
/// shape, IndexError for an index out of range.
Tensor max_unpool1d(const Tensor& input, const Tensor& indices, std::int64_t kernel_size,
                    const MaxUnpool1dOptions& options = {});
/// A partial inverse of max_pool2d_with_indices(): [N, C, H', W'] of [N, C, H, W], or the same
/// without N, with values, sizes and errors as for max_unpool1d().
///
///   auto [y, indices] = max_pool2d_with_indices(x, {.kernel_size = 2});
///   Tensor back = max_unpool2d(y, indices, 2);  // x with zeros beside the maxima
Tensor max_unpool2d(const Tensor& input, const Tensor& indices, Pair kernel_size,
                    const MaxUnpool2dOptions& options = {});
/// A partial inverse of max_pool3d_with_indices(): [N, C, D', H', W'] of [N, C, D, H, W], or the
/// same without N, with values, sizes and errors as for max_unpool1d().
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, Triple kernel_size,
                    const MaxUnpool3dOptions& options = {});

}  // namespace ferrite
