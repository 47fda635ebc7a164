// Page-locked host memory, and copies of bytes between devices.
#include <cuda_runtime_api.h>

#include <array>
#include <bitset>
#include <memory>
#include <mutex>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"

namespace ferrite::detail::cuda {

namespace {

using ferrite::cuda::DeviceGuard;
using ferrite::cuda::detail::CaptureRelaxed;

class PinnedMemory final : public MemorySource {
 public:
  void* acquire(std::size_t bytes) noexcept override {
    void* data = nullptr;
    // Portable: every device may copy from it at full speed.
    const bool done = try_call(
        [&] { return cudaHostAlloc(&data, (bytes + 4095) / 4096 * 4096, cudaHostAllocPortable); });
    return done ? data : nullptr;
  }
  void release(void* data, std::size_t) noexcept override {
    try_call([&] { return cudaFreeHost(data); });
  }

 private:
  template <class F>
  static bool try_call(F&& call) noexcept {
    try {
      for (const int device : ferrite::cuda::detail::devices_for_any_call()) {
        const cudaError_t status = call_on(device, call);
        if (status == cudaSuccess) return true;
        if (status == cudaErrorMemoryAllocation) return false;
      }
    } catch (const std::exception&) {
    }
    return false;
  }
  template <class F>
  static cudaError_t call_on(int device, F& call) {
    try {
      const DeviceGuard guard(device);
      const CaptureRelaxed relaxed;
      const cudaError_t status = call();
      if (status != cudaSuccess) cudaGetLastError();
      return status;
    } catch (const CudaError&) {  // the device is lost
      return cudaErrorUnknown;
    }
  }
};

/// Enables access from `device` to the memory of `peer` if the hardware supports it; once per pair.
void enable_peer_access(int device, int peer) {
  constexpr std::size_t kDevices = Device::kMaxIndex + 1;
  static std::mutex mutex;
  static std::array<std::bitset<kDevices>, kDevices> asked;
  std::lock_guard lock(mutex);
  const auto d = static_cast<std::size_t>(device), p = static_cast<std::size_t>(peer);
  if (asked[d][p]) return;
  if (ferrite::cuda::can_access_peer(device, peer)) {
    const DeviceGuard guard(device);
    const CaptureRelaxed relaxed;
    const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
    // Copies work without access, through host memory. A device has a limited number of peers.
    if (status == cudaErrorPeerAccessAlreadyEnabled || status == cudaErrorTooManyPeers)
      cudaGetLastError();
    else if (status != cudaSuccess)
      ferrite::cuda::fail_call(status, "cudaDeviceEnablePeerAccess");
  }
  asked[d][p] = true;
}

}  // namespace

Allocator& pinned_allocator() {
  FERRITE_CHECK(ferrite::cuda::is_available(), DeviceError, "pin_memory",
                "page-locked memory needs a CUDA device, and there is none: {}",
                ferrite::cuda::why_unavailable());
  static CachingAllocator& instance =  // never destroyed, like the device allocators
      *new CachingAllocator(Device(), std::make_unique<PinnedMemory>(), "pinned host memory");
  return instance;
}

void copy_bytes(const Stream& stream, void* to, const Device& to_device, const void* from,
                const Device& from_device, std::size_t bytes) {
  if (bytes == 0) return;
  const DeviceGuard guard(stream.device());
  const cudaStream_t native = ferrite::cuda::native_stream(stream);
  const profiler::detail::DeviceWork work(stream, !to_device.is_cuda()       ? "memcpy DtoH"
                                                  : !from_device.is_cuda()   ? "memcpy HtoD"
                                                  : to_device == from_device ? "memcpy DtoD"
                                                                             : "memcpy PtoP");
  if (to_device.is_cuda() && from_device.is_cuda()) {
    if (to_device == from_device) {
      FERRITE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native));
      return;
    }
    // Without peer access the driver copies through host memory.
    enable_peer_access(to_device.index(), from_device.index());
    enable_peer_access(from_device.index(), to_device.index());
    FERRITE_CUDA_CHECK(
        cudaMemcpyPeerAsync(to, to_device.index(), from, from_device.index(), bytes, native));
    return;
  }
  const auto kind = to_device.is_cuda() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  FERRITE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, native));
}

}  // namespace ferrite::detail::cuda
