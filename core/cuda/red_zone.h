// What the emulator is told of memory that the allocator holds but has not handed out: nothing may
// touch it, and it is fresh (NaN) when handed out again. Nothing at all on a real device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "core/stream.h"

#if defined(FERRITE_EMULATOR)
#include <emulator.h>

#include <memory>

#include "core/cuda/runtime.h"
#endif

namespace ferrite::cuda::detail {

#if defined(FERRITE_EMULATOR)

inline constexpr std::size_t kRedZone = 64;  ///< bytes after a block

inline void forbid_now(void* data, std::size_t bytes) { emulator::poison(data, bytes); }
inline void allow_now(void* data, std::size_t bytes) { emulator::unpoison(data, bytes); }

/// Does `change` to the memory when `stream` gets there. Not by Stream::enqueue, which the
/// allocator must not call: it lets go of what finished work holds, and that may free memory.
inline void in_order(const Stream& stream, void (*change)(void*, std::size_t), void* data,
                     std::size_t bytes) {
  struct Task {
    void (*change)(void*, std::size_t);
    void* data;
    std::size_t bytes;
  };
  if (stream.query()) return change(data, bytes);
  auto task = std::make_unique<Task>(Task{change, data, bytes});
  const auto run = [](void* p) {
    const std::unique_ptr<Task> mine(static_cast<Task*>(p));
    mine->change(mine->data, mine->bytes);
  };
  FERRITE_CUDA_CHECK(cudaLaunchHostFunc(native_stream(stream), run, task.get()));
  task.release();
}

inline bool is_captured(const Stream& stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(native_stream(stream), &capture);
  return capture != cudaStreamCaptureStatusNone;
}
/// A graph uses its memory at every replay: none of it is ever shut.
inline void forbid(const Stream& stream, void* data, std::size_t bytes) {
  if (!is_captured(stream)) in_order(stream, forbid_now, data, bytes);
}
inline void allow(const Stream& stream, void* data, std::size_t bytes) {
  if (is_captured(stream))
    allow_now(data, bytes);
  else
    in_order(stream, allow_now, data, bytes);
}

#else

inline constexpr std::size_t kRedZone = 0;
inline void forbid_now(void*, std::size_t) {}
inline void allow_now(void*, std::size_t) {}
inline void forbid(const Stream&, void*, std::size_t) {}
inline void allow(const Stream&, void*, std::size_t) {}

#endif

}  // namespace ferrite::cuda::detail
