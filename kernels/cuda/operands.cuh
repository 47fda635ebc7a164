// The operands of a binary operation, one of which may be a scalar.
#pragma once

#include "ferrite/kernels/cuda/binary.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

/// Converts packs of T to its Compute type, and substitutes the scalar for its operand.
template <class T>
struct Operands {
  using C = Compute<T>;
  ScalarRole role;
  C scalar;
  const C* shared = nullptr;  // the scalar's address, if its value is on the device

  template <int V>
  __device__ __forceinline__ Pack<C, V> left(const Pack<T, V>& a) const {
    return numbers<V>(a, role == ScalarRole::left);
  }
  template <int V>
  __device__ __forceinline__ Pack<C, V> right(const Pack<T, V>& b) const {
    return numbers<V>(b, role == ScalarRole::right);
  }

 private:
  template <int V>
  __device__ __forceinline__ Pack<C, V> numbers(const Pack<T, V>& in, bool is_scalar) const {
    Pack<C, V> out;
    const C value = is_scalar && shared ? *shared : scalar;
#pragma unroll
    for (int i = 0; i < V; ++i) out.v[i] = is_scalar ? value : static_cast<C>(in.v[i]);
    return out;
  }
};

/// out[i] = f(a[i], b[i])
template <class Out, class C, int V, class F>
__device__ __forceinline__ void apply_packs(Pack<Out, V>& out, const Pack<C, V>& a,
                                            const Pack<C, V>& b, F f) {
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = static_cast<Out>(f(a.v[i], b.v[i]));
}

}  // namespace ferrite::kernels::cuda
