// Arithmetic of two elements as PyTorch defines it, the same code on every device. Integers wrap
// around, and a division by 0 gives 0.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ferrite/core/host_device.h"

namespace ferrite::kernels::elements {

/// In which integers wrap around without undefined overflow.
template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

template <class T>
FERRITE_HOST_DEVICE T add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
FERRITE_HOST_DEVICE T subtract(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
FERRITE_HOST_DEVICE T multiply(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}

template <class T>
FERRITE_HOST_DEVICE bool differ_in_sign(T a, T b) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return (a < 0) != (b < 0);
}

/// Python's floored division: the remainder has the divisor's sign.
template <class T>
FERRITE_HOST_DEVICE T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    // a / b may round up to an integer above the exact quotient: 1 / 0.1 is slightly less than 10.
    if (b == 0) return a / b;
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && differ_in_sign(rest, b)) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    const T floored = std::floor(quotient);
    return quotient - floored > T(0.5) ? floored + 1 : floored;
  } else {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    const T q = static_cast<T>(a / b);
    return a % b != 0 && differ_in_sign(a, b) ? static_cast<T>(q - 1) : q;
  }
}

/// a * 2^b in the bits of T; 0 where b is negative, or not below their number.
template <class T>
FERRITE_HOST_DEVICE T shift_left(T a, T b) {
  constexpr int kBits = 8 * sizeof(T);
  if (b < T(0) || b >= T(kBits)) return T(0);
  return static_cast<T>(static_cast<std::uint64_t>(a) << static_cast<int>(b));
}

/// a / 2^b rounded down; by as many bits as T has, or a negative number, 0 or -1, the sign.
template <class T>
FERRITE_HOST_DEVICE T shift_right(T a, T b) {
  constexpr int kLast = 8 * sizeof(T) - std::is_signed_v<T>;
  if (b < T(0) || b >= T(kLast)) return a < T(0) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(a >> static_cast<int>(b));
}

/// C's remainder, with the dividend's sign.
template <class T>
FERRITE_HOST_DEVICE T truncated_remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(a, b);
  else if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1)))
    return T(0);
  else
    return static_cast<T>(a % b);
}

/// Python's, with the divisor's sign.
template <class T>
FERRITE_HOST_DEVICE T floored_remainder(T a, T b) {
  const T r = truncated_remainder(a, b);
  return r != 0 && differ_in_sign(r, b) ? static_cast<T>(r + b) : r;
}

template <class T>
FERRITE_HOST_DEVICE T power(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(a, b);
  } else {
    if constexpr (std::is_signed_v<T>)
      if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 ? T(-1) : T(1)) : T(0);
    using U = Wrapping<T>;
    U result = 1, base = static_cast<U>(a);
    for (U e = static_cast<U>(b); e; e >>= 1, base *= base)
      if (e & 1) result *= base;
    return static_cast<T>(result);
  }
}

/// a + weight (b - a), from the end that is nearer: a weight of 1 gives b exactly.
template <class T>
FERRITE_HOST_DEVICE T lerp(T a, T b, T weight) {
  const T way = b - a, from_a = a + weight * way, from_b = b - way * (1 - weight);
  return std::abs(weight) < T(0.5) ? from_a : from_b;
}

}  // namespace ferrite::kernels::elements
