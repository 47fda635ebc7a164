// What kernels that look for the maxima of windows share.
#pragma once

#include <cstdint>
#include <limits>

#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/pool_window.cuh"
#include "ferrite/kernels/cuda/relu_mask.cuh"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda {

/// The codes of max_pool2d(), of either type; null if they are not wanted.
struct Codes {
  std::uint8_t* narrow = nullptr;
  std::int32_t* wide = nullptr;

  explicit Codes(const View& v) {
    if (v.dtype == kUInt8)
      narrow = v.as<std::uint8_t>();
    else
      wide = v.as<std::int32_t>();
  }
  bool is_aligned(int elements) const {
    return cuda::is_aligned(narrow, elements) && cuda::is_aligned(wide, elements);
  }
  void advance(std::int64_t elements) {
    if (narrow) narrow += elements;
    if (wide) wide += elements;
  }

  template <int V>
  __device__ Pack<std::int32_t, V> load(std::int64_t at) const {
    if (narrow == nullptr) return load_pack<V>(wide + at);
    const Pack<std::uint8_t, V> some = load_pack<V>(narrow + at);
    Pack<std::int32_t, V> codes;
#pragma unroll
    for (int v = 0; v < V; ++v) codes.v[v] = some.v[v];
    return codes;
  }
  template <int V>
  __device__ void store(std::int64_t at, const std::int32_t (&codes)[V]) const {
    if (narrow != nullptr) {
      Pack<std::uint8_t, V> some;
#pragma unroll
      for (int v = 0; v < V; ++v) some.v[v] = static_cast<std::uint8_t>(codes[v]);
      store_pack<V>(narrow + at, some);
    } else if (wide != nullptr) {
      Pack<std::int32_t, V> some;
#pragma unroll
      for (int v = 0; v < V; ++v) some.v[v] = codes[v];
      store_pack<V>(wide + at, some);
    }
  }
};

/// The running maxima of V windows and their positions.
template <class S, int V>
struct Maximum {
  S best[V];
  std::int32_t place[V];

  __device__ explicit Maximum(std::int32_t first_place) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      best[v] = -std::numeric_limits<S>::infinity();
      place[v] = first_place;
    }
  }
  /// Whether `x` is the maximum so far.
  __device__ bool see(int v, S x, std::int32_t at) {
    // The second comparison takes a NaN, which only another NaN then replaces.
    const bool take = x > best[v] || x != x;
    best[v] = take ? x : best[v];
    place[v] = take ? at : place[v];
    return take;
  }
  /// K adjacent cells along a row of the window, all loaded before the first comparison.
  template <int K, class T>
  __device__ void see_row(const T* cells, std::int64_t step, std::int32_t at) {
    Pack<T, V> some[K];
#pragma unroll
    for (int k = 0; k < K; ++k) some[k] = load_pack<V>(cells + k * step);
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int v = 0; v < V; ++v) see(v, static_cast<S>(some[k].v[v]), at + k);
  }
};

/// Adds to `sum` the gradients of the windows whose maxima are these cells; where `relu_out`, their
/// maxima, is given, of those that a ReLU before the pooling passes.
template <int V, class T, class S>
__device__ __forceinline__ void gather_gradients(S (&sum)[V], const Planes& p, const Planes::At& a,
                                                 const T* grad_out, const Codes& code,
                                                 const T* relu_out = nullptr) {
  const Axis::Holders rows = p.h.holders(a.row), columns = p.w.holders(a.column);
  for (std::int32_t oh = rows.first; oh <= rows.last; ++oh) {
    const std::int32_t in_row = p.h.place(a.row, oh);
    if (in_row < 0) continue;
    for (std::int32_t ow = columns.first; ow <= columns.last; ++ow) {
      const std::int32_t in_column = p.w.place(a.column, ow);
      if (in_column < 0) continue;
      const std::int32_t place = in_row * p.places + in_column;
      const std::int64_t at = p.at_output(a, oh, ow);
      const Pack<std::int32_t, V> chosen = code.load<V>(at);
      const Pack<T, V> g = load_pack<V>(grad_out + at);
      Pack<T, V> maxima{};
      if (relu_out != nullptr) maxima = load_pack<V>(relu_out + at);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const bool passes = relu_out == nullptr || !(static_cast<S>(maxima.v[v]) <= S(0));
        if (chosen.v[v] == place && passes) sum[v] += static_cast<S>(g.v[v]);
      }
    }
  }
}

}  // namespace ferrite::kernels::cuda
