#include "ferrite/ops/batch_norm_pair.h"

#include "ferrite/autograd/accumulate.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/batch_norm_arguments.h"
#include "ferrite/ops/norm_arguments.h"
#include "ferrite/ops/norm_gradient.h"
#include "ferrite/ops/pool_planes.h"

namespace ferrite::ops {

using autograd::Gradients;
using autograd::Needs;
using autograd::Saved;
using kernels::View;
using norms::as_dtype;
using norms::BatchNorm;
using norms::Channels;
using norms::dense;
using norms::optional;
using norms::statistics_dtype;

namespace {

BatchNormFuncOptions options_of(const BatchNormShortcut& shortcut, bool training) {
  return {.training = training,
          .momentum = shortcut.momentum,
          .eps = shortcut.eps,
          .statistics = shortcut.statistics,
          .batches = shortcut.batches};
}

/// One of the two, as kernels take it.
struct Norm {
  Tensor x, weight, bias, mean, invstd;

  kernels::PairedNorm view() const { return {x, mean, invstd, optional(weight), optional(bias)}; }
};

/// What the gradients need of one.
struct Kept {
  Saved input, weight, bias, mean;
  Tensor invstd;
  double eps;
  DType weight_dtype, bias_dtype;

  Kept(const BatchNorm& args, const Norm& norm)
      : input(args.input),
        weight(args.weight),
        bias(args.bias),
        mean(norm.mean),
        invstd(norm.invstd),
        eps(args.options.eps),
        weight_dtype(args.weight.defined() ? args.weight.dtype() : norm.mean.dtype()),
        bias_dtype(args.bias.defined() ? args.bias.dtype() : norm.mean.dtype()) {}

  Norm norm(MemoryFormat format) const {
    const Tensor x = input.get(), m = mean.get();
    return {dense(x, x.dtype(), format), dense(weight.get(), m.dtype()),
            dense(bias.get(), m.dtype()), m, invstd};
  }
  /// The gradients of input, weight and bias, made of ops; `out` is what the ReLU gave.
  Gradients differentiable(const Tensor& grad, const Tensor& out,
                           const BatchNormNeeds& needs) const {
    return batch_norm_gradient(
        {.x = input.get(), .weight = weight.get(), .eps = eps, .relu = true, .out = out}, grad,
        needs);
  }
};

/// The gradients of input, weight and bias of both: one pass over the data for the sums, one for
/// the inputs.
Gradients gradients(const Channels& channels, const Tensor& grad, const Norm& a, const Norm& b,
                    const Tensor& counters, Needs needs) {
  autograd::once_differentiable();
  const Stream stream = current_stream(grad.device());
  const bool last_use = autograd::is_overwritable(grad);
  const Tensor dy = dense(grad, a.x.dtype(), channels.format);
  const bool may_overwrite = dy.device().is_cuda() && (last_use || !dy.is_same(grad));
  // Of memory of their own: those of both biases are equal, and each is kept.
  const Tensor sum_dy = empty_like(a.mean), again = empty_like(a.mean), sum_a = empty_like(a.mean),
               sum_b = empty_like(a.mean);
  const kernels::PairSums sums{sum_dy, again, sum_a, sum_b};
  kernels::batch_norm_pair_backward_reduce(stream, channels.layout, sums, dy, a.view(), b.view(),
                                           optional(counters));
  Tensor dx_a, dx_b;
  if (needs[0]) dx_a = empty_like(a.x);
  if (needs[3]) dx_b = may_overwrite ? dy : empty_like(b.x);
  if (needs[0] || needs[3])
    kernels::batch_norm_pair_backward_apply(stream, channels.layout, optional(dx_a), optional(dx_b),
                                            dy, a.view(), b.view(), sums);
  const auto needed = [&](std::size_t i, const Tensor& t) { return needs[i] ? t : Tensor(); };
  return {dx_a, needed(1, sum_a), needed(2, sum_dy), dx_b, needed(4, sum_b), needed(5, again)};
}

Tensor batch_norm_pair(const BatchNorm& first, const BatchNorm& second) {
  const Channels channels = norms::channels_of(first.input);
  const DType type = first.input.dtype(), wide = statistics_dtype(type);
  const Stream stream = current_stream(first.input.device());
  const bool records = autograd::recording(first.input, first.weight, first.bias, second.input,
                                           second.weight, second.bias);
  const Tensor out =
      empty(first.input.shape(),
            {.dtype = type, .device = first.input.device(), .memory_format = channels.format});
  Tensor counters;
  const auto norm_of = [&](const BatchNorm& args) {
    return Norm{dense(args.input, type, channels.format),
                dense(args.weight, wide),
                dense(args.bias, wide),
                {},
                {}};
  };
  Norm a = norm_of(first), b = norm_of(second);
  {
    const NoGradGuard guard;
    const norms::TrainedStatistics of_a = norms::batch_statistics(first, a.x, channels.layout),
                                   of_b = norms::batch_statistics(second, b.x, channels.layout);
    a.mean = of_a.mean, a.invstd = of_a.invstd;
    b.mean = of_b.mean, b.invstd = of_b.invstd;
    if (records) counters = norms::backward_counters(out.device());
    kernels::batch_norm_pair_train(stream, channels.layout, out, a.view(), b.view(),
                                   of_a.training(first), of_b.training(second), optional(counters));
    norms::changed_by_training(first);
    norms::changed_by_training(second);
  }
  if (!records) return out;

  auto backward = [of_a = Kept(first, a), of_b = Kept(second, b), kept_out = Saved::output(out),
                   counters, channels](const Tensor& grad, Needs needs) -> Gradients {
    Gradients g(6);
    if (grad_enabled()) {
      const Tensor out = kept_out.get();
      const Gradients of_first = of_a.differentiable(grad, out, {needs[0], needs[1], needs[2]});
      const Gradients of_second = of_b.differentiable(grad, out, {needs[3], needs[4], needs[5]});
      for (std::size_t i = 0; i < 3; ++i) g[i] = of_first[i], g[i + 3] = of_second[i];
    } else {
      g = gradients(channels, grad, of_a.norm(channels.format), of_b.norm(channels.format),
                    counters, needs);
    }
    g[1] = as_dtype(g[1], of_a.weight_dtype), g[2] = as_dtype(g[2], of_a.bias_dtype);
    g[4] = as_dtype(g[4], of_b.weight_dtype), g[5] = as_dtype(g[5], of_b.bias_dtype);
    return g;
  };
  autograd::record(
      out, first.op,
      {first.input, first.weight, first.bias, second.input, second.weight, second.bias},
      std::move(backward));
  return out;
}

/// Whether both norms can be one pass.
bool is_one_pass(const BatchNormFuncOptions& options, const Tensor& input) {
  return options.training && options.relu && !options.max_pool && !options.parts &&
         input.numel() > 0;
}

void check_shortcut(const BatchNormShortcut& shortcut, const BatchNormFuncOptions& options,
                    const Tensor& input, const char* op) {
  FERRITE_CHECK(!options.residual.defined(), ValueError, op,
                "expected a residual or a shortcut, got both");
  const Tensor& x = shortcut.input;
  norms::check_input(x, op);
  FERRITE_CHECK(x.shape() == input.shape(), ShapeError, op,
                "the shortcut is {}, expected the shape of input {}", x.describe(),
                input.describe());
  FERRITE_CHECK(x.dtype() == input.dtype(), DTypeError, op, "the shortcut is {}, input {}",
                x.dtype(), input.dtype());
  FERRITE_CHECK(x.device() == input.device(), DeviceError, op, "the shortcut is on {}, input on {}",
                x.device(), input.device());
}

}  // namespace

Tensor batch_norm_shortcut(const Tensor& input, const Tensor& running_mean,
                           const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                           const BatchNormFuncOptions& options) {
  constexpr const char* kOp = "batch_norm_shortcut";
  const BatchNormShortcut& shortcut = *options.shortcut;
  if (const auto cast = autocast(AutocastOp::batch_norm, input, shortcut.input)) {
    BatchNormFuncOptions with_cast = options;
    with_cast.shortcut->input = (*cast)[1];
    return batch_norm_shortcut((*cast)[0], running_mean, running_var, weight, bias, with_cast);
  }
  const BatchNormFuncOptions of_shortcut = options_of(shortcut, options.training);
  const BatchNorm first{kOp, input, running_mean, running_var, weight, bias, options};
  const BatchNorm second{
      kOp,           shortcut.input, shortcut.running_mean, shortcut.running_var, shortcut.weight,
      shortcut.bias, of_shortcut};
  // The checks come before the running statistics move.
  norms::check_batch_norm(first);
  check_shortcut(shortcut, options, input, kOp);
  norms::check_batch_norm(second);
  if (options.max_pool) max_pool_plan(kOp, input, *options.max_pool);
  if (options.training) norms::check_count(first, norms::channels_of(input).layout);
  if (is_one_pass(options, input) && !tracing::on()) {
    const profiler::OpRange range(kOp, input, running_mean, running_var, weight, bias,
                                  shortcut.input);
    return batch_norm_pair(first, second);
  }
  BatchNormFuncOptions with_residual = options;
  with_residual.shortcut = {};
  with_residual.residual = batch_norm(shortcut.input, shortcut.running_mean, shortcut.running_var,
                                      shortcut.weight, shortcut.bias, of_shortcut);
  return batch_norm(input, running_mean, running_var, weight, bias, with_residual);
}

}  // namespace ferrite::ops
