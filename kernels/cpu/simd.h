// The CPU kernels' SIMD vocabulary: neighbours in memory as one value, by the vector types of GCC
// and Clang. Lanes<T, W> has any number of them, and Vector<T> as many as a register of the
// machine. Both have elementwise operators, comparisons and ?:. Mathematics on them is in
// simd_math.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cpu/half_runs.h"

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
template <class T, int W>
struct LanesOf {
  using type [[gnu::vector_size(W * sizeof(T))]] = T;
};
template <class T>
struct LanesOf<T, 1> {
  using type = T;
};
template <int W>
struct LanesOf<Pair, W> : LanesOf<std::int32_t, W> {};
}  // namespace detail

/// W values of T; T itself for W = 1.
template <class T, int W>
using Lanes = typename detail::LanesOf<T, W>::type;
/// Lanes of a register of T (float, double or Pair).
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
template <class T>
using Vector = Lanes<T, kLanes<T>>;
/// The integers that comparisons of T give, and that ?: can choose from beside T.
template <class T>
using MaskOf = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

/// Integers of other sizes. One doubling or halving at a time: what GCC makes of more is scalar.
template <class To, int W, class From>
Lanes<To, W> convert(const Lanes<From, W>& v) {
  if constexpr (W == 1) {
    return static_cast<To>(v);
  } else if constexpr (sizeof(To) > 2 * sizeof(From) || 2 * sizeof(To) < sizeof(From)) {
    constexpr bool wider = sizeof(To) > sizeof(From);
    using Middle = std::conditional_t<(wider ? sizeof(From) * 2 : sizeof(From) / 2) == 2,
                                      std::int16_t, std::int32_t>;
    return convert<To, W, Middle>(convert<Middle, W, From>(v));
  } else {
    return __builtin_convertvector(v, Lanes<To, W>);
  }
}

/// The same bits as another type of that size.
template <class To, class From>
To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// p[0] to p[W - 1] in their Compute type.
template <int W, class T>
Lanes<Compute<T>, W> load(const T* p) {
  Lanes<Compute<T>, W> v;
  if constexpr (W == 1) {
    v = static_cast<Compute<T>>(*p);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    Lanes<std::uint16_t, W> bits;
    std::memcpy(&bits, p, sizeof bits);
    v = bits_as<Lanes<float, W>>(__builtin_convertvector(bits, Lanes<std::uint32_t, W>) << 16);
#if defined(__AVX512F__)
  } else if constexpr (std::is_same_v<T, Half> && W == 16) {
    v = bits_as<Lanes<float, W>>(
        _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#endif
  } else if constexpr (std::is_same_v<T, Half>) {
    float a[W];
    widen(a, p, W);
    std::memcpy(&v, a, sizeof v);
  } else {
    std::memcpy(&v, p, sizeof v);
  }
  return v;
}
template <int W, class T>
void store(T* p, const Lanes<Compute<T>, W>& v) {
  if constexpr (W == 1) {
    *p = static_cast<T>(v);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    // As float_to_bfloat16_bits().
    const auto x = bits_as<Lanes<std::uint32_t, W>>(v);
    const auto rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    const auto nan = (x >> 16) | 0x40u;
    const auto bits = __builtin_convertvector((x & 0x7fffffffu) > 0x7f800000u ? nan : rounded,
                                              Lanes<std::uint16_t, W>);
    std::memcpy(p, &bits, sizeof bits);
#if defined(__AVX512F__)
  } else if constexpr (std::is_same_v<T, Half> && W == 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(bits_as<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
#endif
  } else if constexpr (std::is_same_v<T, Half>) {
    float a[W];
    std::memcpy(a, &v, sizeof v);
    narrow(p, a, W);
  } else {
    std::memcpy(p, &v, sizeof v);
  }
}

/// A whole register, with no change of type.
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
  // By halves: a masked store takes more than ten cycles on AMD's processors.
  if (count == kLanes<T>) return store(p, v);
  __m128i rest = _mm256_castsi256_si128((__m256i)v);
  if (count * sizeof(T) & 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), rest);
    rest = _mm256_extracti128_si256((__m256i)v, 1);
    p += 16 / sizeof(T);
  }
  if (count * sizeof(T) & 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), rest);
    rest = _mm_srli_si128(rest, 8);
    p += 8 / sizeof(T);
  }
  if (count * sizeof(T) & 4) {
    const int lane = _mm_cvtsi128_si32(rest);
    std::memcpy(p, &lane, sizeof lane);
  }
#else
  for (std::int64_t i = 0; i < count; ++i) {
    const auto lane = v[i];
    std::memcpy(p + i, &lane, sizeof lane);
  }
#endif
}

/// p[0], p[2] to p[2 W - 2], reading nothing beyond.
template <int W, class T>
Lanes<Compute<T>, W> load_even(const T* p) {
  if constexpr (W == 1) {
    return load<1>(p);
  } else {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return __builtin_shufflevector(load<W>(p), load<W>(p + W - 1),
                                     (2 * I < W ? 2 * I : 2 * I + 1)...);
    }
    (std::make_integer_sequence<int, W>());
  }
}

/// p[2 l] = even[l], p[2 l + 1] = odd[l].
template <int W, class T>
void store_interleaved(T* p, const Lanes<Compute<T>, W>& even, const Lanes<Compute<T>, W>& odd) {
  if constexpr (W == 1) {
    store<1>(p, even);
    store<1>(p + 1, odd);
  } else {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      store<W>(p, __builtin_shufflevector(even, odd, (I % 2 ? W + I / 2 : I / 2)...));
      store<W>(p + W,
               __builtin_shufflevector(even, odd, (I % 2 ? W + (W + I) / 2 : (W + I) / 2)...));
    }
    (std::make_integer_sequence<int, W>());
  }
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

/// The lanes added up in pairs half a vector apart, until there are `To`.
template <int To, class T, int W>
inline Lanes<T, To> fold_lanes(const Lanes<T, W>& v) {
  if constexpr (W == To)
    return v;
  else if constexpr (W == 2)
    return v[0] + v[1];
  else
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return fold_lanes<To, T, W / 2>(__builtin_shufflevector(v, v, I...) +
                                      __builtin_shufflevector(v, v, (W / 2 + I)...));
    }
  (std::make_integer_sequence<int, W / 2>());
}

/// The sum of the lanes.
template <class T>
inline T sum_lanes(Vector<T> v) {
  return fold_lanes<1, T, kLanes<T>>(v);
}

/// rows[i][j] becomes rows[j][i], of n vectors of n lanes.
template <class V, int n>
[[gnu::always_inline]] inline void transpose_lanes(V (&rows)[n]) {
  using Mask = decltype(rows[0] < rows[0]);
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
      const V x = rows[i], y = rows[i + s];
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

/// Calls f(first, width) with compile-time widths so that [begin, end) is covered. The last block
/// of a width overlaps the one before it where the length is no multiple: f must be able to run
/// twice. No width exceeds a register of float: GCC makes comparisons and ?: of wider vectors
/// element by element.
template <class F>
void for_blocks(std::int64_t begin, std::int64_t end, F&& f) {
  const std::int64_t length = end - begin;
  const auto cover = [&](auto width) {
    std::int64_t i = begin;
    for (; i + width <= end; i += width) f(i, width);
    if (i < end) f(end - width, width);
  };
  if constexpr (kLanes<float> >= 16)
    if (length >= 16) return cover(std::integral_constant<int, 16>());
  if constexpr (kLanes<float> >= 8)
    if (length >= 8) return cover(std::integral_constant<int, 8>());
  if (length >= 4)
    cover(std::integral_constant<int, 4>());
  else
    cover(std::integral_constant<int, 1>());
}

/// What T is added and multiplied as: integers wrap around.
template <class T>
struct WrappingOf {
  using type = T;
};
template <class T>
requires std::is_integral_v<T>
struct WrappingOf<T> {
  using type = std::make_unsigned_t<T>;
};

}  // namespace ferrite::kernels::cpu
