// What a Pipeline tells of its stages, and of the time and memory that they take.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ferrite/core/device.h"

namespace ferrite::parallel {

/// Times are averages over the steps counted, in milliseconds.
struct PipelineReport {
  struct Stage {
    Device device = {};
    std::int64_t first_layer = 0, layers = 0;
    std::int64_t parameters = 0, bytes = 0;  ///< of the parameters
    /// Of a step, all micro-batches together, as the device worked on them: waiting for other
    /// stages is not in it. `recompute_ms` is what checkpointing did again ahead of backward.
    double forward_ms = 0, recompute_ms = 0, backward_ms = 0;
    double busy_ms() const { return forward_ms + recompute_ms + backward_ms; }
  };
  struct Memory {
    Device device = {};
    /// The most, in bytes, that the device held during a step beyond what it held when that began;
    /// looked at whenever a stage has been run or recomputed: activations, and gradients that
    /// backward is adding up.
    std::int64_t peak_activations = 0;
  };

  std::vector<Stage> stages;
  std::vector<Memory> memory;  ///< one a device
  int micro_batches = 0;       ///< of the last step
  std::int64_t steps = 0;      ///< forwards that could be differentiated
  std::int64_t timed = 0;      ///< those of them that ended in a backward, and are in the averages
  std::int64_t bytes_moved = 0;  ///< between devices, of a step: activations and gradients
  /// From the first stage's beginning of forward to its end of backward, without what happens
  /// between forward and backward of the last stage (the loss).
  double step_ms = 0;
  /// (stages - 1) / (micro_batches + stages - 1): of stages that all take the same time.
  double expected_bubble = 0;
  /// The share of step_ms that the devices' stages were idle for, on average; what the stages
  /// differ in, and copies that nothing hides, are in it. 0 where nothing was timed.
  double measured_bubble = 0;
  /// A table.
  std::string str() const;
};

std::ostream& operator<<(std::ostream& out, const PipelineReport& report);

}  // namespace ferrite::parallel
