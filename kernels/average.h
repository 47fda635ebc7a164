// The weight of a new value in a running average, computed by the same code on every device.
#pragma once

#include <cmath>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels {

/// The weight of the value that follows the first `count`.
FERRITE_HOST_DEVICE inline double weight_of_next(const AverageArgs& args, std::int64_t count) {
  const auto n = static_cast<double>(count);
  if (args.decay < 0 || count == 0) return 1 / (n + 1);
  if (!args.warmup) return 1 - args.decay;
  const double fading = std::pow(1 + n / args.warmup_gamma, -args.warmup_power);
  return fading > 1 - args.decay ? fading : 1 - args.decay;
}

}  // namespace ferrite::kernels
