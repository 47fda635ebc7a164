// Strided views inside kernels: maps the index of an element to its offset in each view.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/rolled.cuh"
#include "ferrite/kernels/loop_nest.h"

namespace ferrite::kernels::cuda {

/// The offsets, in elements, of one element in N views.
template <int N>
struct Offsets {
  std::int64_t at[N];
};

/// A loop nest of fewer than 2^31 elements in the form for a kernel argument. Declare it as `const
/// __grid_constant__ StridedLoop<N> loop`, so that it is read in place.
template <int N>
struct StridedLoop {
  int ndim = 0;
  std::uint32_t numel = 0;
  Divisor sizes[kMaxDims];  // innermost first
  std::int32_t strides[kMaxDims][N];
  std::int64_t base[N];

  FERRITE_HOST_DEVICE Offsets<N> offsets(std::uint32_t element) const {
    Offsets<N> result;
    for (int k = 0; k < N; ++k) result.at[k] = base[k];
    // No division by the outermost size, because the remainder is below it.
    const int outermost = ndim - 1;
    FERRITE_ROLLED
    for (int d = 0; d < outermost; ++d) {
      const std::uint32_t index = sizes[d].split(element);
      for (int k = 0; k < N; ++k) result.at[k] += product(index, strides[d][k]);
    }
    for (int k = 0; k < N; ++k) result.at[k] += product(element, strides[outermost][k]);
    return result;
  }

 private:
  static FERRITE_HOST_DEVICE std::int64_t product(std::uint32_t index, std::int32_t stride) {
    return static_cast<std::int64_t>(static_cast<std::int32_t>(index)) * stride;
  }
};

/// The most elements a StridedLoop has.
inline constexpr std::int64_t kMaxLoopElements = std::numeric_limits<std::int32_t>::max();

namespace detail {

/// Whether a StridedLoop can hold the dimension's strides.
template <std::size_t N>
bool strides_fit(const std::array<std::int64_t, N>& strides) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  return std::all_of(strides.begin(), strides.end(),
                     [](std::int64_t s) { return s >= -kMax && s <= kMax; });
}

/// The part of for_each_loop() that does not depend on F; sharing it shortens compilation.
template <std::size_t N>
[[gnu::noinline]] void visit_loops(const LoopNest<N>& nest,
                                   void (*f)(void*, const StridedLoop<static_cast<int>(N)>&),
                                   void* context) {
  if (nest.numel == 0) return;
  // The kernel loops over a dimension, or over pieces of `step` of it, or the host iterates here (a
  // step of 0). Dimensions whose strides do not fit have few elements, because these are far apart
  // in memory.
  std::array<std::int64_t, kMaxDims> step{}, index{};
  std::int64_t elements = 1;
  for (int d = nest.ndim - 1; d >= 0; --d) {
    if (!detail::strides_fit(nest.strides[d])) continue;
    step[d] = std::min(nest.sizes[d], kMaxLoopElements / elements);
    elements *= std::max<std::int64_t>(step[d], 1);
    if (step[d] < nest.sizes[d])
      elements = kMaxLoopElements + 1;  // the host iterates over the rest
  }
  for (;;) {
    StridedLoop<static_cast<int>(N)> loop;
    loop.numel = 1;
    for (std::size_t k = 0; k < N; ++k) loop.base[k] = 0;
    for (int d = nest.ndim - 1; d >= 0; --d) {
      for (std::size_t k = 0; k < N; ++k) loop.base[k] += index[d] * nest.strides[d][k];
      if (step[d] == 0) continue;
      const auto count = static_cast<std::uint32_t>(std::min(step[d], nest.sizes[d] - index[d]));
      loop.sizes[loop.ndim] = Divisor(count);
      for (std::size_t k = 0; k < N; ++k)
        loop.strides[loop.ndim][k] = static_cast<std::int32_t>(nest.strides[d][k]);
      loop.numel *= count;
      ++loop.ndim;
    }
    if (loop.ndim == 0) {
      loop.ndim = 1;
      for (std::size_t k = 0; k < N; ++k) loop.strides[0][k] = 0;
    }
    f(context, loop);
    int d = nest.ndim - 1;
    for (; d >= 0; --d) {
      index[d] += std::max<std::int64_t>(step[d], 1);
      if (index[d] < nest.sizes[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace detail

/// Calls f(StridedLoop) for pieces that together cover the nest; there is one piece unless the nest
/// is very large.
template <std::size_t N, class F>
void for_each_loop(const LoopNest<N>& nest, F&& f) {
  detail::visit_loops<N>(
      nest,
      [](void* context, const StridedLoop<static_cast<int>(N)>& loop) {
        (*static_cast<std::remove_reference_t<F>*>(context))(loop);
      },
      &f);
}

}  // namespace ferrite::kernels::cuda
