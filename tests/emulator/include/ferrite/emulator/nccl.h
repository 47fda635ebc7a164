// The emulator's NCCL, for tests: what is not in NVIDIA's interface.
#pragma once

#include <nccl.h>

namespace emulator {

/// From now on ncclCommGetAsyncError says this of the communicators that the device has.
void plant_nccl_error(int device, ncclResult_t error);

/// Communicators that were neither destroyed nor aborted.
int live_nccl_communicators();

}  // namespace emulator
