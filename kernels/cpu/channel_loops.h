// Loops over [outer, channels, inner] as batch norm sees its input: sums a channel, and elementwise
// work with a channel's parameters. With inner == 1 lanes are channels, otherwise they are
// neighbours of one channel; the same step serves both, since parameters are lanes in one case and
// a number in the other.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "core/parallel_for.h"
#include "kernels/cpu/lanes.h"
#include "kernels/norm.h"

namespace ferrite::kernels::cpu {

template <class S, int W, std::size_t K>
using Sums = std::array<Lanes<S, W>, K>;

/// Some rows of W neighbouring channels (inner == 1).
template <class S, int W>
struct RowsPart {
  using Value = Lanes<S, W>;
  std::int64_t channels, channel, begin, end;

  Value param(const S* p) const { return load<W>(p + channel); }
  S count() const { return static_cast<S>(end - begin); }

  /// step(width, at, sums) adds the W elements from `at`. Four chains hide the adds' latency.
  template <std::size_t K, class Step>
  Sums<S, W, K> sums(Step&& step) const {
    constexpr std::integral_constant<int, W> width;
    Sums<S, W, K> chains[4] = {};
    std::int64_t r = begin;
    const auto at = [&](std::int64_t row) { return row * channels + channel; };
    for (; r + 4 <= end; r += 4)
      for (int k = 0; k < 4; ++k) step(width, at(r + k), chains[k]);
    for (; r < end; ++r) step(width, at(r), chains[0]);
    for (std::size_t k = 0; k < K; ++k)
      chains[0][k] = (chains[0][k] + chains[1][k]) + (chains[2][k] + chains[3][k]);
    return chains[0];
  }
};

/// Some values of one channel: [begin, end) of all outer * inner.
template <class S>
struct RunsPart {
  using Value = S;
  ChannelLayout layout;
  std::int64_t channel, begin, end;

  S param(const S* p) const { return p[channel]; }
  S count() const { return static_cast<S>(end - begin); }

  template <std::size_t K, class Step>
  Sums<S, 1, K> sums(Step&& step) const {
    constexpr std::integral_constant<int, 16> wide;
    constexpr std::integral_constant<int, 4> narrow;
    constexpr std::integral_constant<int, 1> single;
    Sums<S, 16, K> chains[4] = {};
    Sums<S, 4, K> fours = {};
    Sums<S, 1, K> ones = {};
    for (std::int64_t v = begin; v < end;) {
      const std::int64_t inside = v % layout.inner;
      const std::int64_t n = std::min(layout.inner - inside, end - v);
      const std::int64_t at =
          (v / layout.inner * layout.channels + channel) * layout.inner + inside;
      std::int64_t i = 0;
      for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; ++k) step(wide, at + i + 16 * k, chains[k]);
      for (int k = 0; i + 16 <= n; i += 16, ++k) step(wide, at + i, chains[k]);
      for (; i + 4 <= n; i += 4) step(narrow, at + i, fours);
      for (; i < n; ++i) step(single, at + i, ones);
      v += n;
    }
    for (std::size_t k = 0; k < K; ++k) {
      auto lanes = (chains[0][k] + chains[1][k]) + (chains[2][k] + chains[3][k]);
      for (int half = 8; half >= 4; half /= 2)
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      for (int l = 0; l < 4; ++l) fours[k][l] += lanes[l];
      ones[k] += (fours[k][0] + fours[k][1]) + (fours[k][2] + fours[k][3]);
    }
    return ones;
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
        values_(static_cast<std::size_t>(results * pieces_ * layout.channels)) {}

  std::int64_t pieces() const { return pieces_; }
  /// Values a channel in a piece.
  std::int64_t size(std::int64_t piece) const {
    return std::min(piece_, layout_.count() - piece * piece_);
  }
  double get(int result, std::int64_t piece, std::int64_t channel) const {
    return values_[at(result, piece, channel)];
  }

  /// body(part, put) for every part of every piece; put(k, value) hands over result k.
  template <class S, class Body>
  void compute(Body&& body) {
    if (values_.empty()) return;
    if (layout_.inner == 1) {
      const std::int64_t grain = std::max<std::int64_t>(1, 32768 / (piece_ * layout_.channels));
      parallel_for(pieces_, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b)
          for_blocks(0, layout_.channels, [&](std::int64_t c, auto width) {
            const RowsPart<S, width> part{layout_.channels, c, b * piece_, b * piece_ + size(b)};
            body(part, [&](int k, const Lanes<S, width>& v) {
              S lanes[width];
              store<width>(lanes, v);
              std::copy_n(lanes, int{width}, values_.begin() + difference(k, b, c));
            });
          });
      });
    } else {
      parallel_for(pieces_ * layout_.channels, 32768 / size(0),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t c = i / pieces_, b = i % pieces_;
                       const RunsPart<S> part{layout_, c, b * piece_, b * piece_ + size(b)};
                       body(part, [&](int k, S v) { values_[at(k, b, c)] = v; });
                     }
                   });
    }
  }

 private:
  std::size_t at(int result, std::int64_t piece, std::int64_t channel) const {
    return static_cast<std::size_t>((result * pieces_ + piece) * layout_.channels + channel);
  }
  std::ptrdiff_t difference(int result, std::int64_t piece, std::int64_t channel) const {
    return static_cast<std::ptrdiff_t>(at(result, piece, channel));
  }

  ChannelLayout layout_;
  std::int64_t piece_, pieces_;
  std::vector<double> values_;
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
