// Batch norm, alone or with a ReLU behind it, to which a residual may have been added or a max
// pooling follows (declared in ops/norm.h).
#include "ferrite/autograd/accumulate.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/batch_norm_arguments.h"
#include "ferrite/ops/batch_norm_pair.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/norm_arguments.h"
#include "ferrite/ops/norm_gradient.h"
#include "ferrite/ops/pool_planes.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::once_differentiable;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using kernels::ChannelLayout;
using kernels::NormActivation;
using kernels::ReluMask;
using kernels::View;
using ops::norms::as_dtype;
using ops::norms::backward_counters;
using ops::norms::batch_statistics;
using ops::norms::BatchNorm;
using ops::norms::changed_by_training;
using ops::norms::Channels;
using ops::norms::channels_of;
using ops::norms::check_batch_norm;
using ops::norms::check_count;
using ops::norms::dense;
using ops::norms::optional;
using ops::norms::statistics_dtype;
using ops::norms::TrainedStatistics;

namespace {

/// The mean that is subtracted from each channel, and the factor that it is then multiplied by.
struct Statistics {
  Tensor mean, invstd;
  Tensor counters = {};  ///< for batch_norm_backward_reduce()
  Tensor count = {};     ///< [1], values a channel of all parts; undefined where there is one part
};

/// The statistics of this part of the batch: means and M2.
struct OwnStatistics {
  Tensor packed;  // [2C + 1]: both of these, and room for a count
  ChannelStatistics of_channels;
};

OwnStatistics own_statistics(const BatchNorm& args, const Tensor& x, const ChannelLayout& layout) {
  const std::int64_t channels = layout.channels;
  const Tensor packed =
      empty({2 * channels + 1}, {.dtype = statistics_dtype(x.dtype()), .device = x.device()});
  const Tensor mean = packed.narrow(0, 0, channels), m2 = packed.narrow(0, channels, channels);
  const Stream stream = current_stream(x.device());
  if (const ChannelStatistics& known = args.options.statistics; known.defined()) {
    kernels::copy(stream, mean, known.mean);
    kernels::copy(stream, m2, known.m2);
    if (known.are_sums) kernels::stats_of_sums(stream, mean, m2, layout.count());
  } else {
    kernels::channel_stats(stream, layout, mean, m2, x);
  }
  return {packed, {mean, m2}};
}

/// The statistics of all parts, from one exchange of mean, M2 and count.
ChannelStatistics combine(BatchParts& parts, const OwnStatistics& own, std::int64_t own_count,
                          const Tensor& count) {
  const std::int64_t channels = own.of_channels.mean.numel();
  const Stream stream = current_stream(count.device());
  kernels::fill(stream, own.packed.narrow(0, 2 * channels, 1), static_cast<double>(own_count));
  const Tensor all = parts.gather(own.packed);
  const ChannelStatistics whole{empty_like(own.of_channels.mean), empty_like(own.of_channels.m2)};
  kernels::combine_stats(stream, whole.mean, whole.m2, count, all.narrow(1, 0, channels),
                         all.narrow(1, channels, channels), all.select(1, 2 * channels));
  return whole;
}

/// The statistics of all parts, with which the running ones are updated.
Statistics statistics_of_parts(const BatchNorm& args, const Tensor& x,
                               const ChannelLayout& layout) {
  const NoGradGuard guard;
  const Stream stream = current_stream(x.device());
  const OwnStatistics own = own_statistics(args, x, layout);
  const Tensor count = empty({1}, {.dtype = own.packed.dtype(), .device = x.device()});
  const ChannelStatistics whole = combine(*args.options.parts, own, layout.count(), count);
  const Statistics s{whole.mean, empty_like(whole.mean), {}, count};
  kernels::batch_norm_finish(stream, s.invstd, optional(args.running_mean),
                             optional(args.running_var), s.mean, whole.m2, count, layout.count(),
                             args.options.momentum, args.options.eps);
  if (const Tensor& batches = args.options.batches; batches.defined())
    kernels::binary(stream, kernels::BinaryOp::add, batches, batches, Scalar(1));
  changed_by_training(args);
  return s;
}

/// The operands of the affine step and what follows it, as kernels take them.
struct Affine {
  View out, x, weight, bias, residual;
  NormActivation activation;
};

/// Normalises by the statistics of a batch without other parts, and returns them.
Statistics normalize_batch(const BatchNorm& args, const Tensor& x, const ChannelLayout& layout,
                           const Affine& to, bool for_backward) {
  const NoGradGuard guard;
  const TrainedStatistics of = batch_statistics(args, x, layout);
  Statistics s{of.mean, of.invstd};
  if (for_backward) s.counters = backward_counters(x.device());
  const kernels::BatchTraining training = of.training(args);
  kernels::batch_norm_train(current_stream(x.device()), layout, to.out, to.x, s.mean, s.invstd,
                            training.batch, training.running, training.eps, to.weight, to.bias,
                            to.residual, to.activation, optional(s.counters));
  changed_by_training(args);
  return s;
}

Statistics running_statistics(const BatchNorm& args, const Tensor& x) {
  const DType dtype = statistics_dtype(x.dtype());
  Statistics s{dense(args.running_mean.detach(), dtype), {}};
  const Tensor var = dense(args.running_var, dtype);
  s.invstd = empty(s.mean.shape(), {.dtype = dtype, .device = x.device()});
  kernels::inverse_std(current_stream(x.device()), s.invstd, var, args.options.eps);
  return s;
}

/// Both sums over all parts, from one exchange.
std::pair<Tensor, Tensor> sums_of_parts(BatchParts& parts, const Tensor& sum_dy,
                                        const Tensor& sum_dy_xhat) {
  const std::int64_t channels = sum_dy.numel();
  const Tensor packed = empty({2, channels}, {.dtype = sum_dy.dtype(), .device = sum_dy.device()});
  const Stream stream = current_stream(packed.device());
  kernels::copy(stream, packed[0], sum_dy);
  kernels::copy(stream, packed[1], sum_dy_xhat);
  parts.sum(packed);
  return {packed[0], packed[1]};
}

/// The gradients of input, weight, bias and residual: one pass over the data for the sums and for
/// what the ReLU passes on to the residual, one for the input.
Gradients batch_norm_backward(const Channels& channels, const Tensor& grad, const Tensor& x,
                              const Tensor& weight, const Statistics& s, bool training,
                              BatchParts* parts, ReluMask mask, Needs needs) {
  once_differentiable();
  const ChannelLayout& layout = channels.layout;
  const Stream stream = current_stream(x.device());
  const bool last_use = autograd::is_overwritable(grad);
  Tensor dy = dense(grad, x.dtype(), channels.format);
  const bool all_sums = training && needs[0];
  Tensor dx, sum_dy, sum_dy_xhat, passed;
  if (all_sums || needs[2]) sum_dy = empty_like(s.mean);
  if (all_sums || needs[1]) sum_dy_xhat = empty_like(s.mean);
  if (needs[3] && mask.from != ReluMask::From::nothing)
    passed = last_use || !dy.is_same(grad) ? dy : empty_like(x);
  if (sum_dy.defined() || sum_dy_xhat.defined() || passed.defined())
    kernels::batch_norm_backward_reduce(stream, layout, optional(sum_dy), optional(sum_dy_xhat), dy,
                                        x, s.mean, s.invstd, mask, optional(passed),
                                        optional(s.counters));
  if (passed.defined()) {
    dy = passed;
    mask.from = ReluMask::From::nothing;
  }
  if (needs[0]) {
    dx = empty_like(x);
    // The weight's and the bias's gradients stay sums of this part.
    const auto [all_dy, all_dy_xhat] = training && parts
                                           ? sums_of_parts(*parts, sum_dy, sum_dy_xhat)
                                           : std::pair(sum_dy, sum_dy_xhat);
    kernels::batch_norm_backward_apply(stream, layout, dx, dy, x, s.mean, s.invstd,
                                       optional(weight), training ? View(all_dy) : View(),
                                       training ? View(all_dy_xhat) : View(), optional(s.count),
                                       layout.count(), mask);
  }
  return {dx, needs[1] ? sum_dy_xhat : Tensor(), needs[2] ? sum_dy : Tensor(),
          needs[3] ? dy : Tensor()};
}

/// The same with a ReLU and a max pooling behind the batch norm: the sums are those of the picked
/// elements, to which all gradient goes.
Gradients max_pool_norm_backward(const Channels& channels, const ops::PoolPlan& plan,
                                 const Tensor& grad, const Tensor& input, const Tensor& picked,
                                 const Tensor& code, const Tensor& weight, const Tensor& bias,
                                 const Statistics& s, Needs needs) {
  once_differentiable();
  const Stream stream = current_stream(grad.device());
  const Tensor dy = dense(grad, input.dtype(), channels.format);
  const Tensor sum_dy = empty_like(s.mean), sum_dy_xhat = empty_like(s.mean);
  ChannelLayout of_results = channels.layout;
  of_results.outer = plan.pool.batch * plan.pool.h.output * plan.pool.w.output;
  const ReluMask mask{
      .from = ReluMask::From::input, .weight = optional(weight), .bias = optional(bias), .out = {}};
  kernels::batch_norm_backward_reduce(stream, of_results, sum_dy, sum_dy_xhat, dy, picked, s.mean,
                                      s.invstd, mask, View(), optional(s.counters));
  Tensor dx;
  if (needs[0]) {
    const Tensor x = dense(input, input.dtype(), channels.format);
    dx = empty_like(x);
    kernels::batch_norm_max_pool_backward(stream, plan.pool, dx, dy, code, x, s.mean, s.invstd,
                                          optional(weight), optional(bias), sum_dy, sum_dy_xhat);
  }
  return {dx, needs[1] ? sum_dy_xhat : Tensor(), needs[2] ? sum_dy : Tensor()};
}

Tensor batch_norm(const BatchNorm& args) {
  const auto& [op, input, running_mean, running_var, weight, bias, options] = args;
  const Tensor& residual = options.residual;
  const bool relu = options.relu;
  const Channels channels = channels_of(input);
  const DType dtype = statistics_dtype(input.dtype());
  const Tensor x = dense(input, input.dtype(), channels.format);
  const Tensor added = dense(residual, input.dtype(), channels.format);
  const Tensor w = dense(weight, dtype), b = dense(bias, dtype);
  Tensor out =
      empty(input.shape(),
            {.dtype = input.dtype(), .device = input.device(), .memory_format = channels.format});
  const bool records = recording(input, weight, bias, residual);
  const Affine to{out,
                  x,
                  optional(w),
                  optional(b),
                  optional(added),
                  relu ? NormActivation::relu : NormActivation::none};
  Statistics s;
  if (options.training) check_count(args, channels.layout);
  if (options.training && !options.parts) {
    s = normalize_batch(args, x, channels.layout, to, records);
  } else {
    s = options.training ? statistics_of_parts(args, x, channels.layout)
                         : running_statistics(args, x);
    kernels::batch_norm_apply(current_stream(x.device()), channels.layout, to.out, to.x, s.mean,
                              s.invstd, to.weight, to.bias, to.residual, to.activation);
  }
  if (!records) return out;

  const ReluMask::From from = !relu                ? ReluMask::From::nothing
                              : residual.defined() ? ReluMask::From::output
                                                   : ReluMask::From::input;
  auto backward = [input = Saved(input), weight = Saved(weight), mean = Saved(s.mean),
                   invstd = s.invstd, counters = s.counters, count = s.count, parts = options.parts,
                   channels, from, bias = from == ReluMask::From::input ? Saved(bias) : Saved(),
                   kept_out = from == ReluMask::From::output ? Saved::output(out) : Saved(),
                   training = options.training, eps = options.eps, dtype,
                   weight_dtype = weight.defined() ? weight.dtype() : dtype,
                   bias_dtype = bias.defined() ? bias.dtype() : dtype](const Tensor& grad,
                                                                       Needs needs) -> Gradients {
    const Tensor out = kept_out.get();
    Gradients g(4);
    if (grad_enabled() && !parts) {
      g = ops::batch_norm_gradient({.x = input.get(),
                                    .weight = weight.get(),
                                    .bias = bias.get(),
                                    .mean = training ? Tensor() : mean.get(),
                                    .invstd = training ? Tensor() : invstd,
                                    .eps = eps,
                                    .relu = from != ReluMask::From::nothing,
                                    .out = out},
                                   grad, {needs[0], needs[1], needs[2], needs[3]});
    } else {
      const Tensor x = input.get(), w = dense(weight.get(), dtype), b = dense(bias.get(), dtype);
      const ReluMask mask{
          .from = from, .weight = optional(w), .bias = optional(b), .out = optional(out)};
      g = batch_norm_backward(channels, grad, dense(x, x.dtype(), channels.format), w,
                              {mean.get(), invstd, counters, count}, training, parts.get(), mask,
                              needs);
    }
    g[1] = as_dtype(g[1], weight_dtype);
    g[2] = as_dtype(g[2], bias_dtype);
    return g;
  };
  record(out, op, {input, weight, bias, residual}, std::move(backward));
  if (options.training && options.parts && !options.parts->alone())
    autograd::mark_communicating(out);
  return out;
}

/// How errors, profiles and the tape name a batch norm with what follows it.
const char* name_of(const BatchNormFuncOptions& options) {
  if (options.residual.defined()) return options.relu ? "batch_norm_add_relu" : "batch_norm_add";
  if (!options.relu) return "batch_norm";
  return options.max_pool ? "batch_norm_relu_max_pool" : "batch_norm_relu";
}

/// Whether the ReLU and the pooling behind it can be one pass with the affine step.
bool pools_in_one(const ops::PoolPlan& plan, const BatchNormFuncOptions& options) {
  return plan.has_cells() && options.training && options.relu && !options.residual.defined() &&
         !options.parts && plan.format == kChannelsLast;
}

Tensor batch_norm_max_pool(const BatchNorm& args, const ops::PoolPlan& plan) {
  const auto& [op, input, running_mean, running_var, weight, bias, options] = args;
  const Channels channels = channels_of(input);
  const DType dtype = statistics_dtype(input.dtype());
  const Tensor x = dense(input, input.dtype(), channels.format);
  const Tensor w = dense(weight, dtype), b = dense(bias, dtype);
  check_count(args, channels.layout);
  const bool records = recording(input, weight, bias);
  const Statistics s = normalize_batch(args, x, channels.layout, {.x = x}, records);
  const TensorOptions of_results{
      .dtype = input.dtype(), .device = input.device(), .memory_format = channels.format};
  Tensor out = empty(plan.out, of_results), picked, code;
  if (records) {
    picked = empty(plan.out, of_results);
    code = ops::empty_code(plan, input.device());
  }
  kernels::batch_norm_max_pool(current_stream(x.device()), plan.pool, out, optional(picked),
                               optional(code), x, s.mean, s.invstd, optional(w), optional(b));
  if (!records) return out;

  auto backward = [input = Saved(input), weight = Saved(weight), bias = Saved(bias), picked, code,
                   mean = Saved(s.mean), invstd = s.invstd, counters = s.counters, plan, channels,
                   dtype, eps = options.eps,
                   weight_dtype = weight.defined() ? weight.dtype() : dtype,
                   bias_dtype = bias.defined() ? bias.dtype() : dtype](const Tensor& grad,
                                                                       Needs needs) -> Gradients {
    Gradients g(3);
    if (grad_enabled()) {
      g = ops::batch_norm_gradient(
          {.x = input.get(), .weight = weight.get(), .bias = bias.get(), .eps = eps, .relu = true},
          ops::max_pool_backward(plan, grad, code), {needs[0], needs[1], needs[2]});
    } else {
      g = max_pool_norm_backward(channels, plan, grad, input.get(), picked, code,
                                 dense(weight.get(), dtype), dense(bias.get(), dtype),
                                 {mean.get(), invstd, counters}, needs);
    }
    g[1] = as_dtype(g[1], weight_dtype);
    g[2] = as_dtype(g[2], bias_dtype);
    g.resize(3);
    return g;
  };
  record(out, op, {input, weight, bias}, std::move(backward));
  return out;
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, const BatchNormFuncOptions& options) {
  if (options.shortcut)
    return ops::batch_norm_shortcut(input, running_mean, running_var, weight, bias, options);
  const auto then_pool = [&](const Tensor& t) {
    return options.max_pool ? max_pool2d(t, *options.max_pool) : t;
  };
  if (tracing::on()) {
    BatchNormFuncOptions alone = options;
    alone.residual = {}, alone.relu = false, alone.max_pool = {};
    const Tensor out = tracing::op(
        "batch_norm", {input, running_mean, running_var, weight, bias},
        {{"training", options.training}, {"eps", options.eps}},
        [&] { return batch_norm(input, running_mean, running_var, weight, bias, alone); });
    const Tensor sum = options.residual.defined() ? out + options.residual : out;
    return then_pool(options.relu ? relu(sum) : sum);
  }
  if (const auto cast = ops::autocast(AutocastOp::batch_norm, input, options.residual)) {
    BatchNormFuncOptions with_cast = options;
    with_cast.residual = (*cast)[1];
    return batch_norm((*cast)[0], running_mean, running_var, weight, bias, with_cast);
  }
  const char* const op = name_of(options);
  const profiler::OpRange range(op, input, running_mean, running_var, weight, bias,
                                options.residual);
  const BatchNorm args{op, input, running_mean, running_var, weight, bias, options};
  check_batch_norm(args);
  if (!options.max_pool) return batch_norm(args);
  // Its errors come before the running statistics move.
  const ops::PoolPlan plan = ops::max_pool_plan(op, input, *options.max_pool);
  return pools_in_one(plan, options) ? batch_norm_max_pool(args, plan)
                                     : then_pool(batch_norm(args));
}

}  // namespace ferrite
