// Vectors as wide as the machine's registers, as GCC and Clang have them in every instruction set.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "ferrite/core/dtype.h"

namespace ferrite::kernels::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

/// Two neighbours along what a product sums over: products of pairs, added up in float, are one
/// instruction on some machines. It takes numbers below the smallest normal one for 0.
struct Pair {
  BFloat16 first, second;
};
#if defined(__AVX512BF16__)
inline constexpr bool kPairsCompiled = true, kPairsAlways = true;
inline bool pair_products() { return true; }
#elif defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
inline constexpr bool kPairsCompiled = true, kPairsAlways = false;
inline bool pair_products() { return __builtin_cpu_supports("avx512bf16"); }
#else
inline constexpr bool kPairsCompiled = false, kPairsAlways = false;
inline bool pair_products() { return false; }
#endif

/// Calls f.operator()<A>() with what products of S are made as on this machine: Pair or Compute<S>.
template <class S, class F>
void with_factor(F&& f) {
  if constexpr (kPairsCompiled && std::is_same_v<S, BFloat16>)
    if (pair_products()) return f.template operator()<Pair>();
  if constexpr (!kPairsAlways || !std::is_same_v<S, BFloat16>) f.template operator()<Compute<S>>();
}

/// What products of T are added up in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, Pair>, float, T>;

namespace detail {
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<Pair> {
  typedef std::int32_t type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
struct MaskOf {
  using type = std::int32_t;
};
template <>
struct MaskOf<double> {
  using type = std::int64_t;
};
}  // namespace detail

/// Lanes of a vector of T (float, double or Pair).
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
template <class T>
using Vector = typename detail::VectorOf<T>::type;

template <class T>
inline Vector<T> load(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store(T* p, Vector<T> v) {
  std::memcpy(p, &v, sizeof v);
}

/// sum += left * right, of floats or doubles. Rounded once wherever the machine can: what a
/// compiler makes of the expression depends on the code around it and on the processor it tunes
/// for, and a result must not depend on which of the inner kernels makes it.
template <class T>
inline void add_products(Vector<T>& sum, Vector<T> left, Vector<T> right) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    sum = (Vector<T>)_mm512_fmadd_ps((__m512)left, (__m512)right, (__m512)sum);
  else
    sum = (Vector<T>)_mm512_fmadd_pd((__m512d)left, (__m512d)right, (__m512d)sum);
#elif defined(__AVX2__) && defined(__FMA__)
  if constexpr (sizeof(T) == 4)
    sum = (Vector<T>)_mm256_fmadd_ps((__m256)left, (__m256)right, (__m256)sum);
  else
    sum = (Vector<T>)_mm256_fmadd_pd((__m256d)left, (__m256d)right, (__m256d)sum);
#else
  sum += left * right;
#endif
}

/// sum += left * right
template <class T>
inline void add_product(Vector<Sum<T>>& sum, const T& left, Vector<T> right) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<T, Pair>) {
    std::int32_t bits;
    std::memcpy(&bits, &left, sizeof bits);
    sum = (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(bits),
                                          (__m512bh)right);
    return;
  } else
#endif
    add_products<T>(sum, left - Vector<T>{}, right);  // less 0: in every lane, and nothing else
}

/// sum += terms
template <class T>
inline void add_lanes(Vector<Sum<T>>& sum, Vector<T> terms) {
  if constexpr (std::is_same_v<T, Pair>) {
    const Vector<Pair> low = terms << 16, high = terms & static_cast<std::int32_t>(0xffff0000);
    sum += (Vector<float>)low;
    sum += (Vector<float>)high;
  } else {
    sum += terms;
  }
}

#if defined(__AVX2__) && !defined(__AVX512F__)
namespace detail {
/// A mask of the first `bytes` bytes.
inline __m256i mask_of(std::int64_t bytes) {
  alignas(32) static constexpr std::int64_t kMasks[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
  return _mm256_loadu_si256(
      reinterpret_cast<const __m256i*>(reinterpret_cast<const char*>(kMasks + 4) - bytes));
}
}  // namespace detail
#endif

/// The first `count` lanes, 0 <= count <= kLanes; the others are 0.
template <class T>
inline Vector<T> load_partial(const T* p, std::int64_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
  else
    return (Vector<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p);
#elif defined(__AVX2__)
  const __m256i mask = detail::mask_of(count * static_cast<std::int64_t>(sizeof(T)));
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm256_maskload_ps(reinterpret_cast<const float*>(p), mask);
  else
    return (Vector<T>)_mm256_maskload_pd(reinterpret_cast<const double*>(p), mask);
#else
  Vector<T> v{};
  for (std::int64_t i = 0; i < count; ++i) {
    auto lane = v[i];
    std::memcpy(&lane, p + i, sizeof lane);
    v[i] = lane;
  }
  return v;
#endif
}
template <class T>
inline void store_partial(T* p, Vector<T> v, std::int64_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
  else
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), (__m512d)v);
#elif defined(__AVX2__)
  const __m256i mask = detail::mask_of(count * static_cast<std::int64_t>(sizeof(T)));
  if constexpr (sizeof(T) == 4)
    _mm256_maskstore_ps(reinterpret_cast<float*>(p), mask, (__m256)v);
  else
    _mm256_maskstore_pd(reinterpret_cast<double*>(p), mask, (__m256d)v);
#else
  for (std::int64_t i = 0; i < count; ++i) {
    const auto lane = v[i];
    std::memcpy(p + i, &lane, sizeof lane);
  }
#endif
}

/// The sum of the lanes, in pairs.
template <class T>
inline T sum_lanes(Vector<T> v) {
  T lanes[kLanes<T>];
  store(lanes, v);
  for (int n = kLanes<T> / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) lanes[i] += lanes[i + n];
  return lanes[0];
}

/// rows[i][j] becomes rows[j][i].
template <class T>
inline void transpose_lanes(Vector<T> (&rows)[kLanes<T>]) {
  constexpr int n = kLanes<T>;
  using Index = typename detail::MaskOf<T>::type;
  typedef Index Mask __attribute__((vector_size(kVectorBytes)));
#pragma GCC unroll 4
  for (int s = 1; s < n; s *= 2) {
    // Swaps the blocks of s lanes that lie off the diagonal of rows i and i + s.
    Mask low{}, high{};
#pragma GCC unroll 16
    for (int j = 0; j < n; ++j) {
      low[j] = (j & s) ? n + j - s : j;
      high[j] = (j & s) ? n + j : j + s;
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      if (i & s) continue;
      const Vector<T> x = rows[i], y = rows[i + s];
#if defined(__clang__)
      for (int j = 0; j < n; ++j) {
        rows[i][j] = (j & s) ? y[j - s] : x[j];
        rows[i + s][j] = (j & s) ? y[j] : x[j + s];
      }
#else
      rows[i] = __builtin_shuffle(x, y, low);
      rows[i + s] = __builtin_shuffle(x, y, high);
#endif
    }
  }
}

}  // namespace ferrite::kernels::cpu
