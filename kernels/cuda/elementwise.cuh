// map(): out[i] = f(in0[i], in1[i], ...) over views of equal sizes.
//
// Operands that lie alike in memory, and single values among them, take the fast path: 16-byte
// loads and stores, several in flight a thread. All others are walked element by element.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "core/dtype.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/strided.cuh"

namespace ferrite::kernels::cuda {

inline constexpr int kMapThreads = 256;
inline constexpr int kMapUnroll = 2;  // packs, or elements of the strided form, a thread

namespace detail {

/// Whether each operand steps through memory; one that does not is a single value.
template <int N>
struct Steps {
  bool moves[N];
};

template <int V, class T>
__device__ __forceinline__ Pack<T, V> load_or_splat(const T* p, std::int64_t at, bool moves) {
  if (moves) return load_pack<V>(p + at);
  Pack<T, V> all;
#pragma unroll
  for (int i = 0; i < V; ++i) all.v[i] = *p;
  return all;
}

template <int V, class F, class Out, class... In, std::size_t... K>
__device__ __forceinline__ void map_packs(std::int64_t first, std::int64_t n, const F& f, Out* out,
                                          const Steps<sizeof...(In)>& steps,
                                          std::index_sequence<K...>, const In*... in) {
  std::tuple<Pack<In, V>...> values[kMapUnroll];
#pragma unroll
  for (int u = 0; u < kMapUnroll; ++u) {
    const std::int64_t at = first + static_cast<std::int64_t>(u) * kMapThreads * V;
    if (at + V <= n) values[u] = {load_or_splat<V>(in, at, steps.moves[K])...};
  }
#pragma unroll
  for (int u = 0; u < kMapUnroll; ++u) {
    const std::int64_t at = first + static_cast<std::int64_t>(u) * kMapThreads * V;
    if (at + V <= n) {
      Pack<Out, V> result;
#pragma unroll
      for (int i = 0; i < V; ++i)
        result.v[i] = static_cast<Out>(f(static_cast<Compute<In>>(std::get<K>(values[u]).v[i])...));
      store_pack<V>(out + at, result);
    } else {
      for (std::int64_t i = at; i < n; ++i)
        out[i] = static_cast<Out>(f(static_cast<Compute<In>>(in[steps.moves[K] ? i : 0])...));
    }
  }
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(kMapThreads)
    map_contiguous(std::int64_t n, F f, Out* out, Steps<sizeof...(In)> steps, const In*... in) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kMapThreads * kMapUnroll + threadIdx.x) * V;
  map_packs<V>(first, n, f, out, steps, std::index_sequence_for<In...>(), in...);
}

template <class F, class Out, class... In, std::size_t... K>
__device__ __forceinline__ void map_element(const Offsets<1 + sizeof...(In)>& o, const F& f,
                                            Out* out, std::index_sequence<K...>, const In*... in) {
  out[o.at[0]] = static_cast<Out>(f(static_cast<Compute<In>>(in[o.at[K + 1]])...));
}

template <class F, class Out, class... In>
__global__ void __launch_bounds__(kMapThreads)
    map_strided(StridedLoop<1 + sizeof...(In)> loop, F f, Out* out, const In*... in) {
  std::uint32_t i = blockIdx.x * (kMapThreads * kMapUnroll) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kMapUnroll; ++u, i += kMapThreads)
    if (i < loop.numel)
      map_element(loop.offsets(i), f, out, std::index_sequence_for<In...>(), in...);
}

/// Whether the nest is one run in which every operand moves by one element or not at all.
template <std::size_t N>
bool is_one_run(const LoopNest<N>& nest) {
  if (nest.ndim != 1 || nest.strides[0][0] != 1) return false;
  for (std::int64_t s : nest.strides[0])
    if (s != 0 && s != 1) return false;
  return true;
}

}  // namespace detail

/// out[i] = f(in[i]...), with the values and the result of `f` in the Compute types. `f` is a
/// functor whose operator() is `__device__`. `out` may be one of the inputs. `name` is the
/// kernel's, for messages.
template <class Out, class... In, class F, class... Views>
void map(const Stream& stream, const char* name, F f, const View& out, const Views&... in) {
  static_assert(sizeof...(In) == sizeof...(Views));
  constexpr std::size_t kOperands = 1 + sizeof...(In);
  const LoopNest<kOperands> nest({&out, &in...});
  if (nest.numel == 0) return;
  Out* const to = out.as<Out>();

  if (detail::is_one_run(nest)) {
    detail::Steps<sizeof...(In)> steps;
    for (std::size_t k = 0; k < sizeof...(In); ++k) steps.moves[k] = nest.strides[0][k + 1] == 1;
    constexpr int kPack = pack_size<Out, In...>();
    std::size_t operand = 0;
    const bool aligned =
        is_aligned(to, kPack) &&
        (... && (!steps.moves[operand++] || is_aligned(in.template as<In>(), kPack)));
    const auto run = [&]<int V>() {
      launch({name, stream, blocks_for(nest.numel, kMapThreads * kMapUnroll * V), kMapThreads},
             detail::map_contiguous<V, F, Out, In...>, nest.numel, f, to, steps,
             static_cast<const In*>(in.template as<In>())...);
    };
    if (aligned)
      run.template operator()<kPack>();
    else
      run.template operator()<1>();
    return;
  }
  for_each_loop(nest, [&](const StridedLoop<static_cast<int>(kOperands)>& loop) {
    launch({name, stream, blocks_for(loop.numel, kMapThreads * kMapUnroll), kMapThreads},
           detail::map_strided<F, Out, In...>, loop, f, to,
           static_cast<const In*>(in.template as<In>())...);
  });
}

}  // namespace ferrite::kernels::cuda
