// What DistributedDataParallel, DataParallel and Pipeline report of their steps: what moved between
// devices, and where the time went. Bytes and milliseconds of a step, averages over the steps
// counted.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"

namespace ferrite::parallel {

/// Of DistributedDataParallel: its buckets and the time that their communication takes.
struct DDPReport {
  struct Bucket {
    std::vector<std::string> parameters;  ///< in the order in which they lie in it
    std::int64_t numel = 0, bytes = 0;    ///< as communicated, gaps included
    DType dtype = kFloat32;
    Device device = {};
    /// After the start of backward: when the last gradient was there; when communication of it
    /// began and ended.
    double ready_ms = 0, begun_ms = 0, ended_ms = 0;
  };

  std::string group;  ///< "gloo, 4 ranks, this is rank 0"
  std::vector<Bucket> buckets;
  bool rebuilt = false;                    ///< whether in the order in which gradients arrive
  std::int64_t parameters = 0, bytes = 0;  ///< of all buckets: what a step communicates
  std::int64_t steps = 0;                  ///< backward passes with communication
  std::int64_t timed = 0;                  ///< those whose communication could be timed
  double backward_ms = 0;                  ///< from its start until its last gradient
  /// While any bucket was under way, waiting for other ranks included; of that, after the last
  /// gradient.
  double communication_ms = 0, exposed_ms = 0;
  /// The share of communication that is hidden behind backward; 1 where there is none.
  double overlap() const;
  /// A table.
  std::string str() const;
};

/// Of DataParallel. A step is a call of the module, and the backward passes until the next one.
/// Times are those of steps whose work had ended when the report was made. They are read from the
/// clocks of the devices: nothing waits for them.
struct DataParallelReport {
  std::vector<Device> devices;
  std::string backend;  ///< of the transport: "nccl", "copies"; "" with one device
  /// Steps; those that are timed; those in which gradients were summed, and are timed.
  std::int64_t steps = 0, timed = 0, reduced = 0;

  /// To other devices (or from the host): inputs, parameters and buffers, gradients of parameters,
  /// outputs. What backward moves of inputs and outputs is as much again, and not counted.
  double bytes_scattered = 0, bytes_broadcast = 0, bytes_reduced = 0, bytes_gathered = 0;

  /// On the first device: until its inputs and all parameters were sent.
  double scatter_replicate_ms = 0;
  /// Of the replica that took longest; and of each device, 0 where it had nothing to do.
  double forward_ms = 0;
  std::vector<double> device_forward_ms;
  /// What came after that, until all outputs were there.
  double gather_ms = 0;
  /// While gradients of parameters were summed, waiting for other devices included; of that, after
  /// backward had made the last of them. Averages over the steps that did.
  double reduction_ms = 0, exposed_reduction_ms = 0;

  /// The share of the reduction that is hidden behind backward; 1 where there is none.
  double overlap() const;
  /// A table.
  std::string str() const;
};

/// Of Pipeline: its stages, and the time and memory that they take.
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
  std::int64_t bytes_moved = 0;  ///< between devices: activations and gradients
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

std::ostream& operator<<(std::ostream& out, const DDPReport& report);
std::ostream& operator<<(std::ostream& out, const DataParallelReport& report);
std::ostream& operator<<(std::ostream& out, const PipelineReport& report);

namespace reports {

/// Milliseconds in which any of the spans (begin, end) was under way, and of these the ones after
/// `hidden_until`, when the work ended that they may hide behind.
struct Overlap {
  double total = 0, exposed = 0;
};
Overlap overlap(std::vector<std::pair<double, double>> spans, double hidden_until);

}  // namespace reports
}  // namespace ferrite::parallel
