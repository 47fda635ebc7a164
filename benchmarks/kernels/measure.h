// How long a kernel takes.
#pragma once

#include "ferrite/benchmarks/kernels/cases.h"

namespace ferrite::bench {

struct MeasureOptions {
  double budget = 0.2;  ///< seconds of calls, about; at least five turns, of 0: one call
  /// Calls take turns on so many copies of the operands that together they hold this many bytes,
  /// more than caches do. 0: one copy.
  double cold_bytes = 256 << 20;
};

struct Measurement {
  double seconds = 0;  ///< of one call, the median of several turns
  double bytes = 0, flops = 0;
};

/// On a CUDA device by events of its stream, else by the clock.
Measurement measure(const Spec& spec, const Device& device, const MeasureOptions& options);

}  // namespace ferrite::bench
