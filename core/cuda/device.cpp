// core/cuda.h for builds with CUDA.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"

/// Defined in programs that link ferrite::cpu_only (kernels/cuda/cpu_only.cpp.in).
extern "C" [[gnu::weak]] const bool ferrite_cpu_only;

namespace ferrite::cudnn {

/// Defined with the kernels (kernels/vendor.h) in programs that convolve; other programs have no
/// cuDNN.
[[gnu::weak]] std::string version();

}  // namespace ferrite::cudnn

namespace ferrite::nccl {

/// Defined with the process groups (parallel/comm/nccl/), in programs that link them.
[[gnu::weak]] std::string version();

}  // namespace ferrite::nccl

namespace ferrite::cuda {

namespace {

struct Found {
  int count = 0;
  std::string why_not;
};

/// A machine without a driver or device is not an error here.
const Found& found() {
  static const Found result = [] {
    Found f;
    if (&ferrite_cpu_only) {
      f.why_not = "the program is linked with ferrite::cpu_only, without CUDA kernels";
      return f;
    }
    const cudaError_t status = cudaGetDeviceCount(&f.count);
    if (status != cudaSuccess) {
      cudaGetLastError();
      f.count = 0;
      int driver = 0;
      f.why_not =
          status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
                  driver == 0
              ? "no NVIDIA driver is installed"
              : fmt::format("{} ({})", cudaGetErrorName(status), cudaGetErrorString(status));
    } else if (f.count == 0) {
      f.why_not = "the driver has none to offer";
    }
    f.count = std::min(f.count, Device::kMaxIndex + 1);
    return f;
  }();
  return result;
}

void require_device(int device, const char* op) {
  FERRITE_CHECK(device >= 0 && device < device_count(), DeviceError, op,
                "there is no cuda:{}; there are {} CUDA devices", device, device_count());
}

/// 0 if the driver does not know the attribute.
int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) == cudaSuccess) return value;
  cudaGetLastError();
  return 0;
}

DeviceProperties read_properties(int device) {
  cudaDeviceProp p{};
  FERRITE_CUDA_CHECK(cudaGetDeviceProperties(&p, device));
  return {
      .name = p.name,
      .major = p.major,
      .minor = p.minor,
      .total_memory = p.totalGlobalMem,
      .multiprocessors = p.multiProcessorCount,
      .warp_size = p.warpSize,
      .max_threads_per_block = p.maxThreadsPerBlock,
      .max_threads_per_multiprocessor = p.maxThreadsPerMultiProcessor,
      .shared_memory_per_block = p.sharedMemPerBlock,
      .max_shared_memory_per_block = p.sharedMemPerBlockOptin,
      .shared_memory_per_multiprocessor = p.sharedMemPerMultiprocessor,
      .registers_per_multiprocessor = p.regsPerMultiprocessor,
      .l2_cache = static_cast<std::size_t>(p.l2CacheSize),
      .clock_khz = attribute(cudaDevAttrClockRate, device),
      .memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, device),
      .memory_bus_bits = p.memoryBusWidth,
      .integrated = p.integrated != 0,
      .concurrent_kernels = p.concurrentKernels != 0,
  };
}

std::string cuda_version(int version) {
  return version == 0 ? "none" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

bool is_available() { return found().count > 0; }
int device_count() { return found().count; }
std::string why_unavailable() { return found().why_not; }

const DeviceProperties& properties(int device) {
  require_device(device, "properties");
  static std::array<std::once_flag, Device::kMaxIndex + 1> once;
  static std::array<DeviceProperties, Device::kMaxIndex + 1> known;
  const auto i = static_cast<std::size_t>(device);
  std::call_once(once[i], [&] { known[i] = read_properties(device); });
  return known[i];
}

MemoryInfo memory_info(int device) {
  require_device(device, "memory_info");
  const DeviceGuard guard(device);
  MemoryInfo info;
  FERRITE_CUDA_CHECK(cudaMemGetInfo(&info.free, &info.total));
  return info;
}

bool can_access_peer(int device, int peer) {
  require_device(device, "can_access_peer");
  require_device(peer, "can_access_peer");
  int can = 0;
  FERRITE_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

int current_device() {
  require_device(0, "current_device");
  return detail::intended_device();
}

void set_device(int device) {
  require_device(device, "set_device");
  detail::set_device(device);
}

Versions versions() {
  int runtime = 0, driver = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) cudaGetLastError();
  if (cudaDriverGetVersion(&driver) != cudaSuccess) cudaGetLastError();
  Versions v{.runtime = cuda_version(runtime),
             .driver = cuda_version(driver),
             .cudnn = "not built in",
             .nccl = "not built in"};
  if (cudnn::version)
    if (std::string version = cudnn::version(); !version.empty()) v.cudnn = std::move(version);
  if (nccl::version)
    if (std::string version = nccl::version(); !version.empty()) v.nccl = std::move(version);
  return v;
}

void detail::push_range(const char* name) { nvtxRangePushA(name); }
void detail::pop_range() { nvtxRangePop(); }

}  // namespace ferrite::cuda

int ferrite::detail::cuda::current_device() { return ferrite::cuda::current_device(); }
void ferrite::detail::cuda::restore_device(int device) noexcept {
  ferrite::cuda::detail::restore_device(device);
}
