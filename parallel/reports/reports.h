// Reports of DistributedDataParallel, DataParallel and Pipeline: bytes moved between devices, and
// time spent. Bytes and milliseconds per step, averaged over the counted steps.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"

namespace ferrite::parallel {

/// DistributedDataParallel: its buckets and their communication times.
struct DDPReport {
  /// A bucket of gradients and its times.
  struct Bucket {
    std::vector<std::string> parameters;  ///< in the order of their positions
    std::int64_t numel = 0, bytes = 0;    ///< as communicated, including gaps
    DType dtype = kFloat32;
    Device device = {};
    /// Relative to the start of backward: when the last gradient arrived; when its communication
    /// began and ended.
    double ready_ms = 0, begun_ms = 0, ended_ms = 0;
  };

  std::string group;                       ///< "gloo, 4 ranks, this is rank 0"
  std::vector<Bucket> buckets;             ///< the buckets, in the order of their communication
  bool rebuilt = false;                    ///< whether rebuilt in the order in which gradients
                                           ///< arrive
  std::int64_t parameters = 0, bytes = 0;  ///< totals over all buckets, per step
  std::int64_t steps = 0;                  ///< backward passes with communication
  std::int64_t timed = 0;                  ///< those with measured communication
  double backward_ms = 0;                  ///< from its start to its last gradient
  /// Time during which any bucket was being communicated, including waits for other ranks; and the
  /// part after the last gradient.
  double communication_ms = 0, exposed_ms = 0;
  /// The share of communication hidden behind backward; 1 if there is none.
  double overlap() const;
  /// A table.
  std::string str() const;
};

/// DataParallel. A step is a call of the module, and the backward passes until the next one. Times
/// are those of steps that had finished when the report was made. They are read from the devices'
/// events without waiting.
struct DataParallelReport {
  std::vector<Device> devices;
  std::string backend;  ///< the transport: "nccl", "copies"; "" with one device
  /// Number of steps; timed steps; timed steps in which gradients were summed.
  std::int64_t steps = 0, timed = 0, reduced = 0;

  /// To other devices (or from the host): inputs, parameters and buffers, gradients of parameters,
  /// outputs. Backward moves the same amount again for inputs and outputs, which is not counted.
  double bytes_scattered = 0, bytes_broadcast = 0, bytes_reduced = 0, bytes_gathered = 0;

  /// On the first device: until its inputs and all parameters were sent.
  double scatter_replicate_ms = 0;
  /// The time of forward on the slowest replica; and on each device, 0 if it had nothing to do.
  double forward_ms = 0;
  /// Milliseconds of forward on each device; 0 if it had nothing to do.
  std::vector<double> device_forward_ms;
  /// From the end of forward until all outputs were gathered.
  double gather_ms = 0;
  /// Time during which gradients of parameters were summed, including waits for other devices; and
  /// the part after backward produced the last of them. Averages over the steps that summed
  /// gradients.
  double reduction_ms = 0, exposed_reduction_ms = 0;

  /// The share of the reduction hidden behind backward; 1 if there is none.
  double overlap() const;
  /// A table.
  std::string str() const;
};

/// Pipeline: its stages, and their time and memory.
struct PipelineReport {
  /// A stage of the pipeline, and its times.
  struct Stage {
    Device device = {};
    std::int64_t first_layer = 0;            ///< the index of the stage's first layer
    std::int64_t layers = 0;                 ///< the number of layers of the stage
    std::int64_t parameters = 0, bytes = 0;  ///< of the parameters
    /// Per step, for all micro-batches together, on the device: waits for other stages are not
    /// included. `recompute_ms` is the time of checkpointing's recomputation before backward.
    double forward_ms = 0, recompute_ms = 0, backward_ms = 0;
    /// Milliseconds of a step in which the stage worked: forward, recomputation and backward.
    double busy_ms() const { return forward_ms + recompute_ms + backward_ms; }
  };
  /// The memory of a device.
  struct Memory {
    Device device = {};
    /// Peak bytes held by the device during a step beyond those at its start, sampled whenever a
    /// stage was run or recomputed: activations, and gradients that backward is accumulating.
    std::int64_t peak_activations = 0;
  };

  std::vector<Stage> stages;
  std::vector<Memory> memory;    ///< one per device
  int micro_batches = 0;         ///< of the last step
  std::int64_t steps = 0;        ///< forwards with a graph
  std::int64_t timed = 0;        ///< those that ended in a backward, and are in the averages
  std::int64_t bytes_moved = 0;  ///< between devices: activations and gradients
  /// From the start of the first stage's forward to the end of its backward, without the time
  /// between forward and backward of the last stage (the loss).
  double step_ms = 0;
  /// (stages - 1) / (micro_batches + stages - 1): for stages that take the same time.
  double expected_bubble = 0;
  /// The share of step_ms during which the stages were idle, on average; includes the effect of
  /// unequal stages, and of copies that are not hidden. 0 if nothing was timed.
  double measured_bubble = 0;
  /// A table.
  std::string str() const;
};

std::ostream& operator<<(std::ostream& out, const DDPReport& report);
std::ostream& operator<<(std::ostream& out, const DataParallelReport& report);
std::ostream& operator<<(std::ostream& out, const PipelineReport& report);

namespace reports {

/// Milliseconds during which any of the spans (begin, end) was active, and the part of these after
/// `hidden_until`, the end of the work that may hide them.
struct Overlap {
  double total = 0;    ///< the time in which any of the spans was active
  double exposed = 0;  ///< the part of the time that nothing hid
};
/// The time of all, and of what overlaps.
Overlap overlap(std::vector<std::pair<double, double>> spans, double hidden_until);

}  // namespace reports
}  // namespace ferrite::parallel
