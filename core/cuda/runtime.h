// The CUDA runtime as Ferrite's own sources use it: checked calls, the current device, a stream's
// native handle. For kernels and for programs that launch their own.
#pragma once

#include <cuda_runtime_api.h>

#include "ferrite/core/stream.h"

namespace ferrite::cuda {

/// Throws CudaError, or OutOfMemoryError for an allocation failure, with the call, the error's name
/// and text, the device, and what to do about it. Clears the runtime's error state, so that the
/// next call is not blamed for this one. The message says so if the error destroyed the context.
[[noreturn, gnu::cold]] void fail_call(cudaError_t status, const char* call);

/// Makes `device` the calling thread's current CUDA device for the scope of the guard. Does nothing
/// for devices other than cuda:i.
class DeviceGuard {
 public:
  explicit DeviceGuard(const Device& device);
  explicit DeviceGuard(int index) { enter(index); }
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void enter(int index);
  int previous_ = -1;  // -1: nothing to restore
};

/// The native handle of a stream of a CUDA device; DeviceError for other streams.
cudaStream_t native_stream(const Stream& stream);

/// Whether FERRITE_LAUNCH_BLOCKING=1 requests a synchronisation after each kernel, so that an error
/// is thrown by the launch that caused it.
bool launch_blocking();

}  // namespace ferrite::cuda

/// Runs a CUDA runtime call and throws CudaError, naming it, unless it succeeds.
#define FERRITE_CUDA_CHECK(call)                                                               \
  do {                                                                                         \
    if (const cudaError_t ferrite_status = (call); ferrite_status != cudaSuccess) [[unlikely]] \
      ::ferrite::cuda::fail_call(ferrite_status, #call);                                       \
  } while (false)
