// Several consecutive elements loaded and stored by one instruction.
#pragma once

#include <cstdint>

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
template <int N, class T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, N>& values) {
  *reinterpret_cast<Pack<T, N>*>(p) = values;
}

/// The widest load that a thread can do, in bytes.
inline constexpr int kPackBytes = 16;

/// Elements a pack such that none of the types exceeds kPackBytes, at most 8.
template <class... T>
constexpr int pack_size() {
  std::size_t widest = 2;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return static_cast<int>(kPackBytes / widest);
}

/// Whether `p` may be used with packs of `elements`.
template <class T>
bool is_aligned(const T* p, int elements) {
  return reinterpret_cast<std::uintptr_t>(p) % (sizeof(T) * static_cast<std::size_t>(elements)) ==
         0;
}

}  // namespace ferrite::kernels::cuda
