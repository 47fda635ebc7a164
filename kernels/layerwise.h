// LARS and LAMB: steps whose size depends on the norms of each parameter.
#pragma once

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels {

/// SGD whose gradients are scaled by a trust ratio per parameter w (You, Gitman and Ginsburg 2017):
/// trust_coefficient |w| / (|g| + weight_decay |w| + eps), or 1 if |w| or |g| is 0. Norms are
/// Euclidean, summed in float64, always in the same order.
struct LarsArgs {
  double momentum, dampening, weight_decay, trust_coefficient, eps;
  bool trust_clip;  ///< LARC: the step size is min(ratio, lr) instead of ratio * lr
  bool nesterov, maximize;
};
/// state: momentum buffer (null without momentum).
FERRITE_KERNEL(lars, const OptimBatch& batch, const LarsArgs& args);

/// w -= lr * ratio * u, with Adam's u = m / (sqrt(v) + eps) + weight_decay w and the trust ratio
/// |w| / |u|, clamped to the bounds, or 1 if either norm is 0 (You et al. 2020).
struct LambArgs {
  double beta1, beta2, eps, weight_decay, min_trust_ratio, max_trust_ratio;
  bool bias_correction, maximize;
};
/// state: first moment, second moment.
FERRITE_KERNEL(lamb, const OptimBatch& batch, const LambArgs& args);

// ---- The trust ratios, computed by the same code on every device

/// LARS: the factor for a gradient of norm `grad` of a parameter of norm `weight`.
FERRITE_HOST_DEVICE inline double trust_ratio(const LarsArgs& args, double weight, double grad,
                                              double lr) {
  if (!(weight > 0 && grad > 0)) return 1;
  const double ratio =
      args.trust_coefficient * weight / (grad + args.weight_decay * weight + args.eps);
  return args.trust_clip && !(ratio < lr) ? 1 : args.trust_clip ? ratio / lr : ratio;
}

/// LAMB: the factor for an update of norm `update` of a parameter of norm `weight`.
FERRITE_HOST_DEVICE inline double trust_ratio(const LambArgs& args, double weight, double update) {
  if (!(weight > 0 && update > 0)) return 1;
  const double ratio = weight / update;
  return ratio < args.min_trust_ratio   ? args.min_trust_ratio
         : ratio > args.max_trust_ratio ? args.max_trust_ratio
                                        : ratio;
}

}  // namespace ferrite::kernels
