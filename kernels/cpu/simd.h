// Vectorised mathematics on Eigen's packets: a packet P is a SIMD register of float or double, on
// which + - * / work, and the functions below. A lane's bits depend on that lane's input alone,
// never on its place in memory or in the register.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <unsupported/Eigen/SpecialFunctions>

// Register types carry an alignment that template arguments drop.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

namespace ferrite::kernels::cpu::simd {

namespace ei = Eigen::internal;

template <class T>
using Packet = typename ei::packet_traits<T>::type;
template <class P>
using Lane = typename ei::unpacket_traits<P>::type;
template <class T>
inline constexpr int kLanes = ei::unpacket_traits<Packet<T>>::size;

template <class T>
Packet<T> load(const T* from) {
  return ei::ploadu<Packet<T>>(from);
}
template <class T, class P>
void store(T* to, const P& packet) {
  ei::pstoreu(to, packet);
}
/// Every lane `value`.
template <class P>
P all(double value) {
  return ei::pset1<P>(static_cast<Lane<P>>(value));
}
template <class P>
P less(const P& a, const P& b) {
  return ei::pcmp_lt(a, b);
}
template <class P>
P less_or_equal(const P& a, const P& b) {
  return ei::pcmp_le(a, b);
}
template <class P>
P abs(const P& x) {
  return ei::pabs(x);
}
/// Lanes of `a` where the mask is set, else of `b`.
template <class P>
P select(const P& mask, const P& a, const P& b) {
  return ei::pselect(mask, a, b);
}

/// f on each lane, for what has no packet form.
template <class P, class F>
P lanewise(const P& x, F f) {
  constexpr int n = ei::unpacket_traits<P>::size;
  alignas(64) Lane<P> lanes[n];
  store(lanes, x);
  for (int i = 0; i < n; ++i) lanes[i] = f(lanes[i]);
  return load(lanes);
}

#define FERRITE_SIMD_FUNCTION(name, trait, packet_form)                 \
  template <class P>                                                    \
  P name(const P& x) {                                                  \
    if constexpr (ei::packet_traits<Lane<P>>::trait)                    \
      return ei::packet_form(x);                                        \
    else                                                                \
      return lanewise(x, [](Lane<P> lane) { return std::name(lane); }); \
  }
FERRITE_SIMD_FUNCTION(floor, HasFloor, pfloor)
FERRITE_SIMD_FUNCTION(ceil, HasCeil, pceil)
FERRITE_SIMD_FUNCTION(log1p, HasLog1p, plog1p)
FERRITE_SIMD_FUNCTION(expm1, HasExpm1, pexpm1)
FERRITE_SIMD_FUNCTION(sin, HasSin, psin)
FERRITE_SIMD_FUNCTION(cos, HasCos, pcos)
FERRITE_SIMD_FUNCTION(tanh, HasTanh, ptanh)
FERRITE_SIMD_FUNCTION(erf, HasErf, perf)
#undef FERRITE_SIMD_FUNCTION

// Eigen's AVX-512 square root is NaN at infinity; the instruction itself is exact.
template <class P>
P sqrt(const P& x) {
  return lanewise(x, [](Lane<P> lane) { return std::sqrt(lane); });
}

template <class P>
P log(const P& x) {
  using T = Lane<P>;
  if constexpr (ei::packet_traits<T>::HasLog) {
    // Eigen takes numbers below the smallest normal one for that.
    constexpr int kShift = std::numeric_limits<T>::digits;
    const P tiny = less(x, all<P>(std::numeric_limits<T>::min()));
    const P scaled = select(tiny, x * all<P>(std::ldexp(1.0, kShift)), x);
    return ei::plog(scaled) - select(tiny, all<P>(kShift * std::numbers::ln2), all<P>(0));
  } else {
    return lanewise(x, [](T lane) { return std::log(lane); });
  }
}

template <class P>
P exp(const P& x) {
  if constexpr (ei::packet_traits<Lane<P>>::HasExp) {
    // Eigen ends half a power of two too early at the top; below the smallest normal number the
    // result is 0.
    constexpr bool kSingle = sizeof(Lane<P>) == 4;
    const P low = all<P>(kSingle ? -87.33654 : -708.39641853226408);
    const P large = less(all<P>(kSingle ? 80 : 700), x);
    const P factor = select(large, all<P>(6.235149080811617e27), all<P>(1));  // exp(64)
    const P y = ei::pexp(select(large, x - all<P>(64), x)) * factor;
    return select(less(x, low), all<P>(0), y);
  } else {
    return lanewise(x, [](Lane<P> lane) { return std::exp(lane); });
  }
}

/// out[i] = f(in[i]) for contiguous runs; `f` takes and returns packets. May be in place.
template <class T, class F>
void transform(T* out, const T* in, std::int64_t n, F f) {
  constexpr std::int64_t kStep = kLanes<T>;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) store(out + i, f(load(in + i)));
  if (i == n) return;
  alignas(64) T rest[kStep] = {};
  std::copy(in + i, in + n, rest);
  store(rest, f(load(rest)));
  std::copy(rest, rest + (n - i), out + i);
}

/// out[i] = f(a[i], b[i])
template <class T, class F>
void transform(T* out, const T* a, const T* b, std::int64_t n, F f) {
  constexpr std::int64_t kStep = kLanes<T>;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) store(out + i, f(load(a + i), load(b + i)));
  if (i == n) return;
  alignas(64) T rest_a[kStep] = {}, rest_b[kStep] = {};
  std::copy(a + i, a + n, rest_a);
  std::copy(b + i, b + n, rest_b);
  store(rest_a, f(load(rest_a), load(rest_b)));
  std::copy(rest_a, rest_a + (n - i), out + i);
}

}  // namespace ferrite::kernels::cpu::simd
