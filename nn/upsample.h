// Upsample, UpsamplingNearest2d, UpsamplingBilinear2d: resizing of images.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/resize.h"

namespace ferrite::nn {

/// `Upsample({.scale_factor = 2})` resizes [N, C, H, W] with the options of interpolate()
/// (ops/resize.h). Invalid options are reported at the first forward().
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

/// Upsample, bilinear with aligned corners.
class UpsamplingBilinear2d : public Cloneable<UpsamplingBilinear2d, Upsample> {
 public:
  explicit UpsamplingBilinear2d(const InterpolateOptions& options);
};

}  // namespace ferrite::nn
