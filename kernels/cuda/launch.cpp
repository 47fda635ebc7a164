#include "kernels/cuda/launch.cuh"

#include <fmt/format.h>

#include <string>

#include "core/cuda/runtime.h"
#include "core/cuda_backend.h"

namespace ferrite::kernels::cuda {

namespace {

[[noreturn]] void fail_launch(const LaunchConfig& config, cudaError_t error, const char* when) {
  const auto text = [](const dim3& d) { return fmt::format("({}, {}, {})", d.x, d.y, d.z); };
  const std::string what = fmt::format(
      "{} kernel {}, grid {}, block {}, {} bytes of dynamic shared memory, on {} ({}:{})", when,
      config.name, text(config.grid), text(config.block), config.shared_bytes,
      config.stream.device(), config.file, config.line);
  ferrite::cuda::fail_call(error, what.c_str());
}

}  // namespace

namespace detail {

cudaStream_t native(const Stream& stream) { return ferrite::cuda::native_stream(stream); }

void allow_shared_memory(const LaunchConfig& config, const void* kernel) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(config.shared_bytes));
  if (error != cudaSuccess) fail_launch(config, error, "shared memory of");
}

void after_launch(const LaunchConfig& config, cudaError_t error) {
  if (error != cudaSuccess) [[unlikely]]
    fail_launch(config, error, "launch of");
  if (ferrite::cuda::launch_blocking() && !ferrite::detail::cuda::is_capturing(config.stream))
      [[unlikely]] {
    const cudaError_t after = cudaStreamSynchronize(native(config.stream));
    if (after != cudaSuccess) fail_launch(config, after, "wait (FERRITE_LAUNCH_BLOCKING) for");
  }
}

}  // namespace detail

}  // namespace ferrite::kernels::cuda
