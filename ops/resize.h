// Resampling of images.
#pragma once

#include <optional>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/kernels/resize.h"
#include "ferrite/ops/pair.h"
#include "ferrite/ops/pool.h"

namespace ferrite {

using kernels::InterpolateMode;  // nearest, bilinear

/// The mode, or its name: "nearest", "bilinear" (ValueError for other names).
struct InterpolateModeName {
  constexpr InterpolateModeName(InterpolateMode given) : mode(given) {}
  InterpolateModeName(std::string_view name);
  InterpolateModeName(const char* name) : InterpolateModeName(std::string_view(name)) {}
  constexpr operator InterpolateMode() const { return mode; }

  InterpolateMode mode;
};

/// Factors for height and width; a single number applies to both.
struct ScaleFactor {
  constexpr ScaleFactor(double both) : h(both), w(both) {}
  constexpr ScaleFactor(double height, double width) : h(height), w(width) {}

  double h;
  double w;

  friend bool operator==(const ScaleFactor&, const ScaleFactor&) = default;
};

/// The options of interpolate() and nn::Upsample.
struct InterpolateOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  // Exactly one of these two; 0 means "not given". Factors give sizes of floor(input * factor).
  Pair size = 0;                 ///< the size of the result: this, or scale_factor
  ScaleFactor scale_factor = 0;  ///< by how much sizes grow: this, or size
  InterpolateModeName mode = InterpolateMode::nearest;
  /// bilinear: whether the centres of the corner cells are aligned, rather than the corners of the
  /// image. Default: false.
  std::optional<bool> align_corners = {};
  /// Compute positions from the two sizes, not from the given factors.
  bool recompute_scale_factor = false;
};

/// [N, C, H, W] at another size: `interpolate(x, {.size = {224, 224}})`, or
/// `interpolate(x, {.scale_factor = 2, .mode = InterpolateMode::bilinear, .align_corners =
/// false})`. The values are torch.nn.functional.interpolate's, without antialiasing. Keeps the
/// memory format. Floating types (DTypeError); ShapeError for other ranks, for empty channels or
/// planes and for sizes below 1; ValueError for options that contradict each other. Differentiable
/// to any order; the gradient is computed in a fixed order.
Tensor interpolate(const Tensor& input, const InterpolateOptions& options);
/// To a size, [H, W] or one for both, as PyTorch's second argument: `interpolate(x, 224)`,
/// `interpolate(x, {224, 196}, "bilinear")`.
Tensor interpolate(const Tensor& input, Pair size,
                   InterpolateModeName mode = InterpolateMode::nearest,
                   std::optional<bool> align_corners = {});

}  // namespace ferrite
