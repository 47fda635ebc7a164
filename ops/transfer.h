// Copies values between any two devices.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::ops {

/// out = in, converting the dtype, for equal shapes and any strides, ordered with the current
/// streams of both devices. If it is blocking, the host may change or read its own memory on
/// return.
///
/// Between a CUDA device and another device the bytes are transferred as one contiguous run. A
/// tensor that is not dense is packed on its source device, and a conversion is done on the side
/// that makes the transfer smaller. Host memory that is not pinned goes through pinned memory if it
/// is not too large, so that neither side waits for the other; the caller waits only if the device
/// reads the caller's memory directly or the caller is about to read the device's.
///
/// CudaError, tagged with `op`, if a CUDA device's stream is being captured into a graph that
/// cannot contain the copy. A graph can contain copies within the device, and non-blocking ones
/// between it and dense pinned host memory.
void transfer(const Tensor& out, const Tensor& in, bool non_blocking, const char* op);

}  // namespace ferrite::ops
