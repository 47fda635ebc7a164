// Chunks of many arrays that have one dtype, and the packs of a chunk.
#pragma once

#include <cstdint>

#include "ferrite/kernels/cuda/multi_tensor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels::cuda {

constexpr int kArraysThreads = 256;
constexpr std::int64_t kChunk = 8192;  ///< elements per block

/// An array of a list whose arrays have one dtype.
struct Array {
  void* data;
  std::int64_t numel;
};
using Arrays = ArrayListFor<Array>;

/// Calls launch(list, index of the list's first array) for lists of these tensors' arrays.
template <class Launch>
void for_each_arrays(const FlatTensors& tensors, Launch&& launch) {
  for_each_list<Array>(
      tensors.arrays.size(), kChunk,
      [&](std::size_t i) {
        return Array{tensors.arrays[i].data, tensors.arrays[i].numel};
      },
      launch);
}

/// The elements of an array that a block works on.
struct Chunk {
  std::int64_t begin, end;
};
template <std::int64_t kSize = kChunk, class List>
__device__ __forceinline__ Chunk chunk_of(const List& list, int array) {
  const std::int64_t begin = (blockIdx.x - list.first_block[array]) * kSize;
  const std::int64_t numel = list.entries[array].numel;
  return {begin, begin + kSize < numel ? begin + kSize : numel};
}

__device__ __forceinline__ bool is_pack_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kPackBytes == 0;
}

/// Calls use(first element, pack) for packs of V elements, U loads at a time.
template <int V, int U, class T, class Use>
__device__ __forceinline__ void for_each_pack(const T* data, std::int64_t begin, std::int64_t end,
                                              const Use& use) {
  for (std::int64_t first = begin + threadIdx.x * V; first < end; first += kArraysThreads * V * U) {
    Pack<T, V> values[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (first + u * kArraysThreads * V < end)
        values[u] = load_pack<V>(data + first + u * kArraysThreads * V);
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (first + u * kArraysThreads * V < end) use(first + u * kArraysThreads * V, values[u]);
  }
}

}  // namespace ferrite::kernels::cuda
