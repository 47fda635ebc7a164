// Norms made of others: instance_norm and local_response_norm.
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/norm_arguments.h"
#include "ferrite/ops/pool_planes.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/renamed.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

namespace {

void check(const Tensor& x, const char* op) {
  ops::norms::check_input(x, op);
  FERRITE_CHECK(x.dim() >= 2, ShapeError, op, "expects an input of [N, C, *], got {}",
                x.describe());
}

/// running = (1 - momentum) * running + momentum * (the mean over the batch of the statistics).
void update_running(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                    double momentum) {
  if (x.size(0) == 0) return;
  const NoGradGuard guard;
  const Tensor rows =
      x.reshape({x.size(0), x.size(1), -1}).to(ops::norms::statistics_dtype(x.dtype()));
  const auto move = [&](const Tensor& running, const Tensor& batch) {
    running.copy_(running * (1 - momentum) + mean(batch, {0}) * momentum);
  };
  move(running_mean, mean(rows, {2}));
  move(running_var, var(rows, {2}));
}

}  // namespace

Tensor instance_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, const InstanceNormFuncOptions& o) {
  if (tracing::on() && o.use_input_stats)
    return tracing::op("instance_norm", {input, weight, bias}, {{"eps", o.eps}}, [&] {
      return instance_norm(input, running_mean, running_var, weight, bias, o);
    });
  const profiler::OpRange range("instance_norm", input, running_mean, running_var, weight, bias);
  constexpr const char* op = "instance_norm";
  check(input, op);
  ops::norms::check_running(running_mean, running_var, op);
  return ops::renamed(op, [&] {
    // It also checks the statistics.
    if (!o.use_input_stats)
      return batch_norm(input, running_mean, running_var, weight, bias, {.eps = o.eps});
    std::int64_t values = 1;
    for (int d = 2; d < input.dim(); ++d) values *= input.size(d);
    FERRITE_CHECK(values != 1, ShapeError, op,
                  "cannot normalise a single value a channel, got {}; use a larger input or eval "
                  "mode",
                  input.describe());
    Tensor out = group_norm(input, input.size(1), weight, bias, o.eps);
    if (!running_mean.defined()) return out;
    for (const Tensor* t : {&running_mean, &running_var}) {
      FERRITE_CHECK(t->dim() == 1 && t->size(0) == input.size(1), ShapeError, op,
                    "expected running statistics [{}], got {}", input.size(1), t->describe());
      FERRITE_CHECK(t->device() == input.device(), DeviceError, op,
                    "a running statistic is on {}, input on {}", t->device(), input.device());
    }
    update_running(input, running_mean, running_var, o.momentum);
    return out;
  });
}

Tensor local_response_norm(const Tensor& input, std::int64_t size,
                           const LocalResponseNormOptions& o) {
  if (tracing::on())
    return tracing::op("local_response_norm", {input},
                       {{"size", size}, {"alpha", o.alpha}, {"beta", o.beta}, {"k", o.k}},
                       [&] { return local_response_norm(input, size, o); });
  const profiler::OpRange range("local_response_norm", input);
  constexpr const char* op = "local_response_norm";
  check(input, op);
  FERRITE_CHECK(input.dim() >= 3, ShapeError, op, "expects an input of [N, C, *], got {}",
                input.describe());
  FERRITE_CHECK(size >= 1, ValueError, op, "size must be 1 or more, got {}", size);
  if (input.numel() == 0) return input;
  return ops::renamed(op, [&] {
    const std::int64_t n = input.size(0), c = input.size(1), rest = input.numel() / (n * c);
    const Tensor squares = square(input).reshape({n, 1, c, rest});
    const Tensor means = ops::avg_pool_planes(op, pad(squares, {0, 0, size / 2, (size - 1) / 2}),
                                              {.kernel_size = Pair(size, 1), .stride = 1});
    return input / pow(means.reshape(input.shape()) * o.alpha + o.k, o.beta);
  });
}

}  // namespace ferrite
