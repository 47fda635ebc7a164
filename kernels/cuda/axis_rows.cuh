// Loops along one axis of dense views, such as the class axis of a softmax. One pass folds the
// elements of each position into a state; a second pass writes the elements from the state.
//
// A functor F, over elements of a type T:
//   kInputs                     views read
//   State                       result for (a part of) a position, a multiple of 32 bits
//   State empty()
//   void take<V>(State&, const Pack<T, V> (&)[kInputs])
//   State combine(State, State)
//   prepare(State)              converts the state of a whole position for write()
//   Pack<T, V> write<V>(prepared, const Pack<T, V> (&)[kInputs])
//
// Rows (a position's elements are adjacent in memory): between the passes, short rows stay in the
// registers of a few lanes or a warp, and longer ones in shared memory; the longest are read again.
// Columns (elements of different positions are adjacent): adjacent lanes have adjacent positions,
// and the second pass finds the elements of the first one in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda {

/// A dense view as [outer, size, inner] in memory.
struct AxisLayout {
  std::int64_t outer = 1, size = 1, inner = 1;

  AxisLayout(const View& v, int dim) {
    size = v.sizes[dim];
    inner = size == 1 ? 1 : v.strides[dim];
    outer = v.numel / (size * inner);
  }
};

namespace detail {

inline constexpr int kAxisThreads = 256;
/// Packs a lane holds of a short row.
constexpr int axis_packs(int pack) { return pack == 1 ? 8 : 4; }

template <class T, int N>
struct AxisInputs {
  const T* data[N];

  template <int V>
  __device__ __forceinline__ void load(Pack<T, V> (&x)[N], std::int64_t at) const {
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = load_pack<V>(data[k] + at);
  }
};

/// `units` packs per row, at most `lanes` * axis_packs(V).
template <int V, class F, class T>
__global__ void __launch_bounds__(kAxisThreads)
    axis_short_rows(F f, T* out, AxisInputs<T, F::kInputs> in, std::int64_t rows, int units,
                    int lanes) {
  constexpr int kPacks = axis_packs(V);
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const std::int64_t row = std::int64_t{blockIdx.x} * (kAxisThreads / lanes) + threadIdx.x / lanes;
  const std::int64_t first = (row * units + lane) * V;
  const int left = row < rows ? units - lane : 0;
  Pack<T, V> x[kPacks][F::kInputs];
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    if (p * lanes < left) in.template load<V>(x[p], first + std::int64_t{p} * lanes * V);
  auto state = f.empty();
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    if (p * lanes < left) f.template take<V>(state, x[p]);
  state = group_reduce(state, lanes, [&](const auto& a, const auto& b) { return f.combine(a, b); });
  const auto prepared = f.prepare(state);
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    if (p * lanes < left)
      store_pack<V>(out + first + std::int64_t{p} * lanes * V, f.template write<V>(prepared, x[p]));
}

/// One block per row. `cached`: whether the dynamic shared memory holds a row of each input; a
/// thread reads only elements there that it has written itself.
template <int V, class F, class T>
__global__ void __launch_bounds__(1024)
    axis_long_rows(F f, T* out, AxisInputs<T, F::kInputs> in, std::int64_t units, bool cached) {
  FERRITE_DYNAMIC_SHARED(cache, Pack<T, V>);
  const std::int64_t row = blockIdx.x * units;
  auto state = f.empty();
#pragma unroll 2
  for (std::int64_t i = threadIdx.x; i < units; i += blockDim.x) {
    Pack<T, V> x[F::kInputs];
    in.template load<V>(x, (row + i) * V);
    if (cached) {
#pragma unroll
      for (int k = 0; k < F::kInputs; ++k) cache[k * units + i] = x[k];
    }
    f.template take<V>(state, x);
  }
  state =
      block_reduce(state, f.empty(), [&](const auto& a, const auto& b) { return f.combine(a, b); });
  const auto prepared = f.prepare(state);
#pragma unroll 2
  for (std::int64_t i = threadIdx.x; i < units; i += blockDim.x) {
    Pack<T, V> x[F::kInputs];
    if (cached) {
#pragma unroll
      for (int k = 0; k < F::kInputs; ++k) x[k] = cache[k * units + i];
    } else {
      in.template load<V>(x, (row + i) * V);
    }
    store_pack<V>(out + (row + i) * V, f.template write<V>(prepared, x));
  }
}

/// `lanes` threads share each position.
template <class F, class T>
__global__ void __launch_bounds__(kAxisThreads)
    axis_columns(F f, T* out, AxisInputs<T, F::kInputs> in, std::int64_t positions,
                 std::int64_t inner, WideDivisor by_inner, std::int64_t size, int lanes) {
  using State = decltype(f.empty());
  const int width = kAxisThreads / lanes;
  const int lane = static_cast<int>(threadIdx.x) / width;
  const std::int64_t position =
      std::int64_t{blockIdx.x} * width + (static_cast<int>(threadIdx.x) & (width - 1));
  const auto outer =
      static_cast<std::int64_t>(by_inner.quotient(static_cast<std::uint64_t>(position)));
  const std::int64_t first = position + outer * (size - 1) * inner;
  const std::int64_t end = position < positions ? size : 0;
  State state = f.empty();
#pragma unroll 4
  for (std::int64_t c = lane; c < end; c += lanes) {
    Pack<T, 1> x[F::kInputs];
    in.template load<1>(x, first + c * inner);
    f.template take<1>(state, x);
  }
  if (lanes > 1) {
    FERRITE_SHARED(tile, State[kAxisThreads]);
    tile[threadIdx.x] = state;
    __syncthreads();
    state = tile[threadIdx.x % width];
    for (int l = 1; l < lanes; ++l) state = f.combine(state, tile[threadIdx.x % width + l * width]);
  }
  const auto prepared = f.prepare(state);
#pragma unroll 4
  for (std::int64_t c = lane; c < end; c += lanes) {
    Pack<T, 1> x[F::kInputs];
    in.template load<1>(x, first + c * inner);
    store_pack<1>(out + first + c * inner, f.template write<1>(prepared, x));
  }
}

inline int power_of_two(std::int64_t at_least, int most) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(at_least, 1, most))));
}

}  // namespace detail

/// Runs `f` on dense views of equal strides; `out` may be one of the inputs.
template <class T, class F>
void run_along_axis(const Stream& stream, const char* name, const F& f, const View& out,
                    const std::array<const View*, F::kInputs>& in, int dim) {
  if (out.numel == 0) return;
  const AxisLayout layout(out, dim);
  T* const to = out.as<T>();
  detail::AxisInputs<T, F::kInputs> inputs;
  for (std::size_t k = 0; k < in.size(); ++k) inputs.data[k] = in[k]->template as<const T>();
  const std::int64_t size = layout.size;

  if (layout.inner > 1) {
    const std::int64_t positions = layout.outer * layout.inner;
    const int lanes =
        detail::power_of_two((size + 15) / 16, positions < 32 ? detail::kAxisThreads / 32 : 8);
    launch(
        {name, stream, blocks_for(positions, detail::kAxisThreads / lanes), detail::kAxisThreads},
        detail::axis_columns<F, T>, f, to, inputs, positions, layout.inner,
        WideDivisor(static_cast<std::uint64_t>(layout.inner)), size, lanes);
    return;
  }
  const auto rows = [&]<int V>() {
    const std::int64_t units = size / V;
    constexpr int kPacks = detail::axis_packs(V);
    if (units <= kWarp * kPacks) {
      const int lanes = detail::power_of_two((units + kPacks / 2 - 1) / (kPacks / 2), kWarp);
      launch({name, stream, blocks_for(layout.outer, detail::kAxisThreads / lanes),
              detail::kAxisThreads},
             detail::axis_short_rows<V, F, T>, f, to, inputs, layout.outer, static_cast<int>(units),
             lanes);
      return;
    }
    const int threads = std::max(128, detail::power_of_two((units + 3) / 4, 1024));
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T) * F::kInputs;
    const bool cached = bytes <= kDefaultSharedBytes - 2048;  // minus that of block_reduce
    launch({name, stream, static_cast<unsigned>(layout.outer), static_cast<unsigned>(threads),
            cached ? bytes : 0},
           detail::axis_long_rows<V, F, T>, f, to, inputs, units, cached);
  };
  constexpr int kPack = useful_pack<T>();
  if constexpr (kPack > 1) {
    const bool aligned = is_aligned(to, kPack) && std::all_of(in.begin(), in.end(), [](auto* v) {
                           return is_aligned(v->template as<T>(), kPack);
                         });
    if (aligned && size % kPack == 0) return rows.template operator()<kPack>();
  }
  rows.template operator()<1>();
}

}  // namespace ferrite::kernels::cuda
