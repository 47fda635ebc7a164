// Runs the blocks of a kernel, one after another, with threads of a block as fibers where
// necessary.
#pragma once

#include "ferrite/emulator/block.h"
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/launch.h"

namespace emulator {

/// Runs all blocks; returns cudaSuccess, or the error of a thread's trap.
cudaError_t run_grid(const Launch& launch, int device, void (*run)(const void*), const void* self);

/// The running launch, or null.
const Launch* running_launch();
int running_device();

/// Whether the calling operating system thread is inside a kernel.
extern constinit thread_local bool inside_kernel;
inline bool running_here() { return inside_kernel; }

/// Random bits for the order of threads, from the settings' seed.
std::uint32_t random_bits();
void reseed();

extern Counters counts;

}  // namespace emulator
