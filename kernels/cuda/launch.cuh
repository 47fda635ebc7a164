// Kernel launches and declarations of shared memory. Only here do builds for a GPU and for the
// emulator (tests/emulator) differ.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "ferrite/core/fwd.h"

namespace ferrite::kernels::cuda {

/// The configuration of a launch. A grid with a dimension of 0 launches nothing.
struct LaunchConfig {
  LaunchConfig(const char* name, const Stream& stream, dim3 grid, dim3 block,
               std::size_t shared_bytes = 0, const char* file = __builtin_FILE(),
               int line = __builtin_LINE())
      : name(name),
        stream(stream),
        grid(grid),
        block(block),
        shared_bytes(shared_bytes),
        file(file),
        line(line) {}

  const char* name;  ///< the kernel's, for error messages
  const Stream& stream;
  dim3 grid, block;
  std::size_t shared_bytes;  ///< of dynamic shared memory
  const char* file;
  int line;
};

namespace detail {
/// Allows `kernel` more dynamic shared memory than the default limit.
void allow_shared_memory(const LaunchConfig& config, const void* kernel);
/// Throws CudaError naming kernel and configuration unless `error` is success; if
/// FERRITE_LAUNCH_BLOCKING is set, first waits for the kernel.
void after_launch(const LaunchConfig& config, cudaError_t error);
cudaStream_t native(const Stream& stream);

template <class T>
using Same = T;
}  // namespace detail

inline constexpr std::size_t kDefaultSharedBytes = 48 << 10;

/// Launches `kernel` on its stream. Throws CudaError if that fails.
template <class... Params, class... Args>
void launch(const LaunchConfig& config, void (*kernel)(Params...), Args&&... args) {
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) return;
  if (config.shared_bytes > kDefaultSharedBytes)
    detail::allow_shared_memory(config, reinterpret_cast<const void*>(kernel));
#if defined(FERRITE_EMULATOR)
  const cudaError_t error = emulator::launch(
      config.name, config.file, config.line, config.grid, config.block, config.shared_bytes,
      detail::native(config.stream), kernel, std::forward<Args>(args)...);
#else
  cudaLaunchConfig_t native{};
  native.gridDim = config.grid;
  native.blockDim = config.block;
  native.dynamicSmemBytes = config.shared_bytes;
  native.stream = detail::native(config.stream);
  const cudaError_t error = cudaLaunchKernelEx(&native, kernel, std::forward<Args>(args)...);
#endif
  detail::after_launch(config, error);
}

/// The number of blocks of `size` that cover `n`.
constexpr unsigned blocks_for(std::int64_t n, std::int64_t size) {
  return static_cast<unsigned>((n + size - 1) / size);
}

}  // namespace ferrite::kernels::cuda

// FERRITE_SHARED(name, type): an array or variable of the block's shared memory, as in
//   FERRITE_SHARED(tile, float[32][33]);
// FERRITE_SHARED_ALIGNED(alignment, name, type): for wide loads that need more than the type's
// alignment. FERRITE_DYNAMIC_SHARED(name, type): a pointer to the dynamic shared memory, aligned to
// 128 bytes.
#if defined(FERRITE_EMULATOR)
#include "ferrite/emulator/portable.h"
#define FERRITE_SHARED EMULATOR_SHARED
#define FERRITE_SHARED_ALIGNED EMULATOR_SHARED_ALIGNED
#define FERRITE_DYNAMIC_SHARED EMULATOR_DYNAMIC_SHARED
#else
#define FERRITE_SHARED(name, ...) \
  __shared__ ::ferrite::kernels::cuda::detail::Same<__VA_ARGS__> name
#define FERRITE_SHARED_ALIGNED(alignment, name, ...) \
  __shared__ __align__(alignment)::ferrite::kernels::cuda::detail::Same<__VA_ARGS__> name
#define FERRITE_DYNAMIC_SHARED(name, ...)                                  \
  extern __shared__ __align__(128) unsigned char ferrite_dynamic_shared[]; \
  auto* const name = reinterpret_cast<__VA_ARGS__*>(ferrite_dynamic_shared)
#endif
