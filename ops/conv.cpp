#include "ferrite/ops/conv.h"

#include <algorithm>

#include "ferrite/autograd/accumulate.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/conv.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/conv_planes.h"
#include "ferrite/ops/pool_planes.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/traced.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::Activation;
using kernels::ConvParams;
using kernels::View;

namespace {

/// A convolution: input * weight = output. Its three operations (forward, by input, by weight) are
/// linear in each operand, and each is the gradient of the other two.
struct Problem {
  const char* op;
  ConvParams params;
  Shape input, weight, output;
};

/// What becomes of a convolution's result in the same op.
struct Then {
  Activation activation = Activation::none;
  ChannelStatistics* statistics = nullptr;     ///< where given, those of the result
  const MaxPool2dOptions* max_pool = nullptr;  ///< behind a ReLU
};

Tensor by_output(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
                 const Then& then = {});
Tensor by_input(const Problem& p, const Tensor& grad, const Tensor& weight, const Tensor& bias,
                MemoryFormat format);
Tensor by_weight(const Problem& p, const Tensor& input, const Tensor& grad, MemoryFormat format,
                 Tensor* by_bias = nullptr);

/// Whether a weight lies in memory as [H, W, C, O], as nn::optimize_for_inference() lays it.
bool has_outputs_innermost(const Tensor& weight) {
  const Shape& s = weight.shape();
  return s[0] > 1 && s[1] > 1 && weight.stride(0) == 1 && weight.stride(1) == s[0] &&
         (s[3] == 1 || weight.stride(3) == s[0] * s[1]) &&
         (s[2] == 1 || weight.stride(2) == s[0] * s[1] * s[3]);
}

/// PyTorch's rule: channels-last where one of the operands is.
MemoryFormat format_of(const Tensor& input, const Tensor& weight) {
  return input.suggest_memory_format() == kChannelsLast ||
                 weight.suggest_memory_format() == kChannelsLast || has_outputs_innermost(weight)
             ? kChannelsLast
             : kContiguous;
}

Tensor result(const Shape& shape, const Tensor& like, MemoryFormat format) {
  return empty(shape, {.dtype = like.dtype(), .device = like.device(), .memory_format = format});
}

View view_of(const Tensor& bias) { return bias.defined() ? View(bias) : View(); }

Tensor channel_sum(const Tensor& grad) {
  if (grad_enabled()) return sum(grad, {0, 2, 3});
  Tensor out = empty({grad.size(1)}, {.dtype = grad.dtype(), .device = grad.device()});
  kernels::channel_sum(current_stream(out.device()), out, grad);
  return out;
}

// ---- output = activation(input * weight + bias)

/// by_input(), with what the input's gradient is added to if that is there already.
Tensor gradient_by_input(const Problem& p, const Tensor& grad, const Tensor& weight,
                         MemoryFormat format) {
  Tensor partial = grad.device().is_cuda() ? autograd::take_partial(0) : Tensor();
  if (!partial.defined()) return by_input(p, grad, weight, {}, format);
  if (partial.shape() == p.input && partial.dtype() == grad.dtype() &&
      partial.device() == grad.device() && partial.is_contiguous(format))
    kernels::conv2d_data_add(current_stream(partial.device()), partial, grad, weight, p.params);
  else
    autograd::add_to(partial, by_input(p, grad, weight, {}, format));
  return partial;
}

Tensor by_output(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
                 const Then& then) {
  const auto& [activation, statistics, max_pool] = then;
  Tensor out = result(p.output, input, format_of(input, weight));
  ConvParams params = p.params;
  params.activation = activation;
  const Stream stream = current_stream(out.device());
  if (statistics) {
    const TensorOptions options{.dtype = out.dtype() == kFloat64 ? kFloat64 : kFloat32,
                                .device = out.device()};
    const bool takes_sums = statistics->are_sums;
    *statistics = {empty({out.size(1)}, options), empty({out.size(1)}, options)};
    kernels::conv2d_stats(stream, out, statistics->mean, statistics->m2, input, weight,
                          view_of(bias), params, takes_sums ? &statistics->are_sums : nullptr);
  } else {
    kernels::conv2d(stream, out, input, weight, view_of(bias), params);
  }
  const bool records = recording(input, weight, bias);
  std::optional<ops::PoolPlan> pooling;
  Tensor code, counters;
  if (max_pool) {
    pooling = ops::max_pool_plan(p.op, out, *max_pool);
    // On a GPU the pooling's gradient comes with the bias's; on the CPU the weight's does.
    if (records && out.device().is_cuda() && bias.defined() && bias.requires_grad())
      counters = empty({out.size(1)}, {.dtype = kInt32, .device = out.device()});
    ops::Maxima maxima = ops::window_maxima(*pooling, out, records, counters);
    out = std::move(maxima.out), code = std::move(maxima.code);
  }
  if (records)
    record(out, p.op, {input, weight, bias},
           [p, x = Saved(weight.requires_grad() ? input : Tensor()),
            w = Saved(input.requires_grad() ? weight : Tensor()),
            y = activation == Activation::relu ? Saved::output(out) : Saved(Tensor()), pooling,
            code, counters, x_format = input.suggest_memory_format(),
            w_format = weight.suggest_memory_format(),
            activation = activation](const Tensor& grad_out, Needs needs) -> Gradients {
             Gradients g(3);
             const bool pooled = needs[2] && counters.defined() && !grad_enabled();
             const Tensor grad =
                 pooling ? ops::relu_max_pool_backward(*pooling, grad_out, code, y.get(),
                                                       pooled ? &g[2] : nullptr, counters)
                 : activation == Activation::relu ? ops::relu_gradient(grad_out, y.get())
                                                  : grad_out;
             if (needs[0]) g[0] = gradient_by_input(p, grad, w.get(), x_format);
             const bool together = needs[1] && needs[2] && !pooled && !grad_enabled();
             if (needs[1]) g[1] = by_weight(p, x.get(), grad, w_format, together ? &g[2] : nullptr);
             if (needs[2] && !together && !pooled) g[2] = channel_sum(grad);
             return g;
           });
  return out;
}

// ---- input = the gradient by it + bias: also the transposed convolution

Tensor by_input(const Problem& p, const Tensor& grad, const Tensor& weight, const Tensor& bias,
                MemoryFormat format) {
  Tensor out = result(p.input, grad, format);
  kernels::conv2d_data(current_stream(out.device()), out, grad, weight, view_of(bias), p.params);
  if (recording(grad, weight, bias))
    record(
        out, p.op, {grad, weight, bias},
        [p, y = Saved(weight.requires_grad() ? grad : Tensor()),
         w = Saved(grad.requires_grad() ? weight : Tensor()),
         w_format = weight.suggest_memory_format()](const Tensor& grad, Needs needs) -> Gradients {
          return {needs[0] ? by_output(p, grad, w.get(), {}) : Tensor(),
                  needs[1] ? by_weight(p, grad, y.get(), w_format) : Tensor(),
                  needs[2] ? channel_sum(grad) : Tensor()};
        });
  return out;
}

// ---- weight = the gradient by it; off the tape that by the bias comes along

Tensor by_weight(const Problem& p, const Tensor& input, const Tensor& grad, MemoryFormat format,
                 Tensor* by_bias) {
  Tensor out = result(p.weight, grad, format);
  if (by_bias) *by_bias = empty({p.weight[0]}, {.dtype = grad.dtype(), .device = grad.device()});
  kernels::conv2d_weight(current_stream(out.device()), out, by_bias ? View(*by_bias) : View(),
                         input, grad, p.params);
  if (recording(input, grad))
    record(
        out, p.op, {input, grad},
        [p, x = Saved(grad.requires_grad() ? input : Tensor()),
         y = Saved(input.requires_grad() ? grad : Tensor()),
         x_format = input.suggest_memory_format()](const Tensor& grad, Needs needs) -> Gradients {
          return {needs[0] ? by_input(p, y.get(), grad, {}, x_format) : Tensor(),
                  needs[1] ? by_output(p, x.get(), grad, {}) : Tensor()};
        });
  return out;
}

// ---- Checks

void check_operand(const Tensor& t, const Tensor& input, const char* what, const char* op) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the {} is undefined", what);
  FERRITE_CHECK(t.device() == input.device(), DeviceError, op,
                "the {} is {}, the input {}; move one with to(device)", what, t.describe(),
                input.describe());
  FERRITE_CHECK(t.dtype() == input.dtype(), DTypeError, op,
                "the {} is {}, the input {}; convert one with to(dtype)", what, t.describe(),
                input.describe());
}

}  // namespace

void ops::check_conv_operands(const char* op, const Tensor& input, const Tensor& weight, int dims) {
  constexpr const char* kSizes[] = {"L", "H, W", "D, H, W"};
  FERRITE_CHECK(input.defined(), ValueError, op, "the input is undefined");
  check_operand(weight, input, "weight", op);
  FERRITE_CHECK(is_floating(input.dtype()), DTypeError, op,
                "does not work on {}; convert input and weight with to(dtype)", input.dtype());
  FERRITE_CHECK(input.dim() == dims + 1 || input.dim() == dims + 2, ShapeError, op,
                "expected an input [N, C, {0}] or [C, {0}], got {1}", kSizes[dims - 1],
                input.shape());
  FERRITE_CHECK(weight.dim() == dims + 2, ShapeError, op,
                "expected a weight of {} dimensions, got {}", dims + 2, weight.shape());
  for (int d = 2; d < weight.dim(); ++d)
    FERRITE_CHECK(weight.size(d) > 0, ShapeError, op, "the kernel of weight {} is empty",
                  weight.shape());
}

namespace {

/// From `least` to 2^31, so that sums and products of them fit int64.
void check_option(Pair p, std::int64_t least, const char* what, const char* op) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  FERRITE_CHECK(std::min(p.h, p.w) >= least && std::max(p.h, p.w) <= kMost, ValueError, op,
                "{} must lie between {} and 2^31, got {{{}, {}}}", what, least, p.h, p.w);
}

void check_groups(std::int64_t groups, std::int64_t channels, const char* what, const char* op) {
  FERRITE_CHECK(groups > 0, ValueError, op, "groups must be above 0, got {}", groups);
  FERRITE_CHECK(channels % groups == 0, ShapeError, op,
                "{} channels of the {} do not divide into {} groups", channels, what, groups);
}

void check_bias(const Tensor& bias, const Tensor& input, std::int64_t channels, const char* op) {
  if (!bias.defined()) return;
  check_operand(bias, input, "bias", op);
  FERRITE_CHECK(bias.dim() == 1 && bias.size(0) == channels, ShapeError, op,
                "expected a bias [{}], got {}", channels, bias.shape());
}

/// Positions that a kernel has along an axis of `padded` elements.
std::int64_t output_size(std::int64_t padded, std::int64_t kernel, std::int64_t stride,
                         std::int64_t dilation, const Tensor& input, const Tensor& weight,
                         const char* op) {
  const std::int64_t extent = dilation * (kernel - 1) + 1;
  FERRITE_CHECK(padded >= extent, ShapeError, op,
                "the kernel of weight {} reaches over {} elements, the padded input {} has {}",
                weight.shape(), extent, input.shape(), padded);
  return (padded - extent) / stride + 1;
}

Problem forward_problem(const Tensor& input, const Tensor& weight, const Conv2dFuncOptions& o,
                        const char* op) {
  const std::int64_t channels = input.size(1);
  FERRITE_CHECK(channels == weight.size(1) * o.groups, ShapeError, op,
                "input has {} channels, weight expects {}", channels, weight.size(1) * o.groups);
  const std::int64_t kernel[] = {weight.size(2), weight.size(3)};
  const std::int64_t dilation[] = {o.dilation.h, o.dilation.w};
  const std::int64_t stride[] = {o.stride.h, o.stride.w};
  std::int64_t before[] = {o.padding.size.h, o.padding.size.w};
  Problem p{op, {}, input.shape(), weight.shape(), {input.size(0), weight.size(0)}};
  for (int i = 0; i < 2; ++i) {
    std::int64_t both = 2 * before[i];
    if (o.padding.is_same) {
      both = dilation[i] * (kernel[i] - 1);
      before[i] = both / 2;
    }
    p.output.push_back(output_size(input.size(2 + i) + both, kernel[i], stride[i], dilation[i],
                                   input, weight, op));
  }
  p.params = {.stride = {stride[0], stride[1]},
              .padding = {before[0], before[1]},
              .dilation = {dilation[0], dilation[1]},
              .groups = o.groups};
  return p;
}

}  // namespace

// ---- conv2d

namespace {

Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias,
                const Conv2dFuncOptions& o, const char* op, const Then& then = {}) {
  ops::check_conv_operands(op, input, weight, 2);
  check_option(o.stride, 1, "stride", op);
  check_option(o.dilation, 1, "dilation", op);
  check_option(o.padding.size, 0, "padding", op);
  FERRITE_CHECK(!o.padding.is_same || o.stride == Pair(1), ValueError, op,
                "Padding::same needs a stride of 1, got {{{}, {}}}", o.stride.h, o.stride.w);
  check_groups(o.groups, weight.size(0), "output", op);
  check_bias(bias, input, weight.size(0), op);
  if (input.dim() == 3) return convolve(input.unsqueeze(0), weight, bias, o, op, then).squeeze(0);
  return by_output(forward_problem(input, weight, o, op), input, weight, bias, then);
}

}  // namespace

Tensor ops::convolve(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const Conv2dFuncOptions& o) {
  return ferrite::convolve(input, weight, bias, o, op);
}

namespace {

/// conv2d and its fused forms.
Tensor convolve2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Conv2dFuncOptions& o, const char* op, const Then& then = {}) {
  if (const auto cast = ops::autocast(AutocastOp::conv, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return convolve2d(x, w, b, o, op, then);
  }
  const profiler::OpRange range(op, input, weight, bias);
  return convolve(input, weight, bias, o, op, then);
}

}  // namespace

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Conv2dFuncOptions& o) {
  if (tracing::on())
    return tracing::op("conv", {input, weight, bias}, ops::conv_attributes<2>(o),
                       [&] { return conv2d(input, weight, bias, o); });
  return convolve2d(input, weight, bias, o, "conv2d");
}

Tensor conv2d_relu(const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Conv2dFuncOptions& o) {
  if (tracing::on()) return relu(conv2d(input, weight, bias, o));
  return convolve2d(input, weight, bias, o, "conv2d_relu", {.activation = Activation::relu});
}

Tensor conv2d_relu_max_pool(const Tensor& input, const Tensor& weight, const Tensor& bias,
                            const Conv2dFuncOptions& o, const MaxPool2dOptions& pool) {
  constexpr const char* op = "conv2d_relu_max_pool";
  FERRITE_CHECK(!input.defined() || input.dim() == 4, ShapeError, op,
                "expected an input [N, C, H, W], got {}", input.shape());
  // Dilated windows may have no cell.
  if (tracing::on() || pool.dilation != Pair(1))
    return max_pool2d(conv2d_relu(input, weight, bias, o), pool);
  return convolve2d(input, weight, bias, o, op,
                    {.activation = Activation::relu, .max_pool = &pool});
}

namespace {

ConvStatistics with_statistics(const Tensor& input, const Tensor& weight, const Tensor& bias,
                               const Conv2dFuncOptions& o, bool takes_sums) {
  constexpr const char* op = "conv2d_statistics";
  FERRITE_CHECK(!input.defined() || input.dim() == 4, ShapeError, op,
                "expected an input [N, C, H, W], got {}", input.shape());
  ConvStatistics result;
  result.statistics.are_sums = takes_sums;
  result.output = convolve2d(input, weight, bias, o, op, {.statistics = &result.statistics});
  return result;
}

}  // namespace

ConvStatistics conv2d_statistics(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                 const Conv2dFuncOptions& o) {
  return with_statistics(input, weight, bias, o, false);
}

ConvStatistics ops::conv2d_sums(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                const Conv2dFuncOptions& o) {
  return with_statistics(input, weight, bias, o, true);
}

// ---- conv_transpose2d

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dFuncOptions& o) {
  if (tracing::on())
    return tracing::op("conv_transpose", {input, weight, bias}, ops::conv_attributes<2>(o),
                       [&] { return conv_transpose2d(input, weight, bias, o); });
  if (const auto cast = ops::autocast(AutocastOp::conv_transpose, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return conv_transpose2d(x, w, b, o);
  }
  const profiler::OpRange range("conv_transpose2d", input, weight, bias);
  return ops::convolve_transposed("conv_transpose2d", input, weight, bias, o);
}

Tensor ops::convolve_transposed(const char* op, const Tensor& input, const Tensor& weight,
                                const Tensor& bias, const ConvTranspose2dFuncOptions& o) {
  ops::check_conv_operands(op, input, weight, 2);
  check_option(o.stride, 1, "stride", op);
  check_option(o.dilation, 1, "dilation", op);
  check_option(o.padding, 0, "padding", op);
  const std::int64_t extra[] = {o.output_padding.h, o.output_padding.w};
  const std::int64_t stride[] = {o.stride.h, o.stride.w};
  const std::int64_t dilation[] = {o.dilation.h, o.dilation.w};
  const std::int64_t padding[] = {o.padding.h, o.padding.w};
  for (int i = 0; i < 2; ++i)
    FERRITE_CHECK(extra[i] >= 0 && (extra[i] < stride[i] || extra[i] < dilation[i]), ValueError, op,
                  "output_padding must be below stride or dilation, got {} with {} and {}",
                  extra[i], stride[i], dilation[i]);
  check_groups(o.groups, weight.size(0), "input", op);
  const std::int64_t channels = weight.size(1) * o.groups;
  check_bias(bias, input, channels, op);
  if (input.dim() == 3)
    return convolve_transposed(op, input.unsqueeze(0), weight, bias, o).squeeze(0);
  FERRITE_CHECK(input.size(1) == weight.size(0), ShapeError, op,
                "input has {} channels, weight expects {}", input.size(1), weight.size(0));

  Problem p{op,
            {.stride = {stride[0], stride[1]},
             .padding = {padding[0], padding[1]},
             .dilation = {dilation[0], dilation[1]},
             .groups = o.groups},
            {input.size(0), channels},
            weight.shape(),
            input.shape()};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t size = (input.size(2 + i) - 1) * stride[i] - 2 * padding[i] +
                              dilation[i] * (weight.size(2 + i) - 1) + extra[i] + 1;
    FERRITE_CHECK(size > 0, ShapeError, op,
                  "the output's size {} is {}: input {}, weight {}, padding {}", i, size,
                  input.shape(), weight.shape(), padding[i]);
    p.input.push_back(size);
  }
  return by_input(p, input, weight, bias, format_of(input, weight));
}

}  // namespace ferrite
