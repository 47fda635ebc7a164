#include "ferrite/kernels/cuda/launch.cuh"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/profiler/device_work.h"

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

/// The mark before the kernel that this thread launches, for the profiler.
thread_local std::shared_ptr<ferrite::detail::Mark> kernel_begins;

}  // namespace

namespace detail {

cudaStream_t native(const Stream& stream) {
  if (profiler::detail::on()) [[unlikely]]
    kernel_begins = profiler::detail::begin_device_work(stream);
  return ferrite::cuda::native_stream(stream);
}

void allow_shared_memory(const LaunchConfig& config, const void* kernel) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(config.shared_bytes));
  if (error != cudaSuccess) fail_launch(config, error, "shared memory of");
}

void after_launch(const LaunchConfig& config, cudaError_t error) {
  if (error != cudaSuccess) [[unlikely]]
    fail_launch(config, error, "launch of");
  if (profiler::detail::on()) [[unlikely]]
    profiler::detail::end_device_work(config.stream, config.name, std::move(kernel_begins));
  if (ferrite::cuda::launch_blocking() && !ferrite::detail::cuda::is_capturing(config.stream))
      [[unlikely]] {
    const cudaError_t after = cudaStreamSynchronize(ferrite::cuda::native_stream(config.stream));
    if (after != cudaSuccess) fail_launch(config, after, "wait (FERRITE_LAUNCH_BLOCKING) for");
  }
}

}  // namespace detail

}  // namespace ferrite::kernels::cuda
