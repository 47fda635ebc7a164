// The sum of exponentials in one pass.
#pragma once

#include <cmath>
#include <limits>

#include "ferrite/kernels/cuda/pack.cuh"

namespace ferrite::kernels::cuda {

/// The largest element so far and the sum of exp(x - largest). A NaN propagates to the sum.
template <class E>
struct alignas(2 * sizeof(E)) OnlineSum {
  E top = -std::numeric_limits<E>::infinity();
  E sum = 0;

  template <class T, int V>
  __device__ __forceinline__ void take(const Pack<T, V>& x) {
    E largest = top;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const E value = static_cast<E>(x.v[v]);
      largest = value > largest ? value : largest;
    }
    if (largest > top) {
      sum *= std::exp(top - largest);
      top = largest;
    }
    const E shift = finite_shift();
#pragma unroll
    for (int v = 0; v < V; ++v) sum += std::exp(static_cast<E>(x.v[v]) - shift);
  }
  /// The sum over a whole row. It is NaN if all elements are -infinity, because x - top is then
  /// NaN.
  __device__ __forceinline__ E total() const { return sum + (finite_shift() - top) * 0; }
  /// 0 instead of -infinity: if all elements so far are -infinity, their exponentials are 0.
  __device__ __forceinline__ E finite_shift() const {
    return top == -std::numeric_limits<E>::infinity() ? E(0) : top;
  }
};

template <class E>
__device__ __forceinline__ OnlineSum<E> join(const OnlineSum<E>& a, const OnlineSum<E>& b) {
  OnlineSum<E> both;
  both.top = b.top > a.top ? b.top : a.top;
  const E shift = both.finite_shift();
  both.sum = a.sum * std::exp(a.top - shift) + b.sum * std::exp(b.top - shift);
  return both;
}

}  // namespace ferrite::kernels::cuda
