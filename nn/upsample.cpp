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

namespace {

/// One number if all are the same.
template <class T, class F>
std::string listed(const ops::PerDim<T>& v, F&& text) {
  if (v.h == v.w && (v.count < 3 || v.d == v.h)) return text(v.w);
  if (v.count == 2) return fmt::format("({}, {})", text(v.h), text(v.w));
  return fmt::format("({}, {}, {})", text(v.d), text(v.h), text(v.w));
}

}  // namespace

std::string Upsample::extra_repr() const {
  const std::string text =
      options_.scale_factor == ScaleFactor(0)
          ? "size=" + listed(options_.size, [](std::int64_t n) { return std::to_string(n); })
          : "scale_factor=" + listed(options_.scale_factor, [](double f) { return repr(f); });
  return text + ", mode='" + options_.mode.name() + "'";
}

}  // namespace ferrite::nn
