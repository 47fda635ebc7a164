// Upsample, UpsamplingNearest2d, UpsamplingBilinear2d: resizing of sequences, images and volumes.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/resize.h"

namespace ferrite::nn {

/// interpolate() as a module: [N, C, L], [N, C, H, W] or [N, C, D, H, W] to [N, C, *size], or to
/// sizes of floor(input * factor), with its options and modes: `Upsample({.scale_factor = 2})`. The
/// mode is the nearest element unless it is given. Invalid options are a ValueError of the first
/// forward().
///
///   nn::Upsample up({.scale_factor = 2, .mode = "bilinear", .align_corners = false});
///   Tensor y = up(randn({1, 3, 8, 8}));  // [1, 3, 16, 16]
class Upsample : public Cloneable<Upsample> {
 public:
  explicit Upsample(const InterpolateOptions& options) : options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  InterpolateOptions options_;
};

/// Upsample to the nearest element: `UpsamplingNearest2d({.scale_factor = 2})`.
class UpsamplingNearest2d : public Cloneable<UpsamplingNearest2d, Upsample> {
 public:
  explicit UpsamplingNearest2d(const InterpolateOptions& options);
};

/// Upsample, bilinear with aligned corners: `UpsamplingBilinear2d({.scale_factor = 2})`.
class UpsamplingBilinear2d : public Cloneable<UpsamplingBilinear2d, Upsample> {
 public:
  explicit UpsamplingBilinear2d(const InterpolateOptions& options);
};

}  // namespace ferrite::nn
