// Test interface of the emulator's NCCL, beyond NVIDIA's interface.
#pragma once

#include <nccl.h>

#include <cstdint>

namespace emulator {

/// From now on ncclCommGetAsyncError returns this for the communicators of the device.
void plant_nccl_error(int device, ncclResult_t error);

/// Groups of calls so far, including calls outside of a group: NCCL starts a thread for each.
std::uint64_t nccl_groups();

/// Communicators that were neither destroyed nor aborted.
int live_nccl_communicators();

}  // namespace emulator
