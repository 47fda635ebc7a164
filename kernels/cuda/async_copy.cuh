// Asynchronous copies from global to shared memory (cp.async).
#pragma once

#include "ferrite/kernels/cuda/launch.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "products and convolutions need sm_80 or later: set CMAKE_CUDA_ARCHITECTURES"
#endif

namespace ferrite::kernels::cuda {

/// to[0..N) = from[0..count) and zeros behind them; with a count of 0, `from` is not read. `to` is
/// in shared memory; both are aligned to N elements, which together have 4, 8 or 16 bytes, `from`
/// also where it is not read. The calling thread sees the values after async_wait(), other threads
/// after a subsequent barrier.
template <int N, class T>
__device__ __forceinline__ void async_copy_part(T* to, const T* from, int count) {
  constexpr int kBytes = N * static_cast<int>(sizeof(T));
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  const int bytes = count * static_cast<int>(sizeof(T));
#if defined(FERRITE_EMULATOR)
  emulator::async_copy(to, from, kBytes, bytes);
#elif defined(__CUDA_ARCH__)
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16)  // bypasses the L1 cache
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from),
                 "n"(kBytes), "r"(bytes)
                 : "memory");
#endif
}

/// All N elements, or zeros if not `valid`.
template <int N, class T>
__device__ __forceinline__ void async_copy(T* to, const T* from, bool valid) {
  async_copy_part<N>(to, from, valid ? N : 0);
}

/// Closes a group of this thread's copies; groups complete in order.
__device__ __forceinline__ void async_commit() {
#if defined(FERRITE_EMULATOR)
  emulator::async_commit();
#elif defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most the last `Pending` of this thread's groups are in flight.
template <int Pending>
__device__ __forceinline__ void async_wait() {
#if defined(FERRITE_EMULATOR)
  emulator::async_wait(Pending);
#elif defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace ferrite::kernels::cuda
