// Activations of values in registers, for kernels that apply them before storing results.
#pragma once

#include <cmath>
#include <numbers>

#include "ferrite/kernels/activation.h"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"

namespace ferrite::kernels::cuda {

inline constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
inline constexpr double kGeluCubic = 0.044715;

/// The normal distribution function.
template <class C>
__device__ __forceinline__ C normal_cdf(C x) {
  return C(0.5) * (C(1) + std::erf(x * C(1 / std::numbers::sqrt2)));
}

template <class C>
__device__ __forceinline__ C gelu_tanh_argument(C x) {
  return C(kGeluScale) * (x + C(kGeluCubic) * x * x * x);
}

template <class C>
__device__ __forceinline__ C gelu(C x) {
  return x * normal_cdf(x);
}

template <class C>
__device__ __forceinline__ C gelu_tanh(C x) {
  return C(0.5) * x * (C(1) + std::tanh(gelu_tanh_argument(x)));
}

/// Applies an activation other than `none` to a pack.
template <int N, class C>
__device__ __forceinline__ void activate(Activation activation, Pack<C, N>& x) {
  const auto apply = [&](auto f) {
#pragma unroll
    for (int i = 0; i < N; ++i) x.v[i] = f(x.v[i]);
  };
  switch (activation) {
    case Activation::gelu:
      return apply([](C v) { return gelu(v); });
    case Activation::gelu_tanh:
      return apply([](C v) { return gelu_tanh(v); });
    default:  // relu: NaN stays
      return apply([](C v) { return v < C(0) ? C(0) : v; });
  }
}

/// In double the functions are long, so there is one copy, which is not inlined.
[[gnu::noinline]] inline __device__ double activated(Activation activation, double x) {
  Pack<double, 1> pack{{x}};
  activate<1, double>(activation, pack);
  return pack.v[0];
}
template <int N>
__device__ __forceinline__ void activate(Activation activation, Pack<double, N>& x) {
#pragma unroll
  for (int i = 0; i < N; ++i) x.v[i] = activated(activation, x.v[i]);
}

}  // namespace ferrite::kernels::cuda
