#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/norm_arguments.h"
#include "ferrite/ops/norm_gradient.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using ops::norms::as_dtype;
using ops::norms::check_parameter;
using ops::norms::dense;
using ops::norms::optional;
using ops::norms::statistics_dtype;

namespace {

/// The sizes, and what lies in memory as the kernels take it: a CUDA device's images are NCHW.
struct Groups {
  kernels::GroupLayout layout;
  MemoryFormat format = kContiguous;

  Groups(const Tensor& input, std::int64_t groups) {
    layout = {.images = input.size(0), .groups = groups, .channels = input.size(1) / groups};
    layout.pixels = 1;
    for (int d = 2; d < input.dim(); ++d) layout.pixels *= input.size(d);
    if (!input.device().is_cpu()) return;
    format = input.suggest_memory_format();
    // Of one pixel, both orders are the same.
    layout.channels_last = format != kContiguous && layout.pixels > 1;
  }
  Tensor dense(const Tensor& t, DType dtype) const { return ops::norms::dense(t, dtype, format); }
};

/// Of layer norm, which has no weight for a whole channel, and of batch norm with given statistics.
Tensor composed(const Tensor& input, std::int64_t groups, std::int64_t width, const Tensor& weight,
                const Tensor& bias, double eps) {
  const Tensor rows = input.reshape({input.size(0) * groups, width});
  const Tensor out = layer_norm(rows, {width}, {}, {}, eps).view(input.shape());
  if (!weight.defined() && !bias.defined()) return out;
  const TensorOptions options{.dtype = statistics_dtype(input.dtype()), .device = input.device()};
  const Shape channels{input.size(1)};
  return batch_norm(out, zeros(channels, options), ones(channels, options), weight, bias,
                    {.eps = 0});
}

Gradients group_norm_backward(const Groups& groups, const Tensor& grad, const Tensor& input,
                              const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                              Needs needs) {
  autograd::once_differentiable();
  const Tensor x = groups.dense(input, input.dtype()), dy = groups.dense(grad, input.dtype());
  const TensorOptions options{.dtype = rstd.dtype(), .device = x.device()};
  const Shape channels{x.size(1)};
  Gradients g{needs[0] ? empty_like(x) : Tensor(), needs[1] ? empty(channels, options) : Tensor(),
              needs[2] ? empty(channels, options) : Tensor()};
  kernels::group_norm_backward(current_stream(x.device()), groups.layout, optional(g[0]),
                               optional(g[1]), optional(g[2]), dy, x, mean, rstd,
                               optional(dense(weight, rstd.dtype())));
  if (needs[0]) g[0] = g[0].contiguous(input.suggest_memory_format());
  return g;
}

}  // namespace

Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (const auto cast = ops::autocast(AutocastOp::group_norm, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return group_norm(x, num_groups, w, b, eps);
  }
  const profiler::OpRange range("group_norm", input, weight, bias);
  constexpr const char* op = "group_norm";
  ops::norms::check_input(input, op);
  ops::norms::check_eps(eps, op);
  FERRITE_CHECK(input.dim() >= 2, ShapeError, op, "expects an input of [N, C, *], got {}",
                input.describe());
  const std::int64_t channels = input.size(1);
  FERRITE_CHECK(num_groups >= 1, ValueError, op, "num_groups must be 1 or more, got {}",
                num_groups);
  FERRITE_CHECK(channels > 0 && channels % num_groups == 0, ShapeError, op,
                "{} channels cannot be cut into {} equal groups", channels, num_groups);
  check_parameter(weight, {channels}, input, "weight", op);
  check_parameter(bias, {channels}, input, "bias", op);
  const Groups groups(input, num_groups);
  FERRITE_CHECK(groups.layout.pixels > 0, ShapeError, op,
                "expects an input that is empty in its batch at most, got {}", input.describe());
  if (tracing::on())
    return composed(input, num_groups, groups.layout.channels * groups.layout.pixels, weight, bias,
                    eps);

  const DType dtype = statistics_dtype(input.dtype());
  const TensorOptions options{.dtype = dtype, .device = input.device()};
  const Tensor x = groups.dense(input, input.dtype());
  const Tensor w = dense(weight, dtype), b = dense(bias, dtype);
  const Tensor mean = empty({input.size(0), num_groups}, options), rstd = empty_like(mean);
  Tensor out = empty_like(x);
  kernels::group_norm(current_stream(x.device()), groups.layout, out, mean, rstd, x, optional(w),
                      optional(b), eps);
  out = out.contiguous(input.suggest_memory_format());
  if (autograd::recording(input, weight, bias))
    autograd::record(
        out, op, {input, weight, bias},
        [input = autograd::Saved(input), weight = autograd::Saved(weight), mean, rstd, groups, eps,
         weight_dtype = weight.defined() ? weight.dtype() : dtype,
         bias_dtype = bias.defined() ? bias.dtype() : dtype](const Tensor& grad,
                                                             Needs needs) -> Gradients {
          const Tensor x = input.get(), w = weight.get();
          Gradients g = grad_enabled()
                            ? ops::group_norm_gradient(x, w, groups.layout.groups, eps, grad, needs)
                            : group_norm_backward(groups, grad, x, w, mean, rstd, needs);
          g[1] = as_dtype(g[1], weight_dtype);
          g[2] = as_dtype(g[2], bias_dtype);
          return g;
        });
  return out;
}

}  // namespace ferrite
