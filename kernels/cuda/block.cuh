// Combining values across the threads of a warp or a block.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/launch.cuh"

namespace ferrite::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// `value` of the lane whose number differs by the bits of `lane_bits`. Any trivially copyable T of
/// whole 32-bit words.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_bits) {
  static_assert(sizeof(T) % 4 == 0);
  unsigned words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (unsigned& word : words) word = __shfl_xor_sync(kAllLanes, word, lane_bits);
  memcpy(&value, words, sizeof(T));
  return value;
}

/// Every lane's `value` combined, in every lane, in an order that depends on nothing. All 32 lanes
/// must call it.
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, const Combine& combine) {
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) {
    const T other = shuffle_xor(value, bits);
    // The lower lane's value first, so that both compute the same bits.
    value =
        threadIdx.x & static_cast<unsigned>(bits) ? combine(other, value) : combine(value, other);
  }
  return value;
}

/// Every thread's `value` combined, in every thread, always in the same order. Blocks are one-
/// dimensional, of `Threads` threads, a multiple of 32; all must call it. `identity` is neutral.
template <int Threads, class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, const T& identity, const Combine& combine) {
  static_assert(Threads % kWarp == 0 && Threads <= 1024);
  constexpr int kWarps = Threads / kWarp;
  value = warp_reduce(value, combine);
  if constexpr (kWarps > 1) {
    FERRITE_SHARED(partial, T[kWarps]);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    __syncthreads();  // an earlier call's reads
    if (lane == 0) partial[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = warp_reduce(lane < kWarps ? partial[lane] : identity, combine);
  }
  return value;
}

struct Add {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
/// The larger; NaN wins.
struct Max {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
    return a > b || a != a ? a : b;
  }
};
/// The smaller; NaN wins.
struct Min {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
    return a < b || a != a ? a : b;
  }
};

}  // namespace ferrite::kernels::cuda
