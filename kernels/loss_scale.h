// Loss scales.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// A loss scale and the state of its updates: one number each, on the device.
struct LossScale {
  float* scale;
  float* inv_scale;              ///< 1 / scale
  std::int64_t* growth_tracker;  ///< updates without overflow since the scale last changed
  std::int64_t* overflows;       ///< updates with overflow, ever
};
struct UpdateScaleArgs {
  double growth_factor, backoff_factor;
  std::int64_t growth_interval;
  double min_scale = 0, max_scale = std::numeric_limits<double>::infinity();
};
/// One update, computed by the same code on every device.
FERRITE_HOST_DEVICE inline void advance(const LossScale& s, bool overflow,
                                        const UpdateScaleArgs& args) {
  if (overflow) {
    ++*s.overflows;
    const double reduced = *s.scale * args.backoff_factor;
    *s.scale = static_cast<float>(reduced < args.min_scale ? args.min_scale : reduced);
    *s.growth_tracker = 0;
  } else if (++*s.growth_tracker >= args.growth_interval) {
    const double raised = *s.scale * args.growth_factor;
    const auto grown = static_cast<float>(raised > args.max_scale ? args.max_scale : raised);
    if (std::isfinite(grown)) *s.scale = grown;
    *s.growth_tracker = 0;
  }
  *s.inv_scale = static_cast<float>(1 / static_cast<double>(*s.scale));
}

/// If one of the flags `found_inf` is not 0, scale *= backoff_factor, but not below min_scale, and
/// the growth tracker restarts at 0. Otherwise the tracker is incremented, and at every
/// growth_interval-th time scale *= growth_factor, but not above max_scale and not to infinity.
/// Then resets the flags to 0 for the next step.
FERRITE_KERNEL(update_scale, const LossScale& scale, const std::vector<float*>& found_inf,
               const UpdateScaleArgs& args);

}  // namespace ferrite::kernels
