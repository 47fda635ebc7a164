#include "ferrite/core/cuda/runtime.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/error.h"

namespace ferrite::cuda {

namespace {

// Not named by all toolkits that the library builds with.
constexpr int kErrorContained = 226;  // of peers over NVLink, or of the hardware
constexpr int kErrorTensorMemoryLeak = 721;

/// Whether this error makes the device unusable for the rest of the process.
bool loses_context(cudaError_t status) {
  switch (static_cast<int>(status)) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case kErrorContained:
    case kErrorTensorMemoryLeak:
      return true;
    default:
      return false;
  }
}

std::string_view advice(cudaError_t status) {
  if (loses_context(status))
    return "the process's CUDA context is lost and the process must be restarted. The cause may be "
           "an earlier kernel: FERRITE_LAUNCH_BLOCKING=1 has the launch that caused it throw, and "
           "compute-sanitizer names the line";
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "free tensors, call empty_cache() or use a smaller batch; the process remains usable";
    case cudaErrorNoDevice:
      return "no CUDA device is visible; see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorInsufficientDriver:
      return "the driver is older than the CUDA runtime of this build; update the driver";
    case cudaErrorInvalidDevice:
      return "no such device; see cuda::device_count()";
    case cudaErrorSystemNotReady:
      return "a service that the GPUs need does not run; with NVSwitch that is the NVIDIA Fabric "
             "Manager, see systemctl status nvidia-fabricmanager";
    case cudaErrorDevicesUnavailable:
      return "the device is in use by another process that does not share it";
    case cudaErrorNoKernelImageForDevice:
      return "this build has no kernels for the device's compute capability; configure with "
             "-DCMAKE_CUDA_ARCHITECTURES for it";
    case cudaErrorInvalidConfiguration:
    case cudaErrorLaunchOutOfResources:
      return "the grid, the block or its resources are more than the device has";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorCapturedEvent:
      return "not possible while a stream is captured into a graph; do it before the capture or "
             "after";
    case cudaErrorNotPermitted:
      return "functions that run on a stream must not use CUDA";
    default:
      return "the process remains usable";
  }
}

}  // namespace

void fail_call(cudaError_t status, const char* call) {
  cudaGetLastError();  // clears the error unless it is sticky
  int device = -1;
  const bool known = cudaGetDevice(&device) == cudaSuccess;
  const std::string message =
      fmt::format("[cuda] {} failed on {}: {} ({}); {}", call,
                  known ? fmt::format("cuda:{}", device) : "no device", cudaGetErrorName(status),
                  cudaGetErrorString(status), advice(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemoryError(message);
  throw CudaError(message);
}

DeviceGuard::DeviceGuard(const Device& device) {
  if (device.is_cuda()) enter(device.index());
}

void DeviceGuard::enter(int index) {
  const int previous = detail::set_device(index);
  if (previous != index) previous_ = previous;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) detail::restore_device(previous_);
}

bool launch_blocking() {
  static const bool on = [] {
    const char* value = std::getenv("FERRITE_LAUNCH_BLOCKING");
    return value && std::string_view(value) != "" && std::string_view(value) != "0";
  }();
  return on;
}

}  // namespace ferrite::cuda
