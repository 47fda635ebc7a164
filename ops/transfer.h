// Moving values between any two devices.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::ops {

/// out = in, converting the dtype, for equal shapes and any strides, in the order of both devices'
/// current streams. Blocking means that the host may change or read what is its own on return.
///
/// Between a CUDA device and another device bytes cross in one dense run. A tensor that is not
/// dense is packed where it comes from, and a conversion is done on the side that makes the run
/// shorter. Host memory that is not pinned goes through pinned memory where it is not too large, so
/// that neither side waits for the other; the caller waits only where the device reads his own
/// memory or he is about to read the device's.
///
/// CudaError, tagged with `op`, where a CUDA device's stream is being captured into a graph that
/// cannot hold the copy: all but those within the device, and between it and dense pinned memory of
/// the host where nobody waits.
void transfer(const Tensor& out, const Tensor& in, bool non_blocking, const char* op);

}  // namespace ferrite::ops
