// What runs along a dimension in a scan, for the kernels of every kind of device: the state of each
// scan, the state of one element, and how two neighbouring states join.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ferrite/core/host_device.h"

namespace ferrite::kernels {

/// float32 is added and multiplied in double; integers wrap around.
template <class E>
using ScanNumber = std::conditional_t<std::is_floating_point_v<E>, double, std::uint64_t>;
/// What is stored of it.
template <class E>
using ScanResult = std::conditional_t<std::is_floating_point_v<E>, double, std::int64_t>;

template <class E>
struct SumScan {
  using State = ScanNumber<E>;
  using Result = ScanResult<E>;
  static constexpr bool kGivesIndex = false;
  static FERRITE_HOST_DEVICE State identity() { return 0; }
  static FERRITE_HOST_DEVICE State of(E x, std::int64_t) { return static_cast<State>(x); }
  static FERRITE_HOST_DEVICE Result result(const State& s) { return static_cast<Result>(s); }
  FERRITE_HOST_DEVICE State operator()(const State& a, const State& b) const { return a + b; }
};

template <class E>
struct ProductScan : SumScan<E> {
  using State = ScanNumber<E>;
  static FERRITE_HOST_DEVICE State identity() { return 1; }
  FERRITE_HOST_DEVICE State operator()(const State& a, const State& b) const { return a * b; }
};

/// log(sum(exp)).
template <class E>
struct LogSumScan : SumScan<E> {
  using State = double;
  using Result = double;
  static FERRITE_HOST_DEVICE State identity() { return -std::numeric_limits<double>::infinity(); }
  static FERRITE_HOST_DEVICE State of(E x, std::int64_t) { return static_cast<State>(x); }
  static FERRITE_HOST_DEVICE Result result(const State& s) { return s; }
  FERRITE_HOST_DEVICE State operator()(const State& a, const State& b) const {
    const double high = a < b ? b : a, low = a < b ? a : b;
    if (high != high || low != low) return high + low;
    return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
  }
};

/// The place of the extremum so far: the last of equal elements, the last NaN.
template <class E, bool kMax>
struct ExtremumScan {
  struct alignas(16) State {  // read and written at once
    E value;
    std::int64_t index;
  };
  using Result = std::int64_t;
  static constexpr bool kGivesIndex = true;
  static FERRITE_HOST_DEVICE State identity() { return {E(0), -1}; }
  static FERRITE_HOST_DEVICE State of(E x, std::int64_t i) { return {x, i}; }
  static FERRITE_HOST_DEVICE Result result(const State& s) { return s.index; }
  FERRITE_HOST_DEVICE State operator()(const State& a, const State& b) const {
    if (b.index < 0) return a;
    if (a.index < 0 || b.value != b.value) return b;
    const bool later = kMax ? b.value >= a.value : b.value <= a.value;
    return later ? b : a;
  }
};

}  // namespace ferrite::kernels
