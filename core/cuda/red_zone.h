// Tells the emulator about memory that the allocator holds but has not handed out: any access is an
// error, and the memory is fresh (NaN) when handed out again. Has no effect on a real device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "ferrite/core/stream.h"

#if defined(FERRITE_EMULATOR)
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/emulator/emulator.h"
#endif

namespace ferrite::cuda::detail {

#if defined(FERRITE_EMULATOR)

inline constexpr std::size_t kRedZone = 64;  ///< bytes after a block

inline void forbid_now(void* data, std::size_t bytes) { emulator::poison(data, bytes); }
inline void allow_now(void* data, std::size_t bytes) { emulator::unpoison(data, bytes); }

// In stream order, like the accesses to the memory.
inline void forbid(const Stream& stream, void* data, std::size_t bytes) {
  emulator::poison(native_stream(stream), data, bytes);
}
inline void allow(const Stream& stream, void* data, std::size_t bytes) {
  emulator::unpoison(native_stream(stream), data, bytes);
}

#else

inline constexpr std::size_t kRedZone = 0;
inline void forbid_now(void*, std::size_t) {}
inline void allow_now(void*, std::size_t) {}
inline void forbid(const Stream&, void*, std::size_t) {}
inline void allow(const Stream&, void*, std::size_t) {}

#endif

}  // namespace ferrite::cuda::detail
