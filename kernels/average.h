// Averages of weights.
#pragma once

#include <cmath>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels {

/// The weight of a new value in the average of the previous ones.
struct AverageArgs {
  /// Decay of an exponential average; negative: all values have equal weight.
  double decay = -1;
  /// The decay of the n-th update is at most 1 - (1 + n / warmup_gamma)^-warmup_power.
  bool warmup = false;
  double warmup_gamma = 1, warmup_power = 2.0 / 3;
};
/// The weight of the value that follows the first `count`, computed by the same code on every
/// device.
FERRITE_HOST_DEVICE inline double weight_of_next(const AverageArgs& args, std::int64_t count) {
  const auto n = static_cast<double>(count);
  if (args.decay < 0 || count == 0) return 1 / (n + 1);
  if (!args.warmup) return 1 - args.decay;
  const double fading = std::pow(1 + n / args.warmup_gamma, -args.warmup_power);
  return fading > 1 - args.decay ? fading : 1 - args.decay;
}

/// weight (float64, one element) = the weight of the next value; increments `count`, the number of
/// values so far. The first value has weight 1.
FERRITE_KERNEL(average_weight, std::int64_t* count, const View& weight, const AverageArgs& args);
/// average += weight * (value - average), array by array; a copy if the weight is 1. The dtypes are
/// equal, or one is float32 and the other has 16 bits.
FERRITE_KERNEL(average_all, const FlatTensors& averages, const FlatTensors& values,
               const View& weight);

}  // namespace ferrite::kernels
