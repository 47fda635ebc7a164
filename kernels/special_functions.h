// Special functions of one number, the same code on every device, in the precision of T. Constants:
// Abramowitz and Stegun, "Handbook of Mathematical Functions", chapters 6 and 23.
#pragma once

#include <cmath>
#include <limits>

#include "ferrite/core/host_device.h"

namespace ferrite::kernels::special {

/// Above it, the asymptotic series below are as good as float64.
inline constexpr int kAsymptotic = 10;

/// The derivative of lgamma: NaN at negative integers, an infinity of the other sign at 0.
template <class T>
FERRITE_HOST_DEVICE T digamma(T x) {
  constexpr T kPi = T(3.14159265358979323846264338327950288);
  if (x == 0) return std::copysign(std::numeric_limits<T>::infinity(), -x);
  T sum = 0;
  if (x < 0) {  // 6.3.7, with the tangent of what is left after whole periods, at most half of one
    const T rest = x - std::round(x);
    if (!(rest != 0)) return std::numeric_limits<T>::quiet_NaN();  // an integer, or infinite
    sum = -kPi / std::tan(kPi * rest);
    x = 1 - x;
  }
  for (; x < kAsymptotic; x += 1) sum -= 1 / x;  // 6.3.5
  // 6.3.18: Bernoulli numbers B(2k) / 2k.
  constexpr double kTerms[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const T w = 1 / (x * x);
  T series = 0;
  for (int k = 6; k >= 0; --k) series = (series + static_cast<T>(kTerms[k])) * w;
  return sum + std::log(x) - T(0.5) / x - series;
}

/// The sum of (q + k)^-s over k = 0, 1, ...; s is an integer of 2 or more, q above 0.
template <class T>
FERRITE_HOST_DEVICE T positive_zeta(int s, T q) {
  // 23.1.30 (Euler and Maclaurin) from the tenth term on: B(2k) / (2k)!.
  constexpr double kTerms[] = {1.0 / 12,          -1.0 / 720,
                               1.0 / 30240,       -1.0 / 1209600,
                               1.0 / 47900160,    -691.0 / 1307674368000,
                               1.0 / 74724249600, -3617.0 / 10670622842880000};
  const T a = q + kAsymptotic, w = 1 / (a * a);
  T factor = static_cast<T>(s) / a, series = T(0.5) + a / static_cast<T>(s - 1);
  for (int k = 0; k < 8; ++k) {
    series += static_cast<T>(kTerms[k]) * factor;
    factor *= static_cast<T>(s + 2 * k + 1) * static_cast<T>(s + 2 * k + 2) * w;
  }
  const T exponent = static_cast<T>(-s);
  T sum = std::pow(a, exponent);
  if (sum > 0) sum *= series;
  for (int k = kAsymptotic - 1; k >= 0; --k) sum += std::pow(q + static_cast<T>(k), exponent);
  return sum;
}

/// The same for any q (the zeta function of Hurwitz): infinite at 0 and at negative integers.
template <class T>
FERRITE_HOST_DEVICE T zeta(int s, T q) {
  if (!(q <= 0)) return positive_zeta(s, q);
  // From the term next to 0 on, upwards, and downwards to q.
  const T steps = std::round(-q), next = q + steps;
  if (!(next != 0)) return std::numeric_limits<T>::infinity();
  T below = steps == 0 ? T(0) : positive_zeta(s, 1 - next) - positive_zeta(s, 1 - q);
  if (s % 2 != 0) below = -below;
  return std::pow(next, static_cast<T>(-s)) + positive_zeta(s, 1 + next) + below;
}

/// The n-th derivative of digamma (6.4.10); for n = 0 digamma.
template <class T>
FERRITE_HOST_DEVICE T polygamma(int n, T x) {
  if (n == 0) return digamma(x);
  T factorial = n % 2 == 0 ? T(-1) : T(1);
  for (int k = 2; k <= n && factorial - factorial == 0; ++k) factorial *= static_cast<T>(k);
  return factorial * zeta(n + 1, x);
}

/// The inverse of erf: infinite at -1 and 1, NaN beyond.
template <class T>
FERRITE_HOST_DEVICE T erfinv(T y) {
  const T size = std::abs(y);
  if (!(size < 1))
    return size == 1 ? y * std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
  constexpr T kHalfRootPi = T(0.886226925452758013649083741670572591);
  T x;
  if (size <= T(0.5)) {  // the inverse's series at 0
    const T w = size * size;
    x = size * (T(0.886226925452758) + w * (T(0.232013666534654) + w * T(0.127556175305598)));
  } else {  // Winitzki, "A handy approximation for the error function and its inverse", 2008
    constexpr T kA = T(0.147), kB = T(4.330746750799873);  // 2 / (pi a)
    const T log = std::log((1 - size) * (1 + size)), half = kB + log / 2;
    x = std::sqrt(std::sqrt(half * half - log / kA) - half);
  }
  // Halley's method twice; in the tail by erfc, whose digits do not cancel.
  for (int i = 0; i < 2; ++i) {
    const T error = size <= T(0.5) ? std::erf(x) - size : (1 - size) - std::erfc(x);
    const T step = error * kHalfRootPi * std::exp(x * x);
    x -= step / (1 + x * step);
  }
  return std::copysign(x, y);
}

}  // namespace ferrite::kernels::special
