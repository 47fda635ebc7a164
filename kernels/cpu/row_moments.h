// Statistics of rows of contiguous elements, as layer and group norm take them.
#pragma once

#include <algorithm>
#include <cmath>

#include "ferrite/kernels/cpu/channel_loops.h"

namespace ferrite::kernels::cpu {

/// A row as the only channel of its own.
template <class S>
RunsPart<S> row_part(std::int64_t row, std::int64_t width) {
  return {{.outer = row + 1, .channels = 1, .inner = width}, 0, row * width, (row + 1) * width};
}

/// Rows that are worth a thread's while.
inline std::int64_t row_grain(std::int64_t width) {
  return std::max<std::int64_t>(1, 16384 / width);
}

template <class S>
struct RowMoments {
  S mean, rstd;
};

/// A row's mean and 1 / sqrt(variance + eps), where a mean that is not `centered` counts as 0.
template <class T>
RowMoments<Compute<T>> row_moments(const T* x, std::int64_t row, std::int64_t width, double eps,
                                   bool centered) {
  using S = Compute<T>;
  const auto part = row_part<S>(row, width);
  const S n = part.count();
  S first = 0;
  if (centered)
    first = part.template sums<1>([&](auto lanes, int, std::int64_t at, auto& sums) {
      sums[0] += load<lanes>(x + at);
    })[0][0] /
            n;
  // The second sum corrects the first one's rounding (Chan, Golub and LeVeque 1983).
  const auto d = part.template sums<2>([&](auto lanes, int, std::int64_t at, auto& sums) {
    const auto v = load<lanes>(x + at) - first;
    sums[0] += v;
    sums[1] += v * v;
  })[0];
  const S off = centered ? d[0] / n : S(0);
  const double var = static_cast<double>(d[1] - d[0] * off) / static_cast<double>(n);
  return {first + off, static_cast<S>(1 / std::sqrt(std::max(var, 0.0) + eps))};
}

}  // namespace ferrite::kernels::cpu
