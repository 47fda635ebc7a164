// Timing of kernels.
#pragma once

#include "ferrite/benchmarks/kernels/cases.h"

namespace ferrite::bench {

struct MeasureOptions {
  double budget = 0.2;  ///< approximate seconds of calls; at least five turns; 0: a single call
  /// Successive calls use different copies of the operands, which together hold this many bytes,
  /// more than caches do. 0: one copy.
  double cold_bytes = 256 << 20;
};

struct Measurement {
  double seconds = 0;  ///< per call, the median over several turns
  double bytes = 0, flops = 0;
};

/// With events of the stream on a CUDA device, else with the clock.
Measurement measure(const Spec& spec, const Device& device, const MeasureOptions& options);

}  // namespace ferrite::bench
