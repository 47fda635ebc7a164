// Sampling images and volumes at given points (spatial transformers; Jaderberg et al., 2015).
#pragma once

#include "ferrite/core/choice.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// How values between pixels are made: from the 2 x 2 pixels around a point (2 x 2 x 2 of a volume,
/// trilinear), the nearest one, or the 4 x 4 pixels around it.
enum class GridSampleMode : std::uint8_t { bilinear, nearest, bicubic };
/// What is outside of the image: zeros, its nearest border, or its mirror image.
enum class GridSamplePadding : std::uint8_t { zeros, border, reflection };
template <>
struct detail::ChoiceNames<GridSampleMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::pair<const char*, GridSampleMode> kNames[] = {
      {"bilinear", GridSampleMode::bilinear},
      {"nearest", GridSampleMode::nearest},
      {"bicubic", GridSampleMode::bicubic}};
};
template <>
struct detail::ChoiceNames<GridSamplePadding> {
  static constexpr const char* kOption = "padding_mode";
  static constexpr std::pair<const char*, GridSamplePadding> kNames[] = {
      {"zeros", GridSamplePadding::zeros},
      {"border", GridSamplePadding::border},
      {"reflection", GridSamplePadding::reflection}};
};

/// The options of grid_sample().
struct GridSampleOptions {
  Choice<GridSampleMode> mode = GridSampleMode::bilinear;
  Choice<GridSamplePadding> padding_mode =
      GridSamplePadding::zeros;  ///< what lies outside of the image
  /// Whether -1 and 1 are the centres of the corner pixels, rather than the corners of the image.
  bool align_corners = false;
};

/// [N, C, H, W] at the points (x, y) of `grid` [N, h, w, 2], which are -1 and 1 at the edges: [N,
/// C, h, w]; or volumes [N, C, D, H, W] at the points (x, y, z) of a grid [N, d, h, w, 3]: [N, C,
/// d, h, w]. Floating types (DTypeError), the same of both; ShapeError for other shapes, for images
/// without pixels, and for the mode bicubic of volumes. Points that are NaN count as -1. Positions
/// are computed in float32 for 16-bit types. Differentiable to any order, in both (nearest: not in
/// the grid).
Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleOptions& options = {});

/// The grid for grid_sample() of shape [N, h, w, 2] that the matrices `theta` [N, 2, 3] make of
/// that of an image of `size` (N, C, h, w); or [N, d, h, w, 3], of matrices [N, 3, 4] and a volume
/// of `size` (N, C, d, h, w). ShapeError for other shapes.
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);

}  // namespace ferrite
