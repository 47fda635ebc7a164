#include "ferrite/nn/upsample.h"

#include "ferrite/nn/repr.h"

namespace ferrite::nn {

namespace {

InterpolateOptions with_mode(InterpolateOptions options, InterpolateMode mode) {
  options.mode = mode;
  if (mode == InterpolateMode::bilinear) options.align_corners = true;
  return options;
}

}  // namespace

UpsamplingNearest2d::UpsamplingNearest2d(const InterpolateOptions& options)
    : Cloneable(with_mode(options, InterpolateMode::nearest)) {}

UpsamplingBilinear2d::UpsamplingBilinear2d(const InterpolateOptions& options)
    : Cloneable(with_mode(options, InterpolateMode::bilinear)) {}

Tensor Upsample::forward(const Tensor& input) { return interpolate(input, options_); }

std::string Upsample::extra_repr() const {
  const ScaleFactor& f = options_.scale_factor;
  std::string text;
  if (f == ScaleFactor(0))
    text = "size=" + repr_short(options_.size);
  else if (f.h == f.w)
    text = "scale_factor=" + repr(f.h);
  else
    text = fmt::format("scale_factor=({}, {})", repr(f.h), repr(f.w));
  return text +
         (options_.mode == InterpolateMode::nearest ? ", mode='nearest'" : ", mode='bilinear'");
}

}  // namespace ferrite::nn
