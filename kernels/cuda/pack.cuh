// Packs: several consecutive elements that one instruction loads or stores.
#pragma once

#include <cstdint>

#include "ferrite/core/dtype.h"

namespace ferrite::kernels::cuda {

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

/// `p` must be aligned to N elements.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, N>*>(p);
}
template <class Vector, int N, class T>
__device__ __forceinline__ void store_vector(T* p, const Pack<T, N>& values) {
  static_assert(sizeof(Vector) == sizeof(values));
  Vector vector;
  memcpy(&vector, &values, sizeof(vector));
  __stwb(reinterpret_cast<Vector*>(p), vector);
}
/// One store to global memory: the compiler splits that of a struct into its elements, but not that
/// of a vector.
template <int N, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, N>& values) {
  if constexpr (N > 1 && sizeof(values) == sizeof(uint4))
    store_vector<uint4>(p, values);
  else if constexpr (N > 1 && sizeof(values) == sizeof(uint2))
    store_vector<uint2>(p, values);
  else
    *reinterpret_cast<Pack<T, N>*>(p) = values;
}

/// The same to shared memory, for which there is no such instruction.
template <int N, class T>
__device__ __forceinline__ void store_shared_pack(T* p, const Pack<T, N>& values) {
  *reinterpret_cast<Pack<T, N>*>(p) = values;
}

/// Stores those elements of a pack that lie within a run of `n` elements, starting at `at`; with
/// one store if `aligned` allows packs.
template <int N, class T>
__device__ __forceinline__ void store_run(T* p, std::int64_t at, std::int64_t n,
                                          const Pack<T, N>& values, bool aligned) {
  if (aligned && at + N <= n) return store_pack<N>(p + at, values);
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (at + i < n) p[at + i] = values.v[i];
}

/// The widest load of one thread, in bytes.
inline constexpr int kPackBytes = 16;

/// The number of elements per pack, at most 8, such that no pack of these types exceeds kPackBytes.
template <class... T>
constexpr int pack_size() {
  std::size_t widest = 2;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return static_cast<int>(kPackBytes / widest);
}

/// The same for kernels that have equally many bytes in flight with and without packs: 1 if a type
/// has 8 bytes, because a warp then loads single elements as fast as packs of two.
template <class... T>
constexpr int useful_pack() {
  return ((sizeof(T) == 8) || ...) ? 1 : pack_size<T...>();
}

/// Whether `p` is aligned for packs of `elements`.
template <class T>
bool is_aligned(const T* p, int elements) {
  return reinterpret_cast<std::uintptr_t>(p) % (sizeof(T) * static_cast<std::size_t>(elements)) ==
         0;
}

/// Calls f.operator()<Word>() for the unsigned type of `dtype`'s size, which suffices to move
/// elements.
template <class F>
void dispatch_words(DType dtype, F&& f) {
  switch (itemsize(dtype)) {
    case 1:
      return f.template operator()<std::uint8_t>();
    case 2:
      return f.template operator()<std::uint16_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint64_t>();
  }
}

}  // namespace ferrite::kernels::cuda
