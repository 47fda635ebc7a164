// Loops over [outer, channels, inner] as batch norm sees its input: sums a channel, and elementwise
// work with a channel's parameters. With inner == 1 lanes are channels, otherwise they are
// neighbours of one channel; the same step serves both, since parameters are lanes in one case and
// a number in the other.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/pack.h"
#include "ferrite/kernels/cpu/simd.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cpu {

template <class S, int W, std::size_t K>
using Sums = std::array<Lanes<S, W>, K>;

/// Lanes of a loop over many elements: a register of float, in which comparisons and ?: are fast.
inline constexpr int kWide = kLanes<float>;

/// Some rows of V times W neighbouring channels (inner == 1). What is made of channels comes as V
/// vectors.
template <class S, int W, int V>
struct RowsPart {
  static constexpr int kVectors = V;
  std::int64_t channels, channel, begin, end;

  std::array<Lanes<S, W>, V> param(const S* p) const {
    std::array<Lanes<S, W>, V> values;
    for (int v = 0; v < V; ++v) values[v] = load<W>(p + channel + W * v);
    return values;
  }
  S count() const { return static_cast<S>(end - begin); }

  /// step(width, v, at, sums) adds the W elements from `at` to the sums of vector v. Row by row, as
  /// memory lies; four chains hide the adds' latency.
  template <std::size_t K, class Step>
  std::array<Sums<S, W, K>, V> sums(Step&& step) const {
    constexpr std::integral_constant<int, W> width;
    constexpr int rows = 4 / V;
    Sums<S, W, K> chains[4] = {};
    std::int64_t r = begin;
    const auto at = [&](std::int64_t row, int v) { return row * channels + channel + W * v; };
    for (; r + rows <= end; r += rows)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) step(width, k % V, at(r + k / V, k % V), chains[k]);
    for (; r < end; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) step(width, v, at(r, v), chains[v]);
    std::array<Sums<S, W, K>, V> result;
    for (int v = 0; v < V; ++v)
      for (std::size_t k = 0; k < K; ++k) {
        result[v][k] = chains[v][k];
        if constexpr (V == 1)
          result[v][k] = (chains[0][k] + chains[1][k]) + (chains[2][k] + chains[3][k]);
      }
    return result;
  }

  /// A value within the range of each channel's values: the mean of a few. Sums of squared
  /// deviations from one of n values are at most n times those from the mean.
  template <class T>
  std::array<Lanes<S, W>, V> center(const T* x) const {
    const std::int64_t rows = std::min<std::int64_t>(4, end - begin);
    std::array<Lanes<S, W>, V> result = {};
    for (int v = 0; v < V; ++v) {
      for (std::int64_t r = begin; r < begin + rows; ++r)
        result[v] += load<W>(x + r * channels + channel + W * v);
      result[v] /= static_cast<S>(rows);
    }
    return result;
  }
};

/// Some values of one channel: [begin, end) of all outer * inner.
template <class S>
struct RunsPart {
  static constexpr int kVectors = 1;
  ChannelLayout layout;
  std::int64_t channel, begin, end;

  std::array<S, 1> param(const S* p) const { return {p[channel]}; }
  S count() const { return static_cast<S>(end - begin); }

  template <std::size_t K, class Step>
  std::array<Sums<S, 1, K>, 1> sums(Step&& step) const {
    constexpr std::integral_constant<int, kWide> wide;
    constexpr std::integral_constant<int, 4> narrow;
    constexpr std::integral_constant<int, 1> single;
    Sums<S, kWide, K> chains[4] = {};
    Sums<S, 4, K> fours = {};
    Sums<S, 1, K> ones = {};
    for (std::int64_t v = begin; v < end;) {
      const std::int64_t inside = v % layout.inner;
      const std::int64_t n = std::min(layout.inner - inside, end - v);
      const std::int64_t at =
          (v / layout.inner * layout.channels + channel) * layout.inner + inside;
      std::int64_t i = 0;
      for (; i + 4 * kWide <= n; i += 4 * kWide)
        for (int k = 0; k < 4; ++k) step(wide, 0, at + i + kWide * k, chains[k]);
      for (int k = 0; i + kWide <= n; i += kWide, ++k) step(wide, 0, at + i, chains[k]);
      for (; i + 4 <= n; i += 4) step(narrow, 0, at + i, fours);
      for (; i < n; ++i) step(single, 0, at + i, ones);
      v += n;
    }
    for (std::size_t k = 0; k < K; ++k) {
      fours[k] +=
          fold_lanes<4, S, kWide>((chains[0][k] + chains[1][k]) + (chains[2][k] + chains[3][k]));
      ones[k] += (fours[k][0] + fours[k][1]) + (fours[k][2] + fours[k][3]);
    }
    return {ones};
  }

  /// As of rows: the mean of a share of them.
  template <class T>
  std::array<S, 1> center(const T* x) const {
    RunsPart some = *this;
    some.end = std::min(end, begin + 64);
    const auto total = some.template sums<1>(
        [&](auto width, int, std::int64_t at, auto& sums) { sums[0] += load<width>(x + at); });
    return {total[0][0] / some.count()};
  }
};

/// K sums of every channel in pieces that depend on sizes alone.
class ChannelPieces {
 public:
  ChannelPieces(const ChannelLayout& layout, int results)
      : layout_(layout),
        piece_(layout.inner == 1 ? std::clamp<std::int64_t>(
                                       16384 / std::max<std::int64_t>(layout.channels, 1), 32, 256)
                                 : 8192),
        pieces_((layout.count() + piece_ - 1) / piece_),
        values_(results * pieces_ * layout.channels) {}

  std::int64_t pieces() const { return pieces_; }
  /// Values a channel in a piece.
  std::int64_t size(std::int64_t piece) const {
    return std::min(piece_, layout_.count() - piece * piece_);
  }
  /// One result of a piece, for all channels.
  const double* get(int result, std::int64_t piece) const {
    return values_.data() + (result * pieces_ + piece) * layout_.channels;
  }

  /// body(part, put) for every part of every piece; put(k, values) hands over result k of the
  /// part's channels.
  template <class S, class Body>
  void compute(Body&& body) {
    if (pieces_ * layout_.channels == 0) return;
    const auto to = [&](int k, std::int64_t piece, std::int64_t channel) {
      return values_.data() + (k * pieces_ + piece) * layout_.channels + channel;
    };
    if (layout_.inner == 1) {
      const std::int64_t grain = std::max<std::int64_t>(1, 32768 / (piece_ * layout_.channels));
      parallel_for(pieces_, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          const auto rows = [&]<int W, int V>(std::int64_t c, std::integral_constant<int, W>,
                                              std::integral_constant<int, V>) {
            const RowsPart<S, W, V> part{layout_.channels, c, b * piece_, b * piece_ + size(b)};
            body(part, [&](int k, const auto& values) {
              for (int v = 0; v < V; ++v) {
                S lanes[W];
                store<W>(lanes, values[v]);
                std::copy_n(lanes, W, to(k, b, c + W * v));
              }
            });
          };
          std::int64_t c = 0;
          for (; c + 4 * kWide <= layout_.channels; c += 4 * kWide)
            rows(c, std::integral_constant<int, kWide>(), std::integral_constant<int, 4>());
          for_blocks(c, layout_.channels, [&](std::int64_t at, auto width) {
            rows(at, width, std::integral_constant<int, 1>());
          });
        }
      });
    } else {
      parallel_for(pieces_ * layout_.channels, 32768 / size(0),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t c = i / pieces_, b = i % pieces_;
                       const RunsPart<S> part{layout_, c, b * piece_, b * piece_ + size(b)};
                       body(part, [&](int k, const auto& values) { *to(k, b, c) = values[0]; });
                     }
                   });
    }
  }

 private:
  ChannelLayout layout_;
  std::int64_t piece_, pieces_;
  Scratch<double> values_;
};

/// Elementwise: body(param, loop) for groups of elements; param(p) makes a channel parameter of the
/// array p, and loop(step) calls step(width, at, c) for all W elements from `at`, for which that
/// parameter's value is param(width, c).
template <class S, class Body>
void for_each_channel_run(const ChannelLayout& layout, Body&& body) {
  const std::int64_t channels = layout.channels, inner = layout.inner;
  if (inner == 0 || channels == 0) return;
  if (inner == 1) {
    // Row by row, as memory lies. Several short rows count as one, with the parameters repeated.
    const std::int64_t some = std::clamp<std::int64_t>(channels, 1, 16384);
    const std::int64_t tile = channels < 64 ? 128 / some : 1;
    const auto param = [&](const S* p) {
      std::vector<S> repeated(static_cast<std::size_t>(tile > 1 ? tile * channels : 0));
      for (std::size_t i = 0; i < repeated.size(); ++i)
        repeated[i] = p[i % static_cast<std::size_t>(channels)];
      return [p, repeated = std::move(repeated)](auto width, std::int64_t c) {
        return load<width>((repeated.empty() ? p : repeated.data()) + c);
      };
    };
    parallel_for(layout.outer, 16384 / some, [&](std::int64_t begin, std::int64_t end) {
      body(param, [&](auto&& step) {
        for (std::int64_t r = begin; r < end; r += tile)
          for_blocks(0, std::min(tile, end - r) * channels,
                     [&](std::int64_t c, auto width) { step(width, r * channels + c, c); });
      });
    });
  } else {
    parallel_for(layout.outer * channels, std::max<std::int64_t>(1, 16384 / inner),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t run = begin; run < end; ++run) {
                     const auto param = [&](const S* p) {
                       return [v = p[run % channels]](auto, std::int64_t) { return v; };
                     };
                     body(param, [&](auto&& step) {
                       for_blocks(0, inner, [&](std::int64_t i, auto width) {
                         step(width, run * inner + i, 0);
                       });
                     });
                   }
                 });
  }
}

}  // namespace ferrite::kernels::cpu
