// Functions on contiguous float or double runs, applied to views of any floating dtype and any
// strides: what is not contiguous in that type goes through a small buffer.
#pragma once

#include <algorithm>

#include "ferrite/kernels/cpu/half_runs.h"
#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

inline constexpr std::int64_t kBlock = 256;

/// n elements of a run into `to`.
template <class T, class C>
void gather(C* to, const T* from, std::int64_t step, std::int64_t n) {
  if constexpr (is_half_type<T>) {
    if (step == 1) return widen(to, from, n);
  }
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}
template <class T, class C>
void scatter(T* to, std::int64_t step, const C* from, std::int64_t n) {
  if constexpr (is_half_type<T>) {
    if (step == 1) return narrow(to, from, n);
  }
  for (std::int64_t i = 0; i < n; ++i) to[i * step] = static_cast<T>(from[i]);
}

/// out = f(in), where f(C* out, const C* in, n) works on contiguous runs, in place too.
template <class T, class F>
void map_blocks(const View& out, const View& in, F f) {
  using C = Compute<T>;
  T* o = out.as<T>();
  const T* x = in.as<T>();
  for_each_run<2>({&out, &in}, [=](const auto& at, const auto& step, std::int64_t n) {
    if constexpr (!is_half_type<T>) {
      if (step[0] == 1 && step[1] == 1) return f(o + at[0], x + at[1], n);
    }
    alignas(64) C buffer[kBlock];
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t m = std::min(kBlock, n - i);
      gather(buffer, x + at[1] + i * step[1], step[1], m);
      f(buffer, static_cast<const C*>(buffer), m);
      scatter(o + at[0] + i * step[0], step[0], buffer, m);
    }
  });
}

/// out = f(a, b), where f(C* out, const C* a, const C* b, n) works on contiguous runs.
template <class T, class F>
void map_blocks(const View& out, const View& a, const View& b, F f) {
  using C = Compute<T>;
  T* o = out.as<T>();
  const T* x = a.as<T>();
  const T* y = b.as<T>();
  for_each_run<3>({&out, &a, &b}, [=](const auto& at, const auto& step, std::int64_t n) {
    if constexpr (!is_half_type<T>) {
      if (step[0] == 1 && step[1] == 1 && step[2] == 1)
        return f(o + at[0], x + at[1], y + at[2], n);
    }
    alignas(64) C buffer_a[kBlock], buffer_b[kBlock];
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t m = std::min(kBlock, n - i);
      gather(buffer_a, x + at[1] + i * step[1], step[1], m);
      gather(buffer_b, y + at[2] + i * step[2], step[2], m);
      f(buffer_a, static_cast<const C*>(buffer_a), static_cast<const C*>(buffer_b), m);
      scatter(o + at[0] + i * step[0], step[0], buffer_a, m);
    }
  });
}

}  // namespace ferrite::kernels::cpu
