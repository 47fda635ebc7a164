// The order in which a pipeline runs the micro-batches of a mini-batch: GPipe's, in ticks of a
// clock (Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline
// Parallelism", 2019; Kim et al., "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant
// Models", 2020).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ferrite::parallel {

/// At `tick`, `stage` works on `micro_batch`.
struct ScheduledRun {
  int tick = 0;         ///< the tick of the clock in which the stage works on it
  int stage = 0;        ///< the number of the stage
  int micro_batch = 0;  ///< the number of the micro-batch
  friend bool operator==(const ScheduledRun&, const ScheduledRun&) = default;
};

/// Whether micro-batches go forward or backward.
enum class PipelinePhase : std::uint8_t { forward, backward };

/// Every combination of stage and micro-batch once, in stages + micro_batches - 1 ticks: in
/// forward, micro-batch m is in stage s at tick m + s; in backward the same is run in reverse, with
/// the last micro-batch first. Within a tick the stages work at the same time; those nearest to the
/// output come first. ValueError unless both are above 0.
std::vector<ScheduledRun> gpipe_schedule(int stages, int micro_batches,
                                         PipelinePhase phase = PipelinePhase::forward);

/// The share of the devices' idle time, in either phase, if all stages take the same time:
/// (stages - 1) / (micro_batches + stages - 1). ValueError unless both are above 0.
double bubble_fraction(int stages, int micro_batches);

/// A line a stage and a column a tick, with the micro-batches that are worked on:
///   stage 0 | 0 1 2 .
///   stage 1 | . 0 1 2
std::string schedule_chart(std::span<const ScheduledRun> schedule);

}  // namespace ferrite::parallel
