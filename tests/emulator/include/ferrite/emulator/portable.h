// What a kernel's source needs to compile for a GPU (nvcc) and for the emulator (the host's
// compiler):
//   EMULATOR_SHARED(name, type)                  an array of the block's shared memory, as in
//                                                EMULATOR_SHARED(tile, float[32][33])
//   EMULATOR_SHARED_ALIGNED(alignment, name, type)
//   EMULATOR_DYNAMIC_SHARED(name, type)          a pointer to the dynamic shared memory
//   EMULATOR_LAUNCH(kernel, grid, block, shared bytes, stream, arguments...)   gives a cudaError_t
#pragma once

#include <cuda_runtime.h>

#if defined(FERRITE_EMULATOR)
#define EMULATOR_SHARED(name, ...)           \
  static ::emulator::SharedSlot name##_slot; \
  auto& name = name##_slot.get<__VA_ARGS__>()
#define EMULATOR_SHARED_ALIGNED(alignment, name, ...) \
  static ::emulator::SharedSlot name##_slot;          \
  auto& name = name##_slot.get<__VA_ARGS__>(alignment)
#define EMULATOR_DYNAMIC_SHARED(name, ...) \
  auto* const name = static_cast<__VA_ARGS__*>(::emulator::dynamic_shared())
#define EMULATOR_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)              \
  ::emulator::launch(#kernel, __FILE__, __LINE__, grid, block, shared_bytes, stream, \
                     kernel __VA_OPT__(, ) __VA_ARGS__)
#else
namespace emulator::detail {
template <class T>
using Same = T;
}
#define EMULATOR_SHARED(name, ...) __shared__ ::emulator::detail::Same<__VA_ARGS__> name
#define EMULATOR_SHARED_ALIGNED(alignment, name, ...) \
  __shared__ __align__(alignment)::emulator::detail::Same<__VA_ARGS__> name
#define EMULATOR_DYNAMIC_SHARED(name, ...)                                  \
  extern __shared__ __align__(128) unsigned char emulator_dynamic_shared[]; \
  auto* const name = reinterpret_cast<__VA_ARGS__*>(emulator_dynamic_shared)
#define EMULATOR_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  (kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__), cudaGetLastError())
#endif
