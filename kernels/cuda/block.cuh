// Threads of a grid, and combining values across those of a warp or a block.
#pragma once

#include <cstdint>
#include <cstring>

#include "ferrite/kernels/cuda/launch.cuh"

namespace ferrite::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// The number of the thread among those of a grid of one dimension, in blocks of `Threads`.
template <int Threads>
__device__ __forceinline__ std::int64_t thread_in_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * Threads + threadIdx.x;
}

/// `value` of the lane whose index differs in the bits of `lane_bits`. T is trivially copyable and
/// a multiple of 32 bits.
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

/// `value` of the lane whose index is smaller by `distance`; the first lanes receive their own
/// value.
template <class T>
__device__ __forceinline__ T shuffle_up(T value, unsigned distance) {
  static_assert(sizeof(T) % 4 == 0);
  unsigned words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (unsigned& word : words) word = __shfl_up_sync(kAllLanes, word, distance);
  memcpy(&value, words, sizeof(T));
  return value;
}

/// Combines the values of each group of `lanes` adjacent threads (a power of two, at most 32) in a
/// fixed order, and returns the result to every thread of the group. All 32 lanes of the warp must
/// call it.
template <class T, class Combine>
__device__ __forceinline__ T group_reduce(T value, int lanes, const Combine& combine) {
  for (int bits = lanes / 2; bits > 0; bits /= 2) {
    const T other = shuffle_xor(value, bits);
    // The lower lane's value first, so that both compute the same bits.
    value =
        threadIdx.x & static_cast<unsigned>(bits) ? combine(other, value) : combine(value, other);
  }
  return value;
}

/// The same for a whole warp.
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, const Combine& combine) {
  return group_reduce(value, kWarp, combine);
}

namespace detail {

template <class T, class Combine>
__device__ __forceinline__ T reduce_warps(T value, int warps, const T& identity,
                                          const Combine& combine) {
  FERRITE_SHARED(partial, T[kWarp]);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  value = warp_reduce(value, combine);
  __syncthreads();  // an earlier call's reads
  if (lane == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_reduce(lane < warps ? partial[lane] : identity, combine);
}

}  // namespace detail

/// Combines the `value` of all threads of the block in a fixed order, and returns the result to
/// every thread. Blocks are one-dimensional, of `Threads` threads, a multiple of 32; all must call
/// it. `identity` is the neutral element.
template <int Threads, class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, const T& identity, const Combine& combine) {
  static_assert(Threads % kWarp == 0 && Threads <= 1024);
  if constexpr (Threads == kWarp)
    return warp_reduce(value, combine);
  else
    return detail::reduce_warps(value, Threads / kWarp, identity, combine);
}
/// The same for blocks whose size is known only at run time.
template <class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, const T& identity, const Combine& combine) {
  return detail::reduce_warps(value, static_cast<int>(blockDim.x) / kWarp, identity, combine);
}

/// Combines the values of threads whose indices are equal modulo `width` (a power of two) in a
/// fixed order, and returns the results to the first `width` threads. All threads must call it.
/// `tile` is shared memory for [Threads] values, a power of two.
template <int Threads, class T, class Combine>
__device__ __forceinline__ T column_reduce(T value, T* tile, int width, const Combine& combine) {
  const int thread = static_cast<int>(threadIdx.x);
  tile[thread] = value;
  for (int half = Threads / 2; half >= width; half /= 2) {
    __syncthreads();
    if (thread < half) tile[thread] = value = combine(value, tile[thread + half]);
  }
  return value;
}

/// Exclusive scan: combines the values of all threads with a smaller index in a fixed order; the
/// first thread receives `identity`. `total` becomes the combination of all values. All threads
/// must call it.
template <int Threads, class T, class Combine>
__device__ __forceinline__ T block_scan(T value, const T& identity, const Combine& combine,
                                        T& total) {
  static_assert(Threads % kWarp == 0 && Threads <= 1024);
  constexpr int kWarps = Threads / kWarp;
  FERRITE_SHARED(totals, T[kWarps]);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const T before = shuffle_up(value, step);
    if (lane >= step) value = combine(before, value);
  }
  __syncthreads();  // an earlier call's reads
  if (lane == kWarp - 1) totals[warp] = value;
  __syncthreads();
  T own = shuffle_up(value, 1);
  if (lane == 0) own = identity;
  total = identity;
  T before = identity;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) before = total;
    total = combine(total, totals[w]);
  }
  return combine(before, own);
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
