// The update of a loss scale, computed by the same code on every device.
#pragma once

#include <cmath>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels {

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

}  // namespace ferrite::kernels
