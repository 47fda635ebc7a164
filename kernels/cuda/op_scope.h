// The scope of an op on a CUDA device.
#pragma once

#include "ferrite/core/cuda.h"
#include "ferrite/core/stream.h"

namespace ferrite::kernels::cuda {

/// Makes the stream's device current and, if profiling is on, opens an NVTX range named `op`.
class OpScope {
 public:
  OpScope(const Stream& stream, const char* op);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  int previous_device_ = -1;  // -1: it was current already
  ferrite::cuda::NvtxRange range_;
};

}  // namespace ferrite::kernels::cuda
