// Sampling images at given points (spatial transformers; Jaderberg et al., 2015).
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

/// How values between pixels are made.
enum class GridSampleMode : std::uint8_t { bilinear, nearest };
/// What is outside of the image: zeros, its nearest border, or its mirror image.
enum class GridSamplePadding : std::uint8_t { zeros, border, reflection };

/// The options of grid_sample().
struct GridSampleOptions {
  GridSampleMode mode = GridSampleMode::bilinear;
  GridSamplePadding padding_mode = GridSamplePadding::zeros;  ///< what lies outside of the image
  /// Whether -1 and 1 are the centres of the corner pixels, rather than the corners of the image.
  bool align_corners = false;
};

/// [N, C, H, W] at the points (x, y) of `grid` [N, h, w, 2], which are -1 and 1 at the edges: [N,
/// C, h, w]. Floating types (DTypeError), the same of both; ShapeError for other shapes and for
/// images without pixels. Points that are NaN count as -1. Positions are computed in float32 for
/// 16-bit types. Differentiable to any order, in both (nearest: not in the grid).
Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleOptions& options = {});

/// The grid for grid_sample() of shape [N, h, w, 2] that the matrices `theta` [N, 2, 3] make of
/// that of an image of `size` (N, C, h, w).
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);

}  // namespace ferrite
