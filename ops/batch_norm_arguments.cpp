#include "ferrite/ops/batch_norm_arguments.h"

#include "ferrite/autograd/record.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm_arguments.h"

namespace ferrite::ops::norms {

using kernels::ChannelLayout;

Channels channels_of(const Tensor& input) {
  const Shape& s = input.shape();
  std::int64_t inner = 1;
  for (int d = 2; d < s.size(); ++d) inner *= s[d];
  if (input.suggest_memory_format() == kChannelsLast)
    return {{.outer = s[0] * inner, .channels = s[1], .inner = 1}, kChannelsLast};
  return {{.outer = s[0], .channels = s[1], .inner = inner}, kContiguous};
}

namespace {

void check_residual(const Tensor& residual, const Tensor& input, const char* op) {
  if (!residual.defined()) return;
  FERRITE_CHECK(residual.shape() == input.shape(), ShapeError, op,
                "residual is {}, expected the shape of input {}", residual.describe(),
                input.describe());
  FERRITE_CHECK(residual.dtype() == input.dtype(), DTypeError, op, "residual is {}, input {}",
                residual.dtype(), input.dtype());
  FERRITE_CHECK(residual.device() == input.device(), DeviceError, op,
                "residual is on {}, input on {}", residual.device(), input.device());
}

}  // namespace

void check_batch_norm(const BatchNorm& args) {
  const Tensor& input = args.input;
  const char* const op = args.op;
  check_input(input, op);
  check_eps(args.options.eps, op);
  FERRITE_CHECK(input.dim() >= 2, ShapeError, op,
                "expects an input of [N, C], [N, C, L] or [N, C, H, W], got {}", input.describe());
  FERRITE_CHECK(!args.options.max_pool || input.dim() == 4, ShapeError, op,
                "expects an input of [N, C, H, W] before a max pooling, got {}", input.describe());
  const Shape shape{input.size(1)};
  check_parameter(args.weight, shape, input, "weight", op);
  check_parameter(args.bias, shape, input, "bias", op);
  check_parameter(args.running_mean, shape, input, "running_mean", op);
  check_parameter(args.running_var, shape, input, "running_var", op);
  const Tensor &mean = args.running_mean, &var = args.running_var;
  check_running(mean, var, op);
  FERRITE_CHECK(!mean.defined() || mean.dtype() == var.dtype(), DTypeError, op,
                "running_mean is {}, running_var {}", mean.dtype(), var.dtype());
  FERRITE_CHECK(args.options.training || mean.defined(), ValueError, op,
                "needs running_mean and running_var unless training = true");
  check_residual(args.options.residual, input, op);
  const Tensor& batches = args.options.batches;
  FERRITE_CHECK(!batches.defined() || (batches.numel() == 1 && batches.dtype() == kInt64 &&
                                       batches.device() == input.device()),
                ValueError, op, "expected one int64 on {} for the number of batches, got {}",
                input.device(), batches.describe());
  if (!args.options.statistics.defined()) return;
  for (const Tensor* t : {&args.options.statistics.mean, &args.options.statistics.m2}) {
    FERRITE_CHECK(t->defined(), ValueError, op, "statistics need both mean and m2");
    check_parameter(*t, shape, input, "a known statistic", op);
    FERRITE_CHECK(t->dtype() == statistics_dtype(input.dtype()) && t->is_contiguous(), DTypeError,
                  op, "expected contiguous statistics of {}, got {}",
                  statistics_dtype(input.dtype()), t->describe());
  }
}

void check_count(const BatchNorm& args, const ChannelLayout& layout) {
  const BatchParts* const parts = args.options.parts.get();
  const bool others = parts && !parts->alone();
  FERRITE_CHECK(others || layout.count() != 1, ShapeError, args.op,
                "cannot train on a single value a channel, got {}; use a larger batch or eval mode",
                args.input.describe());
}

TrainedStatistics batch_statistics(const BatchNorm& args, const Tensor& x,
                                   const ChannelLayout& layout) {
  ChannelStatistics of = args.options.statistics;
  if (!of.defined()) {
    const TensorOptions options{.dtype = statistics_dtype(x.dtype()), .device = x.device()};
    of = {empty({layout.channels}, options), empty({layout.channels}, options)};
    kernels::channel_stats(current_stream(x.device()), layout, of.mean, of.m2, x);
  }
  return {of, of.are_sums ? empty_like(of.mean) : of.mean, empty_like(of.mean)};
}

kernels::BatchTraining TrainedStatistics::training(const BatchNorm& args) const {
  return {{of_batch.mean, of_batch.m2, of_batch.are_sums},
          {optional(args.running_mean), optional(args.running_var), optional(args.options.batches),
           args.options.momentum},
          args.options.eps};
}

Tensor backward_counters(const Device& device) {
  if (!device.is_cuda()) return {};
  return empty({kernels::kNormCounters}, {.dtype = kInt32, .device = device});
}

void changed_by_training(const BatchNorm& args) {
  for (const Tensor* t : {&args.running_mean, &args.running_var, &args.options.batches})
    if (t->defined()) autograd::changed_inplace(*t, args.op);
}

}  // namespace ferrite::ops::norms
