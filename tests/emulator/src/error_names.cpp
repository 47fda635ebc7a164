// Names and descriptions of errors.
#include <cuda_runtime_api.h>

namespace {

struct Known {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define KNOWN(name, text) \
  { name, #name, text }
// The errors that the emulator returns, and some that callers compare with.
constexpr Known kKnown[] = {
    KNOWN(cudaSuccess, "no error"),
    KNOWN(cudaErrorInvalidValue, "invalid argument"),
    KNOWN(cudaErrorMemoryAllocation, "out of memory"),
    KNOWN(cudaErrorInitializationError, "initialization error"),
    KNOWN(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    KNOWN(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    KNOWN(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    KNOWN(cudaErrorInvalidDeviceFunction, "invalid device function"),
    KNOWN(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    KNOWN(cudaErrorInvalidDevice, "invalid device ordinal"),
    KNOWN(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    KNOWN(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    KNOWN(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    KNOWN(cudaErrorNotReady, "device not ready"),
    KNOWN(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    KNOWN(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    KNOWN(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    KNOWN(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    KNOWN(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    KNOWN(cudaErrorAssert, "device-side assert triggered"),
    KNOWN(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    KNOWN(cudaErrorHostMemoryNotRegistered,
          "pointer does not correspond to a registered memory region"),
    KNOWN(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    KNOWN(cudaErrorMisalignedAddress, "misaligned address"),
    KNOWN(cudaErrorLaunchFailure, "unspecified launch failure"),
    KNOWN(cudaErrorNotPermitted, "operation not permitted"),
    KNOWN(cudaErrorNotSupported, "operation not supported"),
    KNOWN(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    KNOWN(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    KNOWN(cudaErrorStreamCaptureMerge,
          "operation would result in a merge of separate capture sequences"),
    KNOWN(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    KNOWN(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    KNOWN(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    KNOWN(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    KNOWN(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream"),
    KNOWN(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    KNOWN(cudaErrorUnknown, "unknown error"),
};
#undef KNOWN

const Known* find(cudaError_t error) {
  for (const Known& known : kKnown)
    if (known.error == error) return &known;
  return nullptr;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const Known* const known = find(error);
  return known ? known->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const Known* const known = find(error);
  return known ? known->text : "unrecognized error code";
}

}  // extern "C"
