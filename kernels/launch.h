// Sends a kernel to its stream's device. For the sources of this folder.
#pragma once

#include <utility>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/cuda/op_scope.h"

namespace ferrite::kernels {

#if !defined(FERRITE_HAVE_CUDA)
#error "kernels/launch.h is for kernels/*.cpp, which the build tells whether there is CUDA"
#endif
inline constexpr bool kHaveCuda = FERRITE_HAVE_CUDA != 0;

/// Runs the form of a kernel for the device of `stream`: `cpu` as work of the stream, from which it
/// must own all that it needs; `cuda` at once, to put kernels of its own on the stream. A build
/// without CUDA never compiles a call of `cuda`, so what that refers to need not exist there.
template <class Cpu, class Cuda>
void launch(const Stream& stream, const char* op, Cpu&& cpu, [[maybe_unused]] Cuda&& cuda) {
  if (stream.device().is_cpu()) [[likely]] {
    const profiler::detail::KernelRange range(stream, op);
    stream.enqueue(std::forward<Cpu>(cpu));
  } else if constexpr (kHaveCuda) {
    const cuda::OpScope scope(stream, op);
    cuda();
  }
}

}  // namespace ferrite::kernels
