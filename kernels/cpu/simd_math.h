// Mathematics on the vectors of simd.h, a lane at a time as far as results go: the bits of a lane
// depend on that lane's input alone, never on its place in memory or in the register. Eigen's
// arrays of fixed size compute it.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <unsupported/Eigen/SpecialFunctions>

#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu::simd {

/// What a lane of the vector V is.
template <class V>
using Lane = std::remove_cvref_t<decltype(V{}[0])>;

/// Every lane `value`.
template <class V>
V all(double value) {
  return static_cast<Lane<V>>(value) - V{};  // less 0: the sign of a zero stays
}

/// f of the lanes as an array. Inlined always: a call would cost more than some functions do. No
/// copies: GCC makes them of halves, and to load what two stores wrote takes as long as some
/// functions do.
template <class V, class F>
[[gnu::always_inline]] inline V of_array(const V& x, F f) {
  using T = Lane<V>;
  using Array = Eigen::Array<T, sizeof(V) / sizeof(T), 1>;
  V y;
  Eigen::Map<Array, sizeof(V)>(reinterpret_cast<T*>(&y)) =
      f(Eigen::Map<const Array, sizeof(V)>(reinterpret_cast<const T*>(&x)));
  return y;
}

#define FERRITE_SIMD_FUNCTION(name)                                     \
  template <class V>                                                    \
  [[gnu::always_inline]] inline V name(const V& x) {                    \
    return of_array(x, [](const auto& array) { return array.name(); }); \
  }
FERRITE_SIMD_FUNCTION(abs)
FERRITE_SIMD_FUNCTION(floor)
FERRITE_SIMD_FUNCTION(ceil)
FERRITE_SIMD_FUNCTION(log1p)
FERRITE_SIMD_FUNCTION(sin)
FERRITE_SIMD_FUNCTION(cos)
FERRITE_SIMD_FUNCTION(tanh)
FERRITE_SIMD_FUNCTION(erf)
#undef FERRITE_SIMD_FUNCTION

// Eigen's AVX-512 square root is NaN at infinity; the instruction itself is exact.
template <class V>
V sqrt(V x) {
  for (std::size_t i = 0; i < sizeof x / sizeof x[0]; ++i) x[i] = std::sqrt(x[i]);
  return x;
}

template <class V>
V log(const V& x) {
  using T = Lane<V>;
  // Eigen takes numbers below the smallest normal one for that.
  constexpr int kShift = std::numeric_limits<T>::digits;
  const auto tiny = x < std::numeric_limits<T>::min();
  const V scaled = tiny ? x * static_cast<T>(std::ldexp(1.0, kShift)) : x;
  return of_array(scaled, [](const auto& a) { return a.log(); }) -
         (tiny ? all<V>(kShift * std::numbers::ln2) : V{});
}

template <class V>
[[gnu::always_inline]] inline V exp(const V& x) {
  // Eigen ends half a power of two too early at the top; below the smallest normal number the
  // result is 0.
  using T = Lane<V>;
  constexpr bool kSingle = sizeof(T) == 4;
  constexpr T low = kSingle ? T(-87.33654) : T(-708.39641853226408);
  const auto large = x > T(kSingle ? 80 : 700);
  const V factor = large ? all<V>(6.235149080811617e27) : all<V>(1);  // exp(64)
  const V y = of_array(large ? x - T(64) : x, [](const auto& a) { return a.exp(); }) * factor;
  return x < low ? V{} : y;
}

template <class V>
V sigmoid(const V& x) {
  return all<V>(1) / (all<V>(1) + simd::exp(-x));
}

/// exp(x) - 1 for x <= 1. Of floats without a logarithm, which Eigen takes.
template <class V>
V expm1_to_1(const V& x) {
  if constexpr (sizeof(Lane<V>) == 8) return of_array(x, [](const auto& a) { return a.expm1(); });
  const V t = simd::tanh(x * all<V>(0.5));
  return (t + t) / (all<V>(1) - t);
}

template <class V>
V expm1(const V& x) {
  return all<V>(1) < x ? simd::exp(x) - all<V>(1) : expm1_to_1(x);
}

/// log(1 + exp(x)).
template <class V>
V softplus(const V& x) {
  // log(1 + e) is 2 artanh(e / (2 + e)), whose argument is at most 1 / 3: as many terms of the
  // series as the type has digits for.
  constexpr int kTerms = sizeof(Lane<V>) == 8 ? 16 : 7;
  const V e = simd::exp(-simd::abs(x));
  const V s = e / (all<V>(2) + e), square = s * s;
  V sum = all<V>(1.0 / (2 * kTerms - 1));
  for (int i = kTerms - 1; i > 0; --i) sum = sum * square + all<V>(1.0 / (2 * i - 1));
  return (x < V{} ? V{} : x) + (s + s) * sum;
}

/// out[i] = f(in[i]...) for contiguous runs; `f` takes and returns vectors. May be in place.
/// Flattened: calls would keep the processor from computing neighbours at once.
template <class T, class F, class... In>
[[gnu::flatten]] void transform(T* out, std::int64_t n, F f, const In*... in) {
  constexpr std::int64_t kStep = kLanes<T>;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) store(out + i, f(load(in + i)...));
  if (i < n) store_partial(out + i, f(load_partial(in + i, n - i)...), n - i);
}

}  // namespace ferrite::kernels::cpu::simd
