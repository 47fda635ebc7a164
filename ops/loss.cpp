#include "ferrite/ops/loss.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/warning.h"
#include "ferrite/kernels/check_range.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/loss_parts.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using ops::reduced;

namespace {

void check_pair(const Tensor& input, const Tensor& target, const char* op) {
  ops::check_same_device(input, target, op);
  FERRITE_CHECK(is_floating(ops::result_type(input, target)), DTypeError, op,
                "expected floating types, got {} and {}", input.describe(), target.describe());
}
void check_broadcast(const Tensor& input, const Tensor& target, const char* op) {
  check_pair(input, target, op);
  const Shape shape = broadcast_shapes(input.shape(), target.shape(), op);
  static std::atomic<bool> warned{false};
  if (input.shape() == target.shape() || warned.load(std::memory_order_relaxed)) return;
  warn_once(warned, op,
            fmt::format("input {} and target {} differ in shape and are broadcast to {}, which is "
                        "rarely meant; reshape one of them",
                        input.shape(), target.shape(), shape));
}
void check_same_shape(const Tensor& input, const Tensor& target, const char* op) {
  check_pair(input, target, op);
  FERRITE_CHECK(is_floating(input.dtype()) && is_floating(target.dtype()), DTypeError, op,
                "expected floating types, got {} and {}", input.describe(), target.describe());
  FERRITE_CHECK(input.shape() == target.shape(), ShapeError, op,
                "input and target must agree in shape, got {} and {}", input.describe(),
                target.describe());
}

/// `factor` may be undefined.
void check_factor(const Tensor& factor, const Tensor& input, const char* what, const char* op) {
  if (!factor.defined()) return;
  ops::check_same_device(input, factor, op);
  FERRITE_CHECK(broadcast_shapes(input.shape(), factor.shape(), op) == input.shape(), ShapeError,
                op, "{} {} does not broadcast to the input {}", what, factor.describe(),
                input.describe());
}

Tensor weighted(const Tensor& losses, const Tensor& weight) {
  return weight.defined() ? losses * weight : losses;
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Choice<Reduction> reduction) {
  if (const auto cast = ops::autocast(AutocastOp::mse_loss, input, target)) {
    const auto& [x, y] = *cast;
    return mse_loss(x, y, reduction);
  }
  const profiler::OpRange range("mse_loss", input, target);
  check_broadcast(input, target, "mse_loss");
  return reduced(square(input - target), reduction, "mse_loss");
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Choice<Reduction> reduction) {
  if (const auto cast = ops::autocast(AutocastOp::l1_loss, input, target)) {
    const auto& [x, y] = *cast;
    return l1_loss(x, y, reduction);
  }
  const profiler::OpRange range("l1_loss", input, target);
  check_broadcast(input, target, "l1_loss");
  return reduced(abs(input - target), reduction, "l1_loss");
}

namespace {

/// A loss of d = input - target that is quadratic where |d| is below limit * unit and linear above.
/// Its slope is s = d / unit, clamped to `limit`, and its value s (d - s unit / 2), for both parts.
/// The gradient is the slope: finite, whereas autograd through the quadratic part has 0 * infinity.
Tensor quadratic_then_linear(const char* op, const Tensor& input, const Tensor& target, double unit,
                             double limit) {
  const auto slope = [=](const Tensor& difference) {
    return clamp(unit == 1 ? difference : difference / unit, -limit, limit);
  };
  const Tensor out = no_grad([&] {
    return ops::computed_in(
        ops::result_type(input, target),
        [&](const Tensor& x, const Tensor& y) {
          const Tensor difference = x - y, s = slope(difference);
          return difference.add_(s, -0.5 * unit).mul_(s);
        },
        input, target);
  });
  if (recording(input, target))
    record(out, op, {input, target},
           [slope, x = Saved(input), y = Saved(target), lx = ops::Like(input),
            ly = ops::Like(target)](const Tensor& grad, Needs needs) -> Gradients {
             const Tensor g = slope(x.get() - y.get()) * grad;
             return {needs[0] ? lx.reduce(g) : Tensor(), needs[1] ? ly.reduce(neg(g)) : Tensor()};
           });
  return out;
}

}  // namespace

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::smooth_l1_loss, input, target)) {
    const auto& [x, y] = *cast;
    return smooth_l1_loss(x, y, options);
  }
  const profiler::OpRange range("smooth_l1_loss", input, target);
  check_broadcast(input, target, "smooth_l1_loss");
  FERRITE_CHECK(options.beta >= 0, ValueError, "smooth_l1_loss", "beta must be at least 0, got {}",
                options.beta);
  // Beta in the precision of the computation, where it may be 0 or infinite.
  constexpr double kMostFloat = std::numeric_limits<float>::max();
  const double beta = ops::result_type(input, target) == kFloat64 ? options.beta
                      : options.beta > kMostFloat                 ? INFINITY
                                                  : static_cast<float>(options.beta);
  const Tensor out = beta == 0 ? abs(input - target)
                     : std::isinf(beta)
                         ? (input - target) * 0
                         : quadratic_then_linear("smooth_l1_loss", input, target, beta, 1);
  return reduced(out, options.reduction, "smooth_l1_loss");
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::huber_loss, input, target)) {
    const auto& [x, y] = *cast;
    return huber_loss(x, y, options);
  }
  const profiler::OpRange range("huber_loss", input, target);
  check_broadcast(input, target, "huber_loss");
  FERRITE_CHECK(options.delta > 0, ValueError, "huber_loss", "delta must be above 0, got {}",
                options.delta);
  return reduced(quadratic_then_linear("huber_loss", input, target, 1, options.delta),
                 options.reduction, "huber_loss");
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::binary_cross_entropy_with_logits, input, target,
                                      options.weight, options.pos_weight)) {
    const auto& [x, y, weight, pos_weight] = *cast;
    BceWithLogitsOptions with_cast = options;
    with_cast.weight = weight, with_cast.pos_weight = pos_weight;
    return binary_cross_entropy_with_logits(x, y, with_cast);
  }
  const profiler::OpRange range("binary_cross_entropy_with_logits", input, target);
  constexpr const char* op = "binary_cross_entropy_with_logits";
  check_same_shape(input, target, op);
  check_factor(options.weight, input, "weight", op);
  check_factor(options.pos_weight, input, "pos_weight", op);
  // log(1 - sigmoid(x)) is log(sigmoid(x)) - x.
  const Tensor log_p = logsigmoid(input);
  const Tensor weighted_log_p =
      options.pos_weight.defined() ? log_p * ((options.pos_weight - 1) * target + 1) : log_p;
  return reduced(weighted((1 - target) * input - weighted_log_p, options.weight), options.reduction,
                 "binary_cross_entropy_with_logits");
}

namespace {

/// The loss of each element. As in PyTorch, its gradient has no poles at 0 and 1; the gradient of
/// the target, which is the unclamped logarithms, has.
Tensor bce_elements(const Tensor& p, const Tensor& target) {
  constexpr double kLogFloor = -100, kEpsilon = 1e-12;
  kernels::check_range(current_stream(p.device()), "binary_cross_entropy", p, 0, 1);
  const auto log_p = [](const Tensor& x) { return clamp_min(log(x), kLogFloor); };
  const auto log_not_p = [](const Tensor& x) { return clamp_min(log1p(neg(x)), kLogFloor); };
  const Tensor out = no_grad([&] { return (target - 1) * log_not_p(p) - target * log_p(p); });
  if (recording(p, target))
    record(out, "binary_cross_entropy", {p, target},
           [p = Saved(p), target = Saved(target)](const Tensor& grad, Needs needs) -> Gradients {
             const Tensor x = p.get(), t = target.get();
             return {needs[0] ? grad * (x - t) / clamp_min((1 - x) * x, kEpsilon) : Tensor(),
                     needs[1] ? grad * (log1p(neg(x)) - log(x)) : Tensor()};
           });
  return out;
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BceOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::binary_cross_entropy, input, target)) {
    const auto& [x, y] = *cast;
    return binary_cross_entropy(x, y, options);
  }
  const profiler::OpRange range("binary_cross_entropy", input, target);
  check_same_shape(input, target, "binary_cross_entropy");
  FERRITE_CHECK(input.dtype() == target.dtype(), DTypeError, "binary_cross_entropy",
                "input and target must agree in dtype, got {} and {}", input.describe(),
                target.describe());
  check_factor(options.weight, input, "weight", "binary_cross_entropy");
  return reduced(weighted(bce_elements(input, target), options.weight), options.reduction,
                 "binary_cross_entropy");
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options) {
  if (const auto cast = ops::autocast(AutocastOp::kl_div, input, target)) {
    const auto& [x, y] = *cast;
    return kl_div(x, y, options);
  }
  const profiler::OpRange range("kl_div", input, target);
  check_broadcast(input, target, "kl_div");
  const bool by_batch = options.reduction == Reduction::batchmean;
  const auto divergence = [&](const Tensor& losses) {
    if (!by_batch) return reduced(losses, options.reduction, "kl_div");
    const Tensor all = sum(losses);
    return input.dim() > 0 ? all / static_cast<double>(input.size(0)) : all;
  };
  if (options.log_target) return divergence(exp(target) * (target - input));
  // 0 log(0) is 0; the logarithm of a negative number is NaN, as in PyTorch.
  const Tensor log_target = log(where(ne(target, 0), target, 1));
  return divergence(target * (log_target - input));
}

}  // namespace ferrite
