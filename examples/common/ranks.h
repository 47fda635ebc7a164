// What programs that train on several processes share.
#pragma once

#include <string>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/nn/module.h"

namespace examples {

/// The process's default group, for as long as this lives: made by who started the process
/// (init_process_group). All ranks but 0 print nothing to stdout from then on.
class ProcessGroupScope {
 public:
  /// `backend`: nccl, gloo, or "" for nccl where `device` is a CUDA device and NCCL is there, else
  /// gloo. `graph`: whether steps are to be CUDA graphs, ValueError where they cannot be.
  ProcessGroupScope(const std::string& backend, const ferrite::Device& device, bool graph);
  /// Says goodbye to the other ranks, unless an exception is under way.
  ~ProcessGroupScope();
  ProcessGroupScope(const ProcessGroupScope&) = delete;
  ProcessGroupScope& operator=(const ProcessGroupScope&) = delete;

 private:
  int exceptions_;
};

/// The device of this process: of "auto" and "cuda" the one with its local rank's number (the only
/// one where there is just one), where there are CUDA devices; else as named. DeviceError where
/// there are fewer.
ferrite::Device device_of_rank(const std::string& name);

/// Gives all ranks the buffers of rank 0: of a model without SyncBatchNorm each has running
/// statistics of its own, and one of them is what is evaluated and saved.
void share_buffers(const ferrite::nn::Module& model);

}  // namespace examples
