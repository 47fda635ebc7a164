// Resampling of sequences, images and volumes.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "ferrite/core/choice.h"
#include "ferrite/core/tensor.h"
#include "ferrite/ops/pair.h"
#include "ferrite/ops/pool.h"

namespace ferrite {

/// How interpolate() makes values between elements. The names are PyTorch's; linear, bilinear and
/// trilinear are one method, for inputs of 3, 4 and 5 dimensions.
enum class InterpolateMode : std::uint8_t {
  nearest,        ///< the element that contains the result's first corner: floor(i * in / out)
  bilinear,       ///< [N, C, H, W]: weighted means of two elements for each dimension
  nearest_exact,  ///< the element that contains the result's centre: floor((i + 0.5) * in / out)
  linear,         ///< [N, C, L]: weighted means of two elements
  bicubic,        ///< [N, C, H, W]: cubic convolution of four elements for each dimension
  trilinear,      ///< [N, C, D, H, W]: weighted means of two elements for each dimension
  area            ///< means of windows: adaptive average pooling
};

template <>
struct detail::ChoiceNames<InterpolateMode> {
  static constexpr const char* kOption = "interpolate";
  static constexpr std::pair<const char*, InterpolateMode> kNames[] = {
      {"nearest", InterpolateMode::nearest}, {"nearest-exact", InterpolateMode::nearest_exact},
      {"linear", InterpolateMode::linear},   {"bilinear", InterpolateMode::bilinear},
      {"bicubic", InterpolateMode::bicubic}, {"trilinear", InterpolateMode::trilinear},
      {"area", InterpolateMode::area}};
};

namespace ops {
/// Numbers for up to three dimensions, the outermost first; a single number applies to all of them.
template <class T>
struct PerDim {
  constexpr PerDim(T all) : count(1), d(all), h(all), w(all) {}
  constexpr PerDim(T height, T width) : count(2), d(0), h(height), w(width) {}
  constexpr PerDim(T depth, T height, T width) : count(3), d(depth), h(height), w(width) {}

  int count;  ///< how many were given
  T d;        ///< depth
  T h;        ///< height
  T w;        ///< width, or the length of a sequence

  friend bool operator==(const PerDim&, const PerDim&) = default;
};
}  // namespace ops

/// Factors for depth, height and width, or height and width; a single number applies to all.
using ScaleFactor = ops::PerDim<double>;

/// Sizes of depth, height and width, or height and width; a single number applies to all.
struct InterpolateSize : ops::PerDim<std::int64_t> {
  using ops::PerDim<std::int64_t>::PerDim;
  constexpr InterpolateSize(Pair size) : PerDim(size.h, size.w) {}
  constexpr InterpolateSize(Triple size) : PerDim(size.d, size.h, size.w) {}
};

/// The options of interpolate() and nn::Upsample.
struct InterpolateOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  // Exactly one of these two; 0 means "not given". Factors give sizes of floor(input * factor).
  InterpolateSize size = 0;      ///< the size of the result: this, or scale_factor
  ScaleFactor scale_factor = 0;  ///< by how much sizes grow: this, or size
  Choice<InterpolateMode> mode = InterpolateMode::nearest;
  /// linear, bilinear, trilinear, bicubic: whether the centres of the corner elements are aligned,
  /// rather than the corners of the input. Default: false.
  std::optional<bool> align_corners = {};
  /// Compute positions from the two sizes, not from the given factors.
  bool recompute_scale_factor = false;
  /// bilinear, bicubic: where the result is smaller, widen the filter accordingly, as Pillow does.
  bool antialias = false;
};

/// [N, C, L], [N, C, H, W] or [N, C, D, H, W] at another size: [N, C, *size], or sizes of
/// floor(input * factor). The values are torch.nn.functional.interpolate's.
///
/// Result i of a dimension lies at x = (i + 0.5) * scale - 0.5 of the input, with align_corners at
/// x = i * (in - 1) / (out - 1). The scale is in / out, or 1 / scale_factor if that is given
/// without recompute_scale_factor. The result is the sum of w(x - j) * input[j] over the elements
/// j, where elements beyond the edge are the one at the edge, for each dimension in turn. w(t) is 1
/// - |t| up to 1 (linear, bilinear, trilinear), or (bicubic, a = -0.75)
///
///   (a + 2) |t|^3 - (a + 3) |t|^2 + 1          up to |t| = 1
///   a |t|^3 - 5a |t|^2 + 8a |t| - 4a           up to |t| = 2
///
/// With antialias it is w(t / max(scale, 1)), with a = -0.5, over the elements that exist, divided
/// by the sum of the weights. Elements of weight 0 have no effect, NaN included.
///
/// Keeps the memory format. Floating types, of which 16-bit ones are computed in float32; uint8,
/// rounded after each dimension, for nearest, nearest_exact, bilinear and bicubic (DTypeError for
/// others). An empty batch gives an empty result. ShapeError for other ranks than the mode's, for
/// empty channels or dimensions and for sizes below 1 or of another count; ValueError for options
/// that contradict each other or that the mode does not have. Differentiable to any order; the
/// gradient is computed in a fixed order.
///
///   interpolate(x, {.size = {224, 224}});
///   interpolate(x, {.scale_factor = 2, .mode = "bilinear", .align_corners = false});
///   interpolate(x, {.size = 64, .mode = "bicubic", .antialias = true});
Tensor interpolate(const Tensor& input, const InterpolateOptions& options);
/// To a size, one number for each dimension or one for all, as PyTorch's second argument:
/// `interpolate(x, 224)`, `interpolate(x, {224, 196}, "bilinear")`.
Tensor interpolate(const Tensor& input, InterpolateSize size,
                   Choice<InterpolateMode> mode = InterpolateMode::nearest,
                   std::optional<bool> align_corners = {});

}  // namespace ferrite
