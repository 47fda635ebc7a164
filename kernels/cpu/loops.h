// Elementwise loops over strided views on the CPU: a loop nest (kernels/loop_nest.h) cut into
// chunks for the thread pool.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/loop_nest.h"

namespace ferrite::kernels::cpu {

/// Elements a chunk: enough to outweigh handing it to a thread.
inline constexpr std::int64_t kElementGrain = 16384;

/// Calls run(offsets, strides, count) for innermost runs: offsets and strides in elements, one a
/// view. Runs on several threads; every element is visited once.
template <std::size_t N, class Run>
void for_each_run(const std::array<const View*, N>& views, Run&& run,
                  std::int64_t grain = kElementGrain) {
  const LoopNest<N> nest(views);
  const int inner = nest.ndim - 1;
  parallel_for(nest.numel, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, kMaxDims> index{};
    std::array<std::int64_t, N> offsets{};
    std::int64_t rest = begin;
    for (int d = inner; d >= 0; --d) {
      index[d] = rest % nest.sizes[d];
      rest /= nest.sizes[d];
      for (std::size_t k = 0; k < N; ++k) offsets[k] += index[d] * nest.strides[d][k];
    }
    while (begin < end) {
      const std::int64_t count = std::min(nest.sizes[inner] - index[inner], end - begin);
      run(offsets, nest.strides[inner], count);
      begin += count;
      // Step to the start of the next innermost run.
      for (std::size_t k = 0; k < N; ++k) offsets[k] -= index[inner] * nest.strides[inner][k];
      index[inner] = 0;
      for (int d = inner - 1; d >= 0; --d) {
        for (std::size_t k = 0; k < N; ++k) offsets[k] += nest.strides[d][k];
        if (++index[d] < nest.sizes[d]) break;
        for (std::size_t k = 0; k < N; ++k) offsets[k] -= nest.sizes[d] * nest.strides[d][k];
        index[d] = 0;
      }
    }
  });
}

/// out[i] = f(a[i]) with values in the Compute types.
template <class Out, class A, class F>
void map(const View& out, const View& a, F f) {
  Out* o = out.as<Out>();
  const A* x = a.as<A>();
  for_each_run<2>({&out, &a}, [=](const auto& at, const auto& step, std::int64_t n) {
    Out* po = o + at[0];
    const A* pa = x + at[1];
    if (step[0] == 1 && step[1] == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i)
        po[i] = static_cast<Out>(f(static_cast<Compute<A>>(pa[i])));
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        po[i * step[0]] = static_cast<Out>(f(static_cast<Compute<A>>(pa[i * step[1]])));
    }
  });
}

/// out[i] = f(a[i], b[i]) with values in the Compute types.
template <class Out, class A, class B, class F>
void map(const View& out, const View& a, const View& b, F f) {
  Out* o = out.as<Out>();
  const A* x = a.as<A>();
  const B* y = b.as<B>();
  for_each_run<3>({&out, &a, &b}, [=](const auto& at, const auto& step, std::int64_t n) {
    Out* po = o + at[0];
    const A* pa = x + at[1];
    const B* pb = y + at[2];
    const auto one = [&](std::int64_t io, std::int64_t ia, std::int64_t ib) {
      po[io] =
          static_cast<Out>(f(static_cast<Compute<A>>(pa[ia]), static_cast<Compute<B>>(pb[ib])));
    };
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) one(i, i, i);
    } else if (step[0] == 1 && step[1] == 1 && step[2] == 0) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) one(i, i, 0);
    } else if (step[0] == 1 && step[1] == 0 && step[2] == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) one(i, 0, i);
    } else {
      for (std::int64_t i = 0; i < n; ++i) one(i * step[0], i * step[1], i * step[2]);
    }
  });
}

}  // namespace ferrite::kernels::cpu
