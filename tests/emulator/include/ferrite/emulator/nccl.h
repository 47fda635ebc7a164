// Test interface of the emulator's NCCL, beyond NVIDIA's interface.
#pragma once

#include <nccl.h>

namespace emulator {

/// From now on ncclCommGetAsyncError returns this for the communicators of the device.
void plant_nccl_error(int device, ncclResult_t error);

/// Communicators that were neither destroyed nor aborted.
int live_nccl_communicators();

}  // namespace emulator
