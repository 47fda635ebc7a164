#include "ferrite/ops/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/resize.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using kernels::Resize2d;
using kernels::ResizeAxis;
using kernels::ResizeFilter;
using kernels::ResizeLine;
using Mode = InterpolateMode;

namespace {

constexpr const char* kOp = "interpolate";

bool is_nearest(Mode mode) { return mode == Mode::nearest || mode == Mode::nearest_exact; }

ResizeFilter filter_of(Mode mode) {
  return is_nearest(mode)        ? ResizeFilter::nearest
         : mode == Mode::bicubic ? ResizeFilter::cubic
                                 : ResizeFilter::linear;
}

/// The dimension of the only inputs that a mode is for; 0 if it is for all.
int rank_of(Mode mode) {
  switch (mode) {
    case Mode::linear:
      return 3;
    case Mode::bilinear:
    case Mode::bicubic:
      return 4;
    case Mode::trilinear:
      return 5;
    default:
      return 0;
  }
}

/// A step of a resize: of planes, or along one dimension.
struct Step {
  Shape in, out;
  std::optional<Resize2d> planes;
  ResizeLine line;
};

/// The steps of a resize, for forward and all its gradients.
struct Plan {
  std::vector<Step> steps;
  MemoryFormat format;
  DType between;  ///< the dtype of what lies between two steps
};

bool has_factor(const InterpolateOptions& o) { return o.scale_factor != ScaleFactor(0); }

void check_options(const InterpolateOptions& o) {
  const bool has_size = o.size != InterpolateSize(0);
  FERRITE_CHECK(has_size != has_factor(o), ValueError, kOp, "expected {} size and scale_factor",
                has_size ? "only one of" : "one of");
  FERRITE_CHECK(!o.align_corners || rank_of(o.mode) > 0, ValueError, kOp,
                "align_corners is for the modes linear, bilinear, trilinear and bicubic, got it "
                "with {}",
                o.mode.name());
  FERRITE_CHECK(!o.antialias || rank_of(o.mode) == 4, ValueError, kOp,
                "antialias is for the modes bilinear and bicubic, got it with {}", o.mode.name());
  FERRITE_CHECK(!o.recompute_scale_factor || has_factor(o), ValueError, kOp,
                "recompute_scale_factor is for scale_factor, got it with size");
  const ScaleFactor& f = o.scale_factor;
  for (const double factor : {f.count < 3 ? f.h : f.d, f.h, f.w})
    FERRITE_CHECK(!has_factor(o) || (factor > 0 && std::isfinite(factor)), ValueError, kOp,
                  "expected a scale_factor above 0, got {}", factor);
}

void check_input(const Tensor& input, const InterpolateOptions& o) {
  FERRITE_CHECK(input.defined(), ValueError, kOp, "input is undefined");
  const bool takes_bytes = is_nearest(o.mode) || rank_of(o.mode) == 4;
  FERRITE_CHECK(is_floating(input.dtype()) || (takes_bytes && input.dtype() == kUInt8), DTypeError,
                kOp, "works on floating types{}, got {}; convert it with to()",
                takes_bytes ? " and uint8" : "", input.describe());
  const int rank = rank_of(o.mode), n = input.dim();
  FERRITE_CHECK(n >= 3 && n <= 5 && (rank == 0 || rank == n), ShapeError, kOp,
                "expects an input of {} for the mode {}, got {}{}",
                rank == 3   ? "[N, C, L]"
                : rank == 4 ? "[N, C, H, W]"
                : rank == 5 ? "[N, C, D, H, W]"
                            : "[N, C, L], [N, C, H, W] or [N, C, D, H, W]",
                o.mode.name(), input.describe(),
                filter_of(o.mode) == ResizeFilter::linear && rank > 0 && n >= 3 && n <= 5
                    ? fmt::format("; use {}", n == 3   ? "linear"
                                              : n == 4 ? "bilinear"
                                                       : "trilinear")
                    : "");
  const Shape& s = input.shape();
  FERRITE_CHECK(std::all_of(s.begin() + 1, s.end(), [](std::int64_t size) { return size > 0; }),
                ShapeError, kOp, "expects an input that is empty in its batch at most, got {}",
                input.describe());
  const int count = has_factor(o) ? o.scale_factor.count : o.size.count;
  FERRITE_CHECK(count == 1 || count == n - 2, ShapeError, kOp,
                "expected one {0}, or {1}: one for each dimension behind the channels of {2}; got "
                "{3}",
                has_factor(o) ? "factor" : "size", n - 2, input.describe(), count);
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
  // If sizes agree, linear and antialiased modes copy, whatever the factor was. (PyTorch's nearest
  // also does so, and, if the size doubles, in some layouts on the CPU; elsewhere it uses the
  // factor, as here.)
  if (input == output && (o.antialias || filter_of(o.mode) == ResizeFilter::linear)) scale = 1;
  const double shift = o.mode == Mode::nearest || corners ? 0 : 0.5;
  return {static_cast<std::int32_t>(input), static_cast<std::int32_t>(output), scale, shift};
}

/// Those of depth, height and width; dimensions that the input lacks have one element.
std::array<ResizeAxis, 3> axes_of(const Shape& s, const InterpolateOptions& o) {
  std::array<ResizeAxis, 3> axes;
  axes.fill(ResizeAxis(1, 1, 1, 0));
  const std::array sizes{o.size.d, o.size.h, o.size.w};
  const std::array factors{o.scale_factor.d, o.scale_factor.h, o.scale_factor.w};
  for (int d = 2; d < s.size(); ++d) {
    const auto i = static_cast<std::size_t>(d + 3 - s.size());
    axes[i] = axis_of(o, s[d], sizes[i], factors[i]);
  }
  return axes;
}

bool is_copy(const ResizeAxis& a) { return a.input == a.output && (a.scale == 1 || a.input == 1); }

/// Adds steps to a plan.
class Planner {
 public:
  Planner(Plan& plan, const InterpolateOptions& o, const Shape& shape)
      : plan_(plan), filter_(filter_of(o.mode)), antialias_(o.antialias), shape_(shape) {}

  /// Both last dimensions at once, of nearest or linear modes; in three dimensions the last one.
  void planes(const ResizeAxis& h, const ResizeAxis& w) {
    const int n = shape_.size();
    Step step{.in = shape_,
              .out = shape_,
              .planes = Resize2d{.batch = shape_[0], .h = h, .w = w, .filter = filter_},
              .line = {}};
    step.planes->channels = n == 5 ? shape_[1] * shape_[2] : shape_[1];
    // With one channel both formats have the same layout, and NCHW's rows are longer than NHWC's
    // pixels.
    step.planes->channels_last = plan_.format == kChannelsLast && shape_[1] > 1;
    if (n > 3) step.out[n - 2] = h.output;
    step.out[n - 1] = w.output;
    add(step);
  }
  /// A dimension, unless nothing changes along it.
  void line(int dim, const ResizeAxis& axis, bool always = false) {
    if (is_copy(axis) && !always) return;
    Step step{.in = shape_,
              .out = shape_,
              .planes = {},
              .line = {.axis = axis, .filter = filter_, .antialias = antialias_}};
    const bool last = plan_.format == kChannelsLast;
    for (int d = 0; d < shape_.size(); ++d)
      if (d < dim && !(last && d == 1))
        step.line.outer *= shape_[d];
      else if (d != dim)
        step.line.inner *= shape_[d];
    step.out[dim] = axis.output;
    add(step);
  }

 private:
  void add(Step& step) {
    shape_ = step.out;
    plan_.steps.push_back(std::move(step));
  }

  Plan& plan_;
  ResizeFilter filter_;
  bool antialias_;
  Shape shape_;  ///< after the steps so far
};

Plan make_plan(const Tensor& input, const InterpolateOptions& o) {
  const bool nearest = is_nearest(o.mode), wide = itemsize(input.dtype()) > 2;
  Plan plan{.steps = {},
            .format = input.suggest_memory_format(),
            .between = nearest || wide ? input.dtype() : kFloat32};
  const auto [d, h, w] = axes_of(input.shape(), o);
  const int n = input.dim();
  Planner planner(plan, o, input.shape());
  if (n == 5) planner.line(2, d);
  // A plane's dtype does not change: 16-bit numbers would be rounded between depth and height.
  if (o.mode != Mode::bicubic && !o.antialias && (nearest || wide || plan.steps.empty())) {
    if (plan.steps.empty() || !is_copy(h) || !is_copy(w)) planner.planes(h, w);
    return plan;
  }
  planner.line(n - 1, w);
  planner.line(n - 2, h);
  if (plan.steps.empty()) planner.line(n - 1, w, true);
  return plan;
}

/// `t` dense in the plan's format, off the tape; `t` itself if it is already.
Tensor dense(const Plan& plan, const Tensor& t) {
  if (t.is_contiguous(plan.format)) return t;
  return no_grad([&] { return t.contiguous(plan.format); });
}

/// Runs a plan's steps, or the gradients of them from the last to the first.
Tensor run(const Plan& plan, const Tensor& input, bool transposed) {
  Tensor t = dense(plan, input);
  for (std::size_t i = 0, n = plan.steps.size(); i < n; ++i) {
    const Step& step = plan.steps[transposed ? n - 1 - i : i];
    Tensor out =
        empty(transposed ? step.in : step.out, {.dtype = i + 1 < n ? plan.between : input.dtype(),
                                                .device = input.device(),
                                                .memory_format = plan.format});
    const Stream& stream = current_stream(out.device());
    ResizeLine line = step.line;
    line.transposed = transposed;
    if (!step.planes)
      kernels::resize_line(stream, line, out, t);
    else if (transposed)
      kernels::resize2d_backward(stream, *step.planes, out, t);
    else
      kernels::resize2d(stream, *step.planes, out, t);
    t = std::move(out);
  }
  return t;
}

// Linear, so that the backward of backward is forward.

Tensor backward(const Plan& plan, const Tensor& grad);

Tensor forward(const Plan& plan, const Tensor& input) {
  Tensor out = run(plan, input, false);
  if (recording(input))
    record(out, kOp, {input}, [plan](const Tensor& grad, Needs) { return backward(plan, grad); });
  return out;
}

Tensor backward(const Plan& plan, const Tensor& grad) {
  Tensor out = run(plan, grad, true);
  if (recording(grad))
    record(out, "interpolate_backward", {grad},
           [plan](const Tensor& grad, Needs) { return forward(plan, grad); });
  return out;
}

/// uint8, as PyTorch's on the CPU: the width, then the height, each rounded, and halves up.
Tensor of_bytes(const Tensor& input, const InterpolateOptions& o) {
  Tensor image = input.to(kFloat32);
  if (is_nearest(o.mode)) return forward(make_plan(image, o), image).to(kUInt8);
  const auto [d, h, w] = axes_of(input.shape(), o);
  for (const int dim : {3, 2}) {
    Plan one{.steps = {}, .format = image.suggest_memory_format(), .between = kFloat32};
    Planner(one, o, image.shape()).line(dim, dim == 3 ? w : h);
    if (!one.steps.empty()) image = clamp(floor(forward(one, image) + 0.5), 0, 255);
  }
  return image.to(kUInt8);
}

Tensor by_area(const Tensor& input, const InterpolateOptions& o) {
  const auto [d, h, w] = axes_of(input.shape(), o);
  if (input.dim() == 3) return adaptive_avg_pool1d(input, w.output);
  if (input.dim() == 4) return adaptive_avg_pool2d(input, {h.output, w.output});
  return adaptive_avg_pool3d(input, {d.output, h.output, w.output});
}

}  // namespace

Tensor interpolate(const Tensor& input, InterpolateSize size, Choice<InterpolateMode> mode,
                   std::optional<bool> align_corners) {
  return interpolate(input, {.size = size, .mode = mode, .align_corners = align_corners});
}

Tensor interpolate(const Tensor& input, const InterpolateOptions& options) {
  if (tracing::on() && options.mode != Mode::area)
    return tracing::op("interpolate", {input},
                       {{"mode", std::string(options.mode.name())},
                        {"align_corners", options.align_corners.value_or(false)},
                        {"antialias", options.antialias},
                        {"by_size", !has_factor(options) || options.recompute_scale_factor},
                        {"scale_d", options.scale_factor.d},
                        {"scale_h", options.scale_factor.h},
                        {"scale_w", options.scale_factor.w}},
                       [&] { return interpolate(input, options); });
  check_input(input, options);
  check_options(options);
  if (options.mode == Mode::area) return by_area(input, options);
  const profiler::OpRange range("interpolate", input);
  if (input.dtype() == kUInt8) return of_bytes(input, options);
  return forward(make_plan(input, options), input);
}

}  // namespace ferrite
