#include "ferrite/ops/resize.h"

#include <cmath>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using kernels::Resize2d;
using kernels::ResizeAxis;

namespace {

constexpr const char* kOp = "interpolate";

/// The parameters of a resampling, for forward and all its gradients.
struct Plan {
  Resize2d resize;
  Shape in, out;
  MemoryFormat format;
};

void check_options(const InterpolateOptions& o) {
  const bool has_size = o.size != Pair(0), has_factor = o.scale_factor != ScaleFactor(0);
  FERRITE_CHECK(has_size != has_factor, ValueError, kOp, "expected {} size and scale_factor",
                has_size ? "only one of" : "one of");
  FERRITE_CHECK(!o.align_corners || o.mode == InterpolateMode::bilinear, ValueError, kOp,
                "align_corners is for the mode bilinear, got it with nearest");
  FERRITE_CHECK(!o.recompute_scale_factor || has_factor, ValueError, kOp,
                "recompute_scale_factor is for scale_factor, got it with size");
  for (const double f : {o.scale_factor.h, o.scale_factor.w})
    FERRITE_CHECK(!has_factor || (f > 0 && std::isfinite(f)), ValueError, kOp,
                  "expected a scale_factor above 0, got {}", f);
}

/// `size` or `factor` is 0.
ResizeAxis axis_of(const InterpolateOptions& o, std::int64_t input, std::int64_t size,
                   double factor) {
  const double exact =
      factor > 0 ? std::floor(static_cast<double>(input) * factor) : static_cast<double>(size);
  FERRITE_CHECK(exact >= 1 && exact <= INT32_MAX && input <= INT32_MAX, ShapeError, kOp,
                "expected sizes from 1 to 2^31 - 1, got {} from {}", exact, input);
  const auto output = static_cast<std::int64_t>(exact);
  const auto n = static_cast<double>(input), m = static_cast<double>(output);
  const bool corners = o.align_corners.value_or(false);
  double scale = factor > 0 && !o.recompute_scale_factor ? 1 / factor : n / m;
  if (corners) scale = output > 1 ? (n - 1) / (m - 1) : 0;
  const bool bilinear = o.mode == InterpolateMode::bilinear;
  // If sizes agree, bilinear copies, whatever the factor was. (PyTorch's nearest also does so, and,
  // if the size doubles, in some layouts on the CPU; elsewhere it uses the factor, as here.)
  if (bilinear && input == output) scale = 1;
  const double shift = bilinear && !corners ? 0.5 : 0;
  return {static_cast<std::int32_t>(input), static_cast<std::int32_t>(output), scale, shift};
}

Plan make_plan(const Tensor& input, const InterpolateOptions& o) {
  FERRITE_CHECK(input.defined(), ValueError, kOp, "input is undefined");
  FERRITE_CHECK(is_floating(input.dtype()), DTypeError, kOp,
                "works on floating types, got {}; convert it with to()", input.describe());
  FERRITE_CHECK(input.dim() == 4, ShapeError, kOp, "expects an input of [N, C, H, W], got {}",
                input.describe());
  check_options(o);
  const Shape& s = input.shape();
  FERRITE_CHECK(s[1] > 0 && s[2] > 0 && s[3] > 0, ShapeError, kOp,
                "expects an input that is empty in its batch at most, got {}", input.describe());
  Plan plan{.resize = {.batch = s[0],
                       .channels = s[1],
                       .h = axis_of(o, s[2], o.size.h, o.scale_factor.h),
                       .w = axis_of(o, s[3], o.size.w, o.scale_factor.w),
                       .mode = o.mode},
            .in = s,
            .out = s,
            .format = input.suggest_memory_format()};
  // With one channel both formats have the same layout, and NCHW's rows are longer than NHWC's
  // pixels.
  plan.resize.channels_last = plan.format == kChannelsLast && s[1] > 1;
  plan.out[2] = plan.resize.h.output;
  plan.out[3] = plan.resize.w.output;
  return plan;
}

/// `t` dense in the plan's format, off the tape; `t` itself if it is already.
Tensor dense(const Plan& plan, const Tensor& t) {
  if (t.is_contiguous(plan.format)) return t;
  return no_grad([&] { return t.contiguous(plan.format); });
}

Tensor empty_for(const Plan& plan, const Shape& shape, const Tensor& like) {
  return empty(shape,
               {.dtype = like.dtype(), .device = like.device(), .memory_format = plan.format});
}

// Linear, so that the backward of backward is forward.

Tensor backward(const Plan& plan, const Tensor& grad);

Tensor forward(const Plan& plan, const Tensor& input) {
  Tensor out = empty_for(plan, plan.out, input);
  kernels::resize2d(current_stream(out.device()), plan.resize, out, dense(plan, input));
  if (recording(input))
    record(out, kOp, {input}, [plan](const Tensor& grad, Needs) { return backward(plan, grad); });
  return out;
}

Tensor backward(const Plan& plan, const Tensor& grad) {
  Tensor out = empty_for(plan, plan.in, grad);
  kernels::resize2d_backward(current_stream(out.device()), plan.resize, out, dense(plan, grad));
  if (recording(grad))
    record(out, "interpolate_backward", {grad},
           [plan](const Tensor& grad, Needs) { return forward(plan, grad); });
  return out;
}

}  // namespace

InterpolateModeName::InterpolateModeName(std::string_view name)
    : mode(name == "bilinear" ? InterpolateMode::bilinear : InterpolateMode::nearest) {
  FERRITE_CHECK(name == "bilinear" || name == "nearest", ValueError, kOp,
                "expected a mode \"nearest\" or \"bilinear\", got \"{}\"", name);
}

Tensor interpolate(const Tensor& input, Pair size, InterpolateModeName mode,
                   std::optional<bool> align_corners) {
  return interpolate(input, {.size = size, .mode = mode, .align_corners = align_corners});
}

Tensor interpolate(const Tensor& input, const InterpolateOptions& options) {
  if (tracing::on())
    return tracing::op(
        "interpolate", {input},
        {{"mode", std::string(options.mode == InterpolateMode::bilinear ? "linear" : "nearest")},
         {"align_corners", options.align_corners.value_or(false)},
         {"by_size", options.scale_factor == ScaleFactor(0) || options.recompute_scale_factor},
         {"scale_h", options.scale_factor.h},
         {"scale_w", options.scale_factor.w}},
        [&] { return interpolate(input, options); });
  const profiler::OpRange range("interpolate", input);
  return forward(make_plan(input, options), input);
}

}  // namespace ferrite
