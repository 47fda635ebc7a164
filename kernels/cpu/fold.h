// Neighbours in memory folded into one value: side by side in lanes, which are folded by halves in
// the end. The order depends on the number of elements alone, not on the size of a register.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu {

/// Lanes that a run of neighbours is folded in.
inline constexpr int kFoldLanes = 32;

/// Folds W lanes by halves with combine(lane, lane) into one. Each half takes in what of the last
/// n % W elements, those at x, fills it, with step(lane, element).
template <std::size_t W, class Lane, class Elem, class Step, class Combine>
[[gnu::always_inline]] inline Lane fold_halves(const Lane (&lanes)[W], const Elem* x,
                                               std::int64_t n, Step step, Combine combine) {
  if constexpr (W == 1) {
    return lanes[0];
  } else {
    constexpr std::size_t kHalf = W / 2;
    Lane half[kHalf];
    for (std::size_t j = 0; j < kHalf; ++j) half[j] = combine(lanes[j], lanes[j + kHalf]);
    if (n & kHalf) {
      for (std::size_t j = 0; j < kHalf; ++j) half[j] = step(half[j], x[j]);
      x += kHalf;
    }
    return fold_halves(half, x, n, step, combine);
  }
}

namespace detail {

/// fold_halves() of the W lanes of a register, or of a part of one.
template <int W, class T, class F>
Compute<T> fold_register(const Lanes<Compute<T>, W>& v, const T* x, std::int64_t n, F f) {
  using C = Compute<T>;
  if constexpr (W == 1) {
    return v;
  } else {
    constexpr int kHalf = W / 2;
    Lanes<C, kHalf> half;
    if constexpr (kHalf == 1)
      half = f(v[0], v[1]);
    else
      [&]<int... I>(std::integer_sequence<int, I...>) {
        half =
            f(__builtin_shufflevector(v, v, I...), __builtin_shufflevector(v, v, (kHalf + I)...));
      }
    (std::make_integer_sequence<int, kHalf>());
    if (n & kHalf) {
      half = f(half, load<kHalf>(x));
      x += kHalf;
    }
    return fold_register<kHalf>(half, x, n, f);
  }
}

template <int N, class T, class F>
Compute<T> fold_registers(Vector<Compute<T>>* lanes, const T* x, std::int64_t n, F f) {
  constexpr int W = kLanes<Compute<T>>;
  if constexpr (N == 1) {
    return fold_register<W>(lanes[0], x, n, f);
  } else {
    constexpr int kHalf = N / 2;
    for (int j = 0; j < kHalf; ++j) lanes[j] = f(lanes[j], lanes[j + kHalf]);
    if (n & (kHalf * W)) {
      for (int j = 0; j < kHalf; ++j) lanes[j] = f(lanes[j], load<W>(x + j * W));
      x += kHalf * W;
    }
    return fold_registers<kHalf>(lanes, x, n, f);
  }
}

}  // namespace detail

/// A run of numbers folded by f, which takes two numbers or two vectors of them.
template <class T, class F>
[[gnu::flatten]] Compute<T> fold_run(const T* x, std::int64_t n, Compute<T> neutral, F f) {
  using V = Vector<Compute<T>>;
  constexpr int W = kLanes<Compute<T>>, N = kFoldLanes / W;
  V lanes[N];
  for (V& v : lanes) v = neutral - V{};
  std::int64_t i = 0;
  for (; i + kFoldLanes <= n; i += kFoldLanes)
    for (int j = 0; j < N; ++j) lanes[j] = f(lanes[j], load<W>(x + i + j * W));
  return detail::fold_registers<N>(lanes, x + i, n, f);
}

/// The greater; NaN is left to what follows.
template <class V>
V greater(const V& a, const V& b) {
  return b > a ? b : a;
}

template <class T>
Compute<T> largest(const T* x, std::int64_t n) {
  return fold_run(x, n, -std::numeric_limits<Compute<T>>::infinity(),
                  [](const auto& a, const auto& b) { return greater(a, b); });
}
template <class T>
Compute<T> sum_of(const T* x, std::int64_t n) {
  return fold_run(x, n, 0, [](const auto& a, const auto& b) { return a + b; });
}

}  // namespace ferrite::kernels::cpu
