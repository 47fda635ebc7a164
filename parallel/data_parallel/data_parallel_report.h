// What DataParallel tells of its steps: what moved between the devices, and where the time went.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ferrite/core/device.h"

namespace ferrite::parallel {

/// A step is a call of the module, and the backward passes until the next one. Bytes are averages
/// over all steps; times, in milliseconds, over those whose work had ended when the report was
/// made. They are read from the clocks of the devices: nothing waits for them.
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

std::ostream& operator<<(std::ostream& out, const DataParallelReport& report);

}  // namespace ferrite::parallel
