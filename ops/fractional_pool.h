// Max pooling over windows at random places, whose number need not divide the input's size (Graham,
// "Fractional Max-Pooling", 2014). Of [N, C, H, W] and [N, C, D, H, W], or the same without a
// batch; floating types.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/ops/pair.h"

namespace ferrite {

/// Options of the functions and of nn::FractionalMaxPool2d and FractionalMaxPool3d. Either the
/// output's size or its ratio to the input's, between 0 and 1, is given (ValueError).
template <int N>
struct FractionalMaxPoolOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  OptionalSizeOf<N> output_size = {};  ///< the size of the result; this or output_ratio is given
  /// The ratio of the result's size to the input's, between 0 and 1; this or output_size is given.
  std::optional<std::array<double, N>> output_ratio = {};
  /// PyTorch's _random_samples: [N, C, 2] or [N, C, 3] in [0, 1), for width and height, or for
  /// depth, height and width. They place the windows; drawn for each call if undefined.
  Tensor random_samples = {};
};
using FractionalMaxPool2dOptions = FractionalMaxPoolOptions<2>;
using FractionalMaxPool3dOptions = FractionalMaxPoolOptions<3>;

/// The maximum of each window; NaN if the window contains one. Each channel of each image has
/// places of its own. ShapeError for inputs of other ranks and for windows that do not fit;
/// ValueError for other options than above.
Tensor fractional_max_pool2d(const Tensor& input, Pair kernel_size,
                             const FractionalMaxPool2dOptions& options,
                             Generator* generator = nullptr);
/// Max pooling of three dimensions over windows at random places.
Tensor fractional_max_pool3d(const Tensor& input, Triple kernel_size,
                             const FractionalMaxPool3dOptions& options,
                             Generator* generator = nullptr);

/// Also returns the positions of the maxima: int64, row-major in the input's plane or volume.
std::pair<Tensor, Tensor> fractional_max_pool2d_with_indices(
    const Tensor& input, Pair kernel_size, const FractionalMaxPool2dOptions& options,
    Generator* generator = nullptr);
/// Max pooling of three dimensions over windows at random places, with the positions of the maxima.
std::pair<Tensor, Tensor> fractional_max_pool3d_with_indices(
    const Tensor& input, Triple kernel_size, const FractionalMaxPool3dOptions& options,
    Generator* generator = nullptr);

}  // namespace ferrite
