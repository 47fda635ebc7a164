// The race detector's view of a launch. In builds without it these do nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

#ifdef FERRITE_EMULATOR_RACE
void race_launch_started(std::uint64_t blocks);
void race_launch_ended();
void race_block_started(std::uint64_t rank);
void race_barrier();
void race_warp_barrier(int warp, unsigned mask);
void race_fence();
/// A write by the running thread that no instrumented code makes.
void race_write(const void* address, std::size_t bytes, const void* pc);
#else
inline void race_launch_started(std::uint64_t) {}
inline void race_launch_ended() {}
inline void race_block_started(std::uint64_t) {}
inline void race_barrier() {}
inline void race_warp_barrier(int, unsigned) {}
inline void race_fence() {}
inline void race_write(const void*, std::size_t, const void*) {}
#endif

}  // namespace emulator
