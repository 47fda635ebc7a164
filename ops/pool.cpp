#include "ferrite/ops/pool.h"

#include <algorithm>
#include <limits>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/pool.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/pool_planes.h"

namespace ferrite {

using autograd::Needs;
using autograd::record;
using autograd::recording;
using kernels::Pool2d;
using kernels::PoolAxis;

namespace {

using Plan = ops::PoolPlan;

std::int64_t output_size(const PoolAxis& a, bool ceil_mode) {
  // With ceil_mode a window may be larger than the padded input by less than its stride.
  const std::int64_t room =
      a.input + 2 * a.padding - a.dilation * (a.kernel - 1) - 1 + (ceil_mode ? a.stride - 1 : 0);
  if (room < 0) return 0;
  std::int64_t out = room / a.stride + 1;
  // No window starts beyond the input.
  if (ceil_mode && (out - 1) * a.stride >= a.input + a.padding) --out;
  return out;
}

PoolAxis sliding(const char* op, std::int64_t input, std::int64_t kernel, std::int64_t stride,
                 std::int64_t padding, std::int64_t dilation, bool ceil_mode) {
  FERRITE_CHECK(kernel >= 1 && stride >= 1 && dilation >= 1, ValueError, op,
                "kernel_size, stride and dilation must be 1 or more, got {}, {} and {}", kernel,
                stride, dilation);
  FERRITE_CHECK(padding >= 0 && padding <= kernel / 2, ValueError, op,
                "padding {} is outside 0 to {}, half the kernel_size {}", padding, kernel / 2,
                kernel);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  FERRITE_CHECK(kernel < kMost && stride < kMost && dilation < kMost, ValueError, op,
                "kernel_size {}, stride {} or dilation {} is not below 2^31", kernel, stride,
                dilation);
  PoolAxis a{
      .input = input, .kernel = kernel, .stride = stride, .padding = padding, .dilation = dilation};
  a.output = output_size(a, ceil_mode);
  return a;
}

PoolAxis adaptive(const char* op, std::int64_t input, std::int64_t output) {
  FERRITE_CHECK(output >= 1, ValueError, op, "output_size must be 1 or more, got {}", output);
  PoolAxis a{.input = input, .output = output};
  if (input % output == 0)
    a.kernel = a.stride = input / output;
  else
    a.adaptive = true;
  return a;
}

/// `axis(size, dim)` makes the axis of the input's height (dim 0) or width (dim 1).
template <class Axis>
Plan make_plan(const char* op, const Tensor& input, Axis&& axis) {
  FERRITE_CHECK(input.defined(), ValueError, op, "input is undefined");
  FERRITE_CHECK(is_floating(input.dtype()), DTypeError, op,
                "works on floating types, got {}; convert it with to()", input.describe());
  const int n = input.dim();
  FERRITE_CHECK(n == 3 || n == 4, ShapeError, op,
                "expects an input of [N, C, H, W] or [C, H, W], got {}", input.describe());
  Plan plan{.in = input.shape(), .out = input.shape(), .op = op};
  const Shape& s = plan.in;
  FERRITE_CHECK(s[n - 3] > 0 && s[n - 2] > 0 && s[n - 1] > 0, ShapeError, op,
                "expects an input that is empty in its batch at most, got {}", input.describe());
  plan.format = input.suggest_memory_format();
  plan.pool.batch = n == 4 ? s[0] : 1;
  plan.pool.channels = s[n - 3];
  plan.pool.h = axis(s[n - 2], 0);
  plan.pool.w = axis(s[n - 1], 1);
  // With one channel both formats have the same layout, and NCHW's rows are longer than NHWC's
  // pixels.
  plan.pool.channels_last = plan.format == kChannelsLast && plan.pool.channels > 1;
  plan.out[n - 2] = plan.pool.h.output;
  plan.out[n - 1] = plan.pool.w.output;
  FERRITE_CHECK(plan.pool.h.output > 0 && plan.pool.w.output > 0, ShapeError, op,
                "windows of {} x {} do not fit into {}", plan.pool.h.kernel, plan.pool.w.kernel,
                input.describe());
  return plan;
}

template <class Options>
Plan sliding_plan(const char* op, const Tensor& input, const Options& o, Pair dilation) {
  ops::check_kernel_size(o, op);
  const Pair kernel = *o.kernel_size, stride = o.stride.value_or(kernel);
  return make_plan(op, input, [&](std::int64_t size, int dim) {
    return dim == 0 ? sliding(op, size, kernel.h, stride.h, o.padding.h, dilation.h, o.ceil_mode)
                    : sliding(op, size, kernel.w, stride.w, o.padding.w, dilation.w, o.ceil_mode);
  });
}

Plan adaptive_plan(const char* op, const Tensor& input, Pair size) {
  return make_plan(op, input, [&](std::int64_t in, int dim) {
    return adaptive(op, in, dim == 0 ? size.h : size.w);
  });
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

// ---- The maximum. Backward scatters to the cells selected by `code`; the backward of that gathers
// from them.

Tensor max_backward(const Plan& plan, const Tensor& grad, const Tensor& code);

Tensor max_gather(const Plan& plan, const Tensor& input, const Tensor& code) {
  Tensor out = empty_for(plan, plan.out, input);
  kernels::max_pool2d_gather(current_stream(out.device()), plan.pool, out, dense(plan, input),
                             code);
  if (recording(input))
    record(out, "max_pool2d_gather", {input},
           [plan, code](const Tensor& grad, Needs) { return max_backward(plan, grad, code); });
  return out;
}

Tensor max_backward(const Plan& plan, const Tensor& grad, const Tensor& code) {
  Tensor out = empty_for(plan, plan.in, grad);
  kernels::max_pool2d_backward(current_stream(out.device()), plan.pool, out, dense(plan, grad),
                               code, {}, {}, {});
  if (recording(grad))
    record(out, "max_pool2d_backward", {grad},
           [plan, code](const Tensor& grad, Needs) { return max_gather(plan, grad, code); });
  return out;
}

/// The maximum of windows without cells, which nothing can change.
Tensor max_of_none(const Plan& plan, const Tensor& input, Tensor* indices) {
  TensorOptions options{
      .dtype = input.dtype(), .device = input.device(), .memory_format = plan.format};
  Tensor out = full(plan.out, -std::numeric_limits<double>::infinity(), options);
  if (recording(input))
    record(out, plan.op, {input},
           [in = plan.in, options](const Tensor&, Needs) { return zeros(in, options); });
  options.dtype = kInt64;
  if (indices) *indices = full(plan.out, -1, options);
  return out;
}

/// `plan`, whose windows have places that a code can hold.
Plan with_places(Plan plan) {
  const std::int64_t h = plan.pool.h.widest(), w = plan.pool.w.widest();
  FERRITE_CHECK(!plan.has_cells() || h * w <= INT32_MAX, ShapeError, plan.op,
                "windows of {} x {} have more than 2^31 cells", h, w);
  return plan;
}

/// Computes indices if `indices` is given.
Tensor max_forward(const Plan& plan, const Tensor& input, Tensor* indices) {
  if (!plan.has_cells()) return max_of_none(plan, input, indices);
  const bool records = recording(input);
  const ops::Maxima maxima = ops::window_maxima(plan, input, records || indices);
  if (indices) {
    *indices =
        empty(plan.out, {.dtype = kInt64, .device = input.device(), .memory_format = plan.format});
    kernels::max_pool2d_indices(current_stream(input.device()), plan.pool, *indices, maxima.code);
  }
  if (records)
    record(maxima.out, plan.op, {input}, [plan, code = maxima.code](const Tensor& grad, Needs) {
      return max_backward(plan, grad, code);
    });
  return maxima.out;
}

// ---- The mean: linear, so that the backward of backward is forward.

Tensor avg_backward(const Plan& plan, const Tensor& grad);

Tensor avg_forward(const Plan& plan, const Tensor& input) {
  Tensor out = empty_for(plan, plan.out, input);
  kernels::avg_pool2d(current_stream(out.device()), plan.pool, out, dense(plan, input));
  if (recording(input))
    record(out, plan.op, {input},
           [plan](const Tensor& grad, Needs) { return avg_backward(plan, grad); });
  return out;
}

Tensor avg_backward(const Plan& plan, const Tensor& grad) {
  Tensor out = empty_for(plan, plan.in, grad);
  kernels::avg_pool2d_backward(current_stream(out.device()), plan.pool, out, dense(plan, grad));
  if (recording(grad))
    record(out, "avg_pool2d_backward", {grad},
           [plan](const Tensor& grad, Needs) { return avg_forward(plan, grad); });
  return out;
}

}  // namespace

// ---- Of planes, for functions of one to three dimensions

ops::PoolPlan ops::max_pool_plan(const char* op, const Tensor& input, const MaxPool2dOptions& o) {
  return with_places(sliding_plan(op, input, o, o.dilation));
}

Tensor ops::empty_code(const PoolPlan& plan, const Device& device) {
  return empty(plan.out,
               {.dtype = plan.pool.code_dtype(), .device = device, .memory_format = plan.format});
}

ops::Maxima ops::window_maxima(const PoolPlan& plan, const Tensor& input, bool wants_code,
                               const Tensor& cleared) {
  Maxima maxima{empty_for(plan, plan.out, input), {}};
  if (wants_code) maxima.code = empty_code(plan, input.device());
  kernels::max_pool2d(current_stream(input.device()), plan.pool, maxima.out,
                      wants_code ? kernels::View(maxima.code) : kernels::View(), dense(plan, input),
                      cleared.defined() ? kernels::View(cleared) : kernels::View());
  return maxima;
}

Tensor ops::max_pool_backward(const PoolPlan& plan, const Tensor& grad, const Tensor& code) {
  return max_backward(plan, grad, code);
}

Tensor ops::relu_max_pool_backward(const PoolPlan& plan, const Tensor& grad, const Tensor& code,
                                   const Tensor& out, Tensor* channel_sums,
                                   const Tensor& counters) {
  if (grad_enabled()) return max_backward(plan, relu_gradient(grad, out), code);
  Tensor gradient = empty_for(plan, plan.in, grad);
  const auto optional = [](const Tensor* t) { return t ? kernels::View(*t) : kernels::View(); };
  if (channel_sums)
    *channel_sums = empty({plan.pool.channels}, {.dtype = grad.dtype(), .device = grad.device()});
  kernels::max_pool2d_backward(current_stream(grad.device()), plan.pool, gradient,
                               dense(plan, grad), code, dense(plan, out), optional(channel_sums),
                               optional(channel_sums ? &counters : nullptr));
  return gradient;
}

Tensor ops::max_pool_planes(const char* op, const Tensor& input, const MaxPool2dOptions& o,
                            Tensor* indices) {
  return max_forward(max_pool_plan(op, input, o), input, indices);
}

Tensor ops::avg_pool_planes(const char* op, const Tensor& input, const AvgPool2dOptions& o) {
  Plan plan = sliding_plan(op, input, o, 1);
  FERRITE_CHECK(o.divisor_override != 0, ValueError, op, "divisor_override must not be 0");
  plan.pool.count_include_pad = o.count_include_pad;
  plan.pool.divisor_override = o.divisor_override.value_or(0);
  return avg_forward(plan, input);
}

Tensor ops::adaptive_max_pool_planes(const char* op, const Tensor& input, Pair size,
                                     Tensor* indices) {
  return max_forward(with_places(adaptive_plan(op, input, size)), input, indices);
}

Tensor ops::adaptive_avg_pool_planes(const char* op, const Tensor& input, Pair size) {
  return avg_forward(adaptive_plan(op, input, size), input);
}

}  // namespace ferrite
