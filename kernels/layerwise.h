// The trust ratios by which LARS and LAMB scale a parameter's update, computed by the same code on
// every device.
#pragma once

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels {

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
