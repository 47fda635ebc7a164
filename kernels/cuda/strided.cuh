// Strided views inside kernels: from the number of an element to its offset in each view.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cuda/divisor.cuh"
#include "kernels/loop_nest.h"

namespace ferrite::kernels::cuda {

/// The offsets, in elements, of one element in N views.
template <int N>
struct Offsets {
  std::int64_t at[N];
};

/// A loop nest of fewer than 2^31 elements as a kernel takes it, by value.
template <int N>
struct StridedLoop {
  int ndim = 0;
  std::uint32_t numel = 0;
  Divisor sizes[kMaxDims];  // innermost first
  std::int64_t strides[kMaxDims][N];
  std::int64_t base[N];

  __device__ Offsets<N> offsets(std::uint32_t element) const {
    Offsets<N> result;
#pragma unroll
    for (int k = 0; k < N; ++k) result.at[k] = base[k];
#pragma unroll
    for (int d = 0; d < kMaxDims; ++d) {
      if (d == ndim) break;
      const std::int64_t index = sizes[d].split(element);
#pragma unroll
      for (int k = 0; k < N; ++k) result.at[k] += index * strides[d][k];
    }
    return result;
  }
};

/// The most elements a StridedLoop has.
inline constexpr std::int64_t kMaxLoopElements = (std::int64_t{1} << 31) - 1;

/// Calls f(StridedLoop) for pieces that together cover the nest: one, unless it is very large.
template <std::size_t N, class F>
void for_each_loop(const LoopNest<N>& nest, F&& f) {
  if (nest.numel == 0) return;
  // Dimensions from `inner` on fit into a loop; the one before is cut, the ones before that walked.
  int inner = nest.ndim;
  std::int64_t elements = 1;
  while (inner > 0 && nest.sizes[inner - 1] <= kMaxLoopElements / elements)
    elements *= nest.sizes[--inner];
  const std::int64_t cut = inner > 0 ? nest.sizes[inner - 1] : 1;
  const std::int64_t step = kMaxLoopElements / elements;
  std::array<std::int64_t, kMaxDims> index{};
  for (;;) {
    for (std::int64_t first = 0; first < cut; first += step) {
      StridedLoop<static_cast<int>(N)> loop;
      const std::int64_t count = std::min(step, cut - first);
      loop.numel = static_cast<std::uint32_t>(elements * count);
      for (int d = nest.ndim - 1; d >= std::max(inner - 1, 0); --d) {
        const std::int64_t size = d == inner - 1 ? count : nest.sizes[d];
        loop.sizes[loop.ndim] = Divisor(static_cast<std::uint32_t>(size));
        for (std::size_t k = 0; k < N; ++k) loop.strides[loop.ndim][k] = nest.strides[d][k];
        ++loop.ndim;
      }
      for (std::size_t k = 0; k < N; ++k) {
        loop.base[k] = inner > 0 ? first * nest.strides[inner - 1][k] : 0;
        for (int d = 0; d < inner - 1; ++d) loop.base[k] += index[d] * nest.strides[d][k];
      }
      f(loop);
    }
    int d = inner - 2;
    for (; d >= 0 && ++index[d] == nest.sizes[d]; --d) index[d] = 0;
    if (d < 0) return;
  }
}

}  // namespace ferrite::kernels::cuda
