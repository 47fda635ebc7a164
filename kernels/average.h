// How much a value weighs in an average, in the arithmetic that does it on every device.
#pragma once

#include <cmath>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels {

/// That of the value behind the first `count`.
FERRITE_HOST_DEVICE inline double weight_of_next(const AverageArgs& args, std::int64_t count) {
  const auto n = static_cast<double>(count);
  if (args.decay < 0 || count == 0) return 1 / (n + 1);
  if (!args.warmup) return 1 - args.decay;
  const double fading = std::pow(1 + n / args.warmup_gamma, -args.warmup_power);
  return fading > 1 - args.decay ? fading : 1 - args.decay;
}

}  // namespace ferrite::kernels
