// Copies between the devices of a process: the transport that needs nothing but their memory.
#pragma once

#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel::dp {

/// For devices that are there, of one type, each once.
std::shared_ptr<DeviceComm> make_copies_device_comm(std::vector<Device> devices);

}  // namespace ferrite::parallel::dp
