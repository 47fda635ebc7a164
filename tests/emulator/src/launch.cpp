// Launches: checked like in the driver, then run.
#include "ferrite/emulator/launch.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "ferrite/tests/emulator/src/graph.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/runtime.h"
#include "ferrite/tests/emulator/src/scheduler.h"
#include "ferrite/tests/emulator/src/shared_memory.h"
#include "ferrite/tests/emulator/src/stream.h"

namespace emulator {

namespace {

constexpr unsigned kMaxThreads = 1024;

struct FunctionAttributes {
  int max_dynamic_shared = static_cast<int>(kStaticSharedLimit);
  int carveout = -1;
  bool more_shared = false;  // max_dynamic_shared was set
};
std::unordered_map<const void*, FunctionAttributes>& functions =
    *new std::unordered_map<const void*, FunctionAttributes>;

std::size_t dynamic_limit(const void* function) {
  const auto it = functions.find(function);
  return it == functions.end() ? kStaticSharedLimit
                               : static_cast<std::size_t>(it->second.max_dynamic_shared);
}

cudaError_t check_configuration(const Launch& launch) {
  const dim3 &grid = launch.grid, &block = launch.block;
  const auto threads = static_cast<std::uint64_t>(block.x) * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  if (!threads || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > kMaxThreads)
    return cudaErrorInvalidConfiguration;
  if (launch.shared_bytes > kStaticSharedLimit &&
      launch.shared_bytes > dynamic_limit(launch.function))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

/// Checks for pointers on which the kernel would fault on a GPU.
void check_pointers(const Launch& launch, const BoundKernel& kernel, int device) {
  for (int i = 0; i < kernel.pointer_count; ++i) {
    const void* const p = kernel.pointers[i];
    if (!p) continue;
    if (!in_device_range(p)) {
      if (!find_host(p))
        fatal(launch.file, launch.line,
              "kernel %s is given %p (its pointer argument %d), host memory that no device can "
              "reach",
              launch.name, p, i);
      continue;
    }
    const Allocation* const a = find_device(p);
    if (a && a->live && a->device != device && !peer_enabled(device, a->device))
      fatal(launch.file, launch.line,
            "kernel %s on device %d is given %p (its pointer argument %d), memory of device %d, "
            "which it has no peer access to",
            launch.name, device, p, i, a->device);
  }
}

void run_kernel(const Launch& launch, int device, void (*run)(const void*), const void* self) {
  const DeviceAccess access;
  const cudaError_t error = run_grid(launch, device, run, self);
  if (error != cudaSuccess) set_sticky_error(device, error);
}

}  // namespace

std::size_t shared_limit(const void* function) {
  const auto it = functions.find(function);
  return it != functions.end() && it->second.more_shared ? kSharedLimit : kStaticSharedLimit;
}

cudaError_t submit(const Launch& launch, cudaStream_t handle, const BoundKernel& kernel) {
  return api("cudaLaunchKernel", [&](HeldLock&) {
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->device != current_device() && !stream->is_default)
      return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_configuration(launch); error != cudaSuccess) return error;
    const int device = stream->device;
    check_pointers(launch, kernel, device);
    if (const cudaError_t error = check_use(*stream); error != cudaSuccess) return error;
    if (can_run_now(*stream)) {
      begin_running_now(*stream, launch.name, launch.file, launch.line);
      run_kernel(launch, device, kernel.run, kernel.self);
      end_running_now(*stream);
      return cudaSuccess;  // later calls report the trap's error
    }
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::kernel;
    operation->name = launch.name;
    operation->file = launch.file;
    operation->line = launch.line;
    operation->run = [launch, device, run = kernel.run, kept = kernel.keep(kernel.self)] {
      if (sticky_error(device) == cudaSuccess) run_kernel(launch, device, run, kept.get());
    };
    return issue(stream, std::move(operation));
  });
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return api("cudaFuncSetAttribute", [&](HeldLock&) {
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
      if (value < 0 || static_cast<std::size_t>(value) > kSharedLimit) return cudaErrorInvalidValue;
      functions[function].max_dynamic_shared = value;
      functions[function].more_shared = true;
      return cudaSuccess;
    }
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
      if (value < -1 || value > 100) return cudaErrorInvalidValue;
      functions[function].carveout = value;
      return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return api("cudaFuncGetAttributes", [&](HeldLock&) {
    if (!attributes) return cudaErrorInvalidValue;
    if (!function) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->maxThreadsPerBlock = static_cast<int>(kMaxThreads);
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    const auto it = functions.find(function);
    const FunctionAttributes set = it == functions.end() ? FunctionAttributes() : it->second;
    attributes->maxDynamicSharedSizeBytes = set.max_dynamic_shared;
    attributes->preferredShmemCarveout = set.carveout;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int block_size,
                                                                   size_t shared_bytes, unsigned) {
  return api("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&](HeldLock&) {
    if (!blocks || block_size <= 0) return cudaErrorInvalidValue;
    constexpr int kThreadsOfProcessor = 2048, kBlocksOfProcessor = 32;
    int count = block_size > static_cast<int>(kMaxThreads)
                    ? 0
                    : std::min(kBlocksOfProcessor, kThreadsOfProcessor / block_size);
    if (shared_bytes)  // each block reserves 1 KiB for the system
      count = std::min(count, static_cast<int>((kSharedLimit + 1024) / (shared_bytes + 1024)));
    *blocks = count;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_size, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared_bytes, 0);
}

// What nvcc's launches call. Here kernels are launched through emulator::launch.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return remember(cudaErrorNotSupported);
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return remember(cudaErrorNotSupported);
}

}  // extern "C"
