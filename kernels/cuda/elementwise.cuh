// map(): out[i] = f(in0[i], in1[i], ...) over views of equal sizes.
//
// If each operand is dense along the innermost dimension, or repeats one value there (a bias along
// rows or channels), a thread handles packs of 16 bytes and computes offsets once per pack;
// otherwise it works element by element. In both cases it has several loads in flight.
#pragma once

#include <array>
#include <utility>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/strided.cuh"

namespace ferrite::kernels::cuda {

inline constexpr int kMapThreads = 256;

namespace detail {

/// Packs or elements per thread: functors that define a type Heavy need many registers themselves.
template <class F>
constexpr int map_unroll(int pack) {
  if constexpr (requires { typename F::Heavy; })
    return pack > 1 ? 1 : 2;
  else
    return pack > 1 ? 2 : 4;
}

// A replacement for std::tuple that nvcc compiles in a tenth of the time.
template <std::size_t K, class T>
struct Leaf {
  T value;
};
template <class Indices, class... T>
struct Leaves;
template <std::size_t... K, class... T>
struct Leaves<std::index_sequence<K...>, T...> : Leaf<K, T>... {};
template <std::size_t K, class T>
__device__ __forceinline__ T& leaf(Leaf<K, T>& l) {
  return l.value;
}

/// The first `count` elements of a pack at `p + at`, or the one element there, repeated V times.
template <int V, class T>
__device__ __forceinline__ void load_operand(Pack<T, V>& to, const T* p, std::int64_t at,
                                             bool moves, int count) {
  if (V > 1 && moves) {
    if (count == V) {
      to = load_pack<V>(p + at);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) to.v[i] = i < count ? p[at + i] : T{};
    }
  } else {
    const T x = p ? p[at] : T{};
#pragma unroll
    for (int i = 0; i < V; ++i) to.v[i] = x;
  }
}

/// The first `count` elements of a pack.
template <int V, class T>
__device__ __forceinline__ void store_some(T* to, const Pack<T, V>& pack, int count) {
  if (count == V) {
    store_pack<V>(to, pack);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (i < count) to[i] = pack.v[i];
  }
}

template <int V, class F, class Out, class... In>
__device__ __forceinline__ Pack<Out, V> apply(const F& f, const Pack<In, V>&... in) {
  Pack<Out, V> out{};
  if constexpr (requires { typename F::Packs; }) {
    f.template packs<V>(out, in...);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i)
      out.v[i] = static_cast<Out>(f(static_cast<Compute<In>>(in.v[i])...));
  }
  return out;
}

template <int V, class F, class Out, class... In, std::size_t... K>
__device__ __forceinline__ void map_thread(const StridedLoop<1 + sizeof...(In)>& loop,
                                           std::uint32_t tail, unsigned moves, const F& f, Out* out,
                                           std::index_sequence<K...> operands, const In*... in) {
  constexpr int kUnroll = map_unroll<F>(V);
  const std::uint32_t first = blockIdx.x * (kMapThreads * kUnroll) + threadIdx.x;
  [[maybe_unused]] Leaves<decltype(operands), Pack<In, V>...> values[kUnroll]{};
  std::int64_t to[kUnroll];
  int count[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::uint32_t i = first + u * kMapThreads;
    count[u] = i < loop.numel ? V : i == loop.numel ? static_cast<int>(tail) : 0;
    if (count[u] == 0) continue;
    const auto offsets = loop.offsets(i);
    to[u] = offsets.at[0];
    (load_operand<V>(leaf<K>(values[u]), in, offsets.at[K + 1], (moves >> K & 1) != 0, count[u]),
     ...);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (count[u] == 0) continue;
    store_some<V>(out + to[u], apply<V, F, Out, In...>(f, leaf<K>(values[u])...), count[u]);
  }
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(kMapThreads)
    map_kernel(const __grid_constant__ StridedLoop<1 + sizeof...(In)> loop, std::uint32_t tail,
               unsigned moves, F f, Out* out, const In*... in) {
  map_thread<V>(loop, tail, moves, f, out, std::index_sequence_for<In...>(), in...);
}

/// The loop nest of map().
template <std::size_t N>
struct MapPlan {
  LoopNest<N> nest;  // of packs, where `packed`
  bool packed = false;
  std::uint32_t tail = 0;  // elements after the last pack; only of nests of one dimension
  unsigned moves = 0;      // bit k: input k steps through memory along the innermost dimension

  [[gnu::noinline]] MapPlan(const std::array<const View*, N>& views, int pack) : nest(views) {
    if (nest.numel == 0) return;
    const int inner = nest.ndim - 1;
    for (std::size_t k = 1; k < N; ++k)
      if (!views[k]->data)
        for (int d = 0; d < nest.ndim; ++d) nest.strides[d][k] = 0;
    packed = pack > 1 && nest.strides[inner][0] == 1 &&
             (inner == 0 ? nest.sizes[0] >= pack : nest.sizes[inner] % pack == 0);
    for (std::size_t k = 0; k < N && packed; ++k) {
      if (k > 0 && nest.strides[inner][k] == 0) continue;
      packed = nest.strides[inner][k] == 1 && is_pack_aligned(*views[k], pack);
      for (int d = 0; d < inner; ++d) packed = packed && nest.strides[d][k] % pack == 0;
    }
    if (!packed) return;
    tail = static_cast<std::uint32_t>(nest.sizes[inner] % pack);
    nest.sizes[inner] /= pack;
    nest.numel /= pack;
    for (std::size_t k = 0; k < N; ++k) {
      if (k > 0 && nest.strides[inner][k] == 1) moves |= 1U << (k - 1);
      nest.strides[inner][k] *= pack;
    }
  }

 private:
  static bool is_pack_aligned(const View& view, int pack) {
    return reinterpret_cast<std::uintptr_t>(view.data) %
               (itemsize(view.dtype) * static_cast<std::size_t>(pack)) ==
           0;
  }
};

/// Calls f(StridedLoop, tail) for pieces that cover the plan; there is one thread per pack or
/// element, and one more for the tail if there is one.
template <std::size_t N, class F>
void for_each_piece(const MapPlan<N>& plan, F&& f) {
  std::int64_t done = 0;
  for_each_loop(plan.nest, [&](const StridedLoop<static_cast<int>(N)>& loop) {
    done += loop.numel;
    f(loop, done == plan.nest.numel ? plan.tail : 0);
  });
}

template <int V, class Out, class... In, class F, std::size_t N, class... Views>
void launch_map(const Stream& stream, const char* name, const F& f, const MapPlan<N>& plan,
                const View& out, const Views&... in) {
  for_each_piece(plan, [&](const auto& loop, std::uint32_t tail) {
    launch({name, stream, blocks_for(loop.numel + (tail > 0), kMapThreads * map_unroll<F>(V)),
            kMapThreads},
           map_kernel<V, F, Out, In...>, loop, tail, plan.moves, f, out.as<Out>(),
           static_cast<const In*>(in.template as<In>())...);
  });
}

}  // namespace detail

/// out[i] = f(in[i]...), with the values and the result of `f` in the Compute types. `f` is a
/// functor whose operator() is `__device__`; or it defines a type Packs and has a member
/// packs<V>(Pack<Out, V>& out, const Pack<In, V>&... in) that handles V elements and can make
/// decisions once for all of them. `out` may be one of the inputs. An input without data is one
/// that `f` ignores: `f` receives zeros. `name` is the kernel's name in messages. `single` is a
/// functor of the same meaning for element-by-element access, if it should differ from `f` (one for
/// many of `f`, which keeps kernels few).
template <class Out, class... In, class F, class G, class... Views>
void map_or(const Stream& stream, const char* name, const F& f, const G& single, const View& out,
            const Views&... in) {
  static_assert(sizeof...(In) == sizeof...(Views));
  constexpr int kPack = useful_pack<Out, In...>();
  const detail::MapPlan<1 + sizeof...(In)> plan({&out, &in...}, kPack);
  if constexpr (kPack > 1)
    if (plan.packed)
      return detail::launch_map<kPack, Out, In...>(stream, name, f, plan, out, in...);
  detail::launch_map<1, Out, In...>(stream, name, single, plan, out, in...);
}

template <class Out, class... In, class F, class... Views>
void map(const Stream& stream, const char* name, const F& f, const View& out, const Views&... in) {
  map_or<Out, In...>(stream, name, f, f, out, in...);
}

}  // namespace ferrite::kernels::cuda
