// Devices of one process that exchange tensors by NCCL.
#pragma once

#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel::dp {

/// For CUDA devices that are there, each once; errors as make_nccl_clique (parallel/comm/clique.h).
std::shared_ptr<DeviceComm> make_nccl_device_comm(std::vector<Device> devices);

}  // namespace ferrite::parallel::dp
