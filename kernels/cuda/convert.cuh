// The conversion of elements between dtypes in copy().
#pragma once

#include "ferrite/core/dtype.h"
#include "ferrite/core/truncate.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

/// Like a C++ cast, except that float to integer goes through int64 (so that negative numbers are
/// defined for uint8), and to bool means "not 0".
template <class Out, class In>
__device__ __forceinline__ Out convert_element(In in) {
  const auto x = static_cast<Compute<In>>(in);
  if constexpr (std::is_same_v<Out, bool>)
    return x != Compute<In>(0);
  else if constexpr (is_half_type<Out>)
    return Out(static_cast<float>(x));
  else if constexpr (std::is_floating_point_v<Compute<In>> && std::is_integral_v<Out>)
    return static_cast<Out>(truncate_to_int64(x));
  else
    return static_cast<Out>(x);
}

namespace detail {

template <int V, int N, class Out, class In>
__device__ __forceinline__ void load_as(Pack<Out, V> (&to)[N], const void* in,
                                        const std::int64_t (&at)[N], bool moves,
                                        const int (&count)[N]) {
  Pack<In, V> packs[N]{};
#pragma unroll
  for (int n = 0; n < N; ++n)
    if (count[n] > 0) load_operand<V>(packs[n], static_cast<const In*>(in), at[n], moves, count[n]);
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < V; ++i) to[n].v[i] = convert_element<Out>(packs[n].v[i]);
  }
}

}  // namespace detail

/// N packs of elements of `dtype` from `in + at[n]`, converted. `moves` and `count`: as of
/// load_operand(); where count[n] is 0, zeros are converted.
template <int V, int N, class Out>
__device__ __forceinline__ void load_converted(Pack<Out, V> (&to)[N], const void* in, DType dtype,
                                               const std::int64_t (&at)[N], bool moves,
                                               const int (&count)[N]) {
  switch (dtype) {
    case DType::float32:
      return detail::load_as<V, N, Out, float>(to, in, at, moves, count);
    case DType::float16:
      return detail::load_as<V, N, Out, Half>(to, in, at, moves, count);
    case DType::bfloat16:
      return detail::load_as<V, N, Out, BFloat16>(to, in, at, moves, count);
    case DType::float64:
      return detail::load_as<V, N, Out, double>(to, in, at, moves, count);
    case DType::int64:
      return detail::load_as<V, N, Out, std::int64_t>(to, in, at, moves, count);
    case DType::int32:
      return detail::load_as<V, N, Out, std::int32_t>(to, in, at, moves, count);
    case DType::int16:
      return detail::load_as<V, N, Out, std::int16_t>(to, in, at, moves, count);
    case DType::int8:
      return detail::load_as<V, N, Out, std::int8_t>(to, in, at, moves, count);
    case DType::uint8:
      return detail::load_as<V, N, Out, std::uint8_t>(to, in, at, moves, count);
    default:
      return detail::load_as<V, N, Out, bool>(to, in, at, moves, count);
  }
}

}  // namespace ferrite::kernels::cuda
