// What the pooling kernels share: tables of windows, and loops over lanes that the compiler turns
// into vectors. Lanes are neighbours in memory: channels in NHWC, columns in NCHW.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/parallel_for.h"
#include "kernels/pool.h"

namespace ferrite::kernels::cpu {

/// Channels or columns a pass, held in registers or the nearest cache.
inline constexpr int kLanes = 64;

/// Rows of `work` elements each that make a chunk for the thread pool.
inline std::int64_t grain_of(std::int64_t work) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, work));
}

/// All windows along one dimension.
inline std::vector<PoolAxis::Window> windows_of(const PoolAxis& axis) {
  std::vector<PoolAxis::Window> windows;
  windows.reserve(static_cast<std::size_t>(axis.output));
  for (std::int64_t o = 0; o < axis.output; ++o) windows.push_back(axis.window(o));
  return windows;
}

/// The windows that hold an input cell along one dimension, and its place in each.
class Holders {
 public:
  struct Holder {
    std::int64_t output;
    std::int64_t place;
  };

  explicit Holders(const PoolAxis& axis) : begin_(static_cast<std::size_t>(axis.input) + 1) {
    const std::int64_t step = axis.adaptive ? 1 : axis.dilation;
    const auto windows = windows_of(axis);
    for (const auto& w : windows)
      for (std::int64_t k = 0; k < w.count; ++k) ++begin_[index(w.first + k * step) + 1];
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    holders_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::int64_t o = 0; o < axis.output; ++o) {
      const auto& w = windows[index(o)];
      for (std::int64_t k = 0; k < w.count; ++k)
        holders_[next[index(w.first + k * step)]++] = {o, w.skip + k};
    }
  }

  /// In rising order of output.
  std::span<const Holder> operator[](std::int64_t input) const {
    return std::span(holders_).subspan(begin_[index(input)],
                                       begin_[index(input) + 1] - begin_[index(input)]);
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::vector<std::size_t> begin_;
  std::vector<Holder> holders_;
};

/// 2 x 2 windows side by side that all lie inside: the case of small networks, worth its own loops.
inline bool is_halving(const Pool2d& p) {
  const auto halves = [](const PoolAxis& a) {
    return !a.adaptive && a.kernel == 2 && a.stride == 2 && a.padding == 0 && a.dilation == 1 &&
           2 * a.output <= a.input;
  };
  return halves(p.h) && halves(p.w);
}

/// Calls f(first, width) with compile-time widths so that [0, n) is covered. The last block of a
/// width overlaps the one before it where n is no multiple: f must be able to run twice.
template <class F>
void for_blocks(std::int64_t n, F&& f) {
  const auto cover = [&](auto width) {
    std::int64_t i = 0;
    for (; i + width <= n; i += width) f(i, width);
    if (i < n) f(n - width, width);
  };
  if (n >= 16)
    cover(std::integral_constant<int, 16>());
  else if (n >= 8)
    cover(std::integral_constant<int, 8>());
  else if (n >= 4)
    cover(std::integral_constant<int, 4>());
  else
    cover(std::integral_constant<int, 1>());
}

/// The halving case: calls row(out, in) for each row of results, in elements: the offset of the
/// row and of the upper left input cell of its first window. Several threads.
template <class Row>
void for_each_halving_row(const Pool2d& p, Row&& row) {
  const std::int64_t lanes = p.channels_last ? p.channels : 1;
  const std::int64_t planes = p.channels_last ? p.batch : p.batch * p.channels;
  const std::int64_t in_row = p.w.input * lanes, out_row = p.w.output * lanes;
  parallel_for(planes, grain_of(p.h.input * in_row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane)
      for (std::int64_t oh = 0; oh < p.h.output; ++oh)
        row((plane * p.h.output + oh) * out_row, (plane * p.h.input + 2 * oh) * in_row);
  });
}

/// The halving case backward: as for_each_halving_row(), after zeroing the last column and row of
/// `grad_in` where the sizes are odd.
template <class T, class Row>
void for_each_halving_row_backward(const Pool2d& p, T* grad_in, Row&& row) {
  const std::int64_t lanes = p.channels_last ? p.channels : 1;
  const std::int64_t in_row = p.w.input * lanes, used = 2 * p.w.output * lanes;
  for_each_halving_row(p, [&](std::int64_t out, std::int64_t in) {
    row(out, in);
    T* top = grad_in + in;
    std::fill(top + used, top + in_row, T(0));
    std::fill(top + in_row + used, top + 2 * in_row, T(0));
    const std::int64_t next = in / in_row + 2;
    if (p.h.input - next % p.h.input == 1) std::fill(top + 2 * in_row, top + 3 * in_row, T(0));
  });
}

}  // namespace ferrite::kernels::cpu
