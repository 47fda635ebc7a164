#include "ferrite/nn/upsample.h"

#include "ferrite/nn/repr.h"

namespace ferrite::nn {

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
