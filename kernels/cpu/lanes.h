// Fixed numbers of neighbours in memory as one value: GCC's and Clang's vector types, which become
// the machine's registers, whatever their width.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cpu/half_runs.h"

namespace ferrite::kernels::cpu {

namespace detail {
template <class T, int W>
struct LanesOf {
  using type [[gnu::vector_size(W * sizeof(T))]] = T;
};
template <class T>
struct LanesOf<T, 1> {
  using type = T;
};
}  // namespace detail

/// W values of T with elementwise operators, comparisons and ?:; T itself for W = 1.
template <class T, int W>
using Lanes = typename detail::LanesOf<T, W>::type;
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

/// Calls f(first, width) with compile-time widths so that [begin, end) is covered. The last block
/// of a width overlaps the one before it where the length is no multiple: f must be able to run
/// twice.
template <class F>
void for_blocks(std::int64_t begin, std::int64_t end, F&& f) {
  const auto cover = [&](auto width) {
    std::int64_t i = begin;
    for (; i + width <= end; i += width) f(i, width);
    if (i < end) f(end - width, width);
  };
  if (end - begin >= 16)
    cover(std::integral_constant<int, 16>());
  else if (end - begin >= 8)
    cover(std::integral_constant<int, 8>());
  else if (end - begin >= 4)
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
