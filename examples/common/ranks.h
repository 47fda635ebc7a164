// Common code of programs that train on several processes.
#pragma once

#include <string>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/nn/module.h"

namespace examples {

/// The default process group during this object's lifetime, created from the launcher's environment
/// (init_process_group). From then on, only rank 0 prints to stdout.
class ProcessGroupScope {
 public:
  /// `backend`: nccl, gloo, or "" for nccl if `device` is a CUDA device and NCCL is available, else
  /// gloo. `graph`: whether steps run as CUDA graphs; ValueError if the backend does not support
  /// it.
  ProcessGroupScope(const std::string& backend, const ferrite::Device& device, bool graph);
  /// Leaves the group in agreement with the other ranks, unless an exception is in flight.
  ~ProcessGroupScope();
  ProcessGroupScope(const ProcessGroupScope&) = delete;
  ProcessGroupScope& operator=(const ProcessGroupScope&) = delete;

 private:
  int exceptions_;
};

/// The device of this process. For "auto" and "cuda", if there are CUDA devices, it is the one with
/// the index of the local rank (or the only visible one); otherwise the device with that name.
/// DeviceError if there are too few devices.
ferrite::Device device_of_rank(const std::string& name);

/// Copies the buffers of rank 0 to all ranks. Without SyncBatchNorm each rank has its own running
/// statistics, but the evaluated and saved ones must be the same.
void share_buffers(const ferrite::nn::Module& model);

}  // namespace examples
