// The race detector. Kernels are compiled with -fsanitize=thread, whose calls are implemented here
// (tsan_abi.cpp) instead of by ThreadSanitizer, because only the emulator knows what orders the
// threads of a kernel: barriers, warps, blocks, streams. In builds without it these functions do
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferrite/tests/emulator/src/clock.h"

namespace emulator {

#ifdef FERRITE_EMULATOR_RACE
/// Sets the running operation. `file` may be null.
void race_work_started(const WorkId& id, const char* name, const char* file, int line);

void race_launch_started();
void race_block_started(std::uint64_t rank);
void race_barrier();
void race_warp_barrier(int warp);
void race_fence();

enum class AccessKind : unsigned char { plain, atomic };

/// Records an access by the running thread; does nothing outside kernels.
void race_access(const void* address, std::size_t bytes, bool write, AccessKind kind,
                 const void* pc);
inline void race_write(const void* address, std::size_t bytes, const void* pc) {
  race_access(address, bytes, true, AccessKind::plain, pc);
}

/// Records an access of a copy or a fill to a range of device memory.
void race_range(const void* address, std::size_t bytes, bool write);

/// The bytes belong to a new allocation: earlier accesses are forgotten.
void race_forget(const void* address, std::size_t bytes);
#else
inline void race_work_started(const WorkId&, const char*, const char*, int) {}
inline void race_launch_started() {}
inline void race_block_started(std::uint64_t) {}
inline void race_barrier() {}
inline void race_warp_barrier(int) {}
inline void race_fence() {}
inline void race_write(const void*, std::size_t, const void*) {}
inline void race_range(const void*, std::size_t, bool) {}
inline void race_forget(const void*, std::size_t) {}
#endif

}  // namespace emulator
