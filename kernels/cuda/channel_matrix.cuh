// Batch norm's input [outer, channels, inner] as a matrix of packs whose rows have equal alignment,
// and the tiles of it that blocks work on.
//
// By rows, a row is one channel's run of `inner` elements. By columns, a row is one image, or
// several images joined so that their length is a multiple of the pack, and a column belongs to one
// channel. This form is used for NHWC, and for NCHW if runs are short or their length is not a
// multiple of the pack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ferrite/core/dtype.h"
#include "ferrite/core/error.h"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileBlocks = 2;  // minimum per multiprocessor: 128 registers per thread
/// The number of rows per thread is a multiple of this.
inline constexpr int kTileUnroll = 4;

struct ChannelMatrix {
  bool by_rows = false;
  int pack = 1;    // elements
  int joined = 1;  // images per row
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // elements per row
  std::int64_t packs() const { return columns / pack; }
};

/// The form for elements of `itemsize` bytes, `pack` of which fill a wide access that all operands
/// are `aligned` for. `least_rows`: the number of rows from which the form by columns pays.
inline ChannelMatrix channel_matrix(const ChannelLayout& layout, std::size_t itemsize, int pack,
                                    bool aligned, std::int64_t least_rows) {
  constexpr std::int64_t kShortRun = 128;  // bytes: shorter ones waste parts of memory sectors
  const std::int64_t outer = layout.outer, channels = layout.channels, inner = layout.inner;
  const std::int64_t image = channels * inner;
  const ChannelMatrix runs{
      .by_rows = true, .pack = 1, .joined = 1, .rows = outer * channels, .columns = inner};
  const auto joined = static_cast<int>(pack / std::gcd<std::int64_t>(pack, image));
  const bool columns_fit = aligned && outer % joined == 0 && image * joined <= INT32_MAX &&
                           (inner == 1 || outer / joined >= least_rows);
  if (aligned && inner > 1 && inner % pack == 0 &&
      (inner * static_cast<std::int64_t>(itemsize) >= kShortRun || !columns_fit)) {
    ChannelMatrix wide = runs;
    wide.pack = pack;
    return wide;
  }
  if (columns_fit)
    return {.by_rows = false,
            .pack = pack,
            .joined = joined,
            .rows = outer / joined,
            .columns = image * joined};
  if (inner > 1) return runs;
  return {.by_rows = false, .pack = 1, .joined = 1, .rows = outer, .columns = image};
}

/// Blocks of `width` packs by `height` rows; each thread handles several consecutive rows.
struct Tiles {
  std::int64_t rows = 0, packs = 0, rows_per_block = 0;
  unsigned width = 1, height = 1;
  unsigned across = 1;  // blocks along a row
  unsigned down = 1;

  Tiles(const ChannelMatrix& m, std::int64_t widest) : rows(m.rows), packs(m.packs()) {
    across = blocks_for(packs, widest);
    width = blocks_for(packs, across);
    height = static_cast<unsigned>(kTileThreads) / width;
  }
  void cut(std::int64_t rows_per_thread) {
    rows_per_block = rows_per_thread * height;
    down = blocks_for(rows, rows_per_block);
  }
  unsigned blocks() const { return across * down; }
};

/// Maps a column or row to its channel.
struct ChannelOf {
  Divisor inner, channels;
  bool consecutive = false;  // the channels of a pack are consecutive and aligned to a pack

  __device__ std::uint32_t column(std::uint32_t c) const {
    c = inner.quotient(c);
    return channels.split(c);
  }
  __device__ std::uint32_t row(std::uint32_t r) const { return channels.split(r); }
};

/// Whether the parameters `p` (null: absent) can be read in packs.
template <class... S>
bool params_aligned(const S*... p) {
  return (... && (reinterpret_cast<std::uintptr_t>(p) % kPackBytes == 0));
}

inline ChannelOf channel_of(const ChannelLayout& layout, const ChannelMatrix& m, bool aligned) {
  return {Divisor(static_cast<std::uint32_t>(layout.inner)),
          Divisor(static_cast<std::uint32_t>(layout.channels)),
          !m.by_rows && layout.inner == 1 && m.joined == 1 && aligned};
}

/// values = p[0] to p[W - 1], where `p` is aligned to kPackBytes.
template <int W, class S>
__device__ __forceinline__ void load_params(S (&values)[W], const S* p) {
  constexpr int kWide =
      static_cast<int>(kPackBytes / sizeof(S)) < W ? static_cast<int>(kPackBytes / sizeof(S)) : W;
#pragma unroll
  for (int k = 0; k < W; k += kWide) {
    const Pack<S, kWide> some = load_pack<kWide>(p + k);
#pragma unroll
    for (int i = 0; i < kWide; ++i) values[k + i] = some.v[i];
  }
}

/// The channels of W adjacent columns, or (W == 1) one channel.
template <int W>
struct ChannelsAt {
  std::uint32_t at[W];
  bool consecutive;

  /// The values of the parameter `p`; `otherwise` if it is absent.
  template <class S>
  __device__ void get(S (&values)[W], const S* p, S otherwise = 0) const {
    if (p == nullptr) {
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = otherwise;
    } else if (W > 1 && consecutive) {
      load_params(values, p + at[0]);
    } else {
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = p[at[i]];
    }
  }
};

template <int V>
__device__ __forceinline__ ChannelsAt<V> channels_of_columns(const ChannelOf& channel,
                                                             std::uint32_t column) {
  ChannelsAt<V> channels;
  channels.consecutive = channel.consecutive;
#pragma unroll
  for (int i = 0; i < V; ++i)
    channels.at[i] = channel.consecutive ? column + static_cast<std::uint32_t>(i)
                                         : channel.column(column + static_cast<std::uint32_t>(i));
  return channels;
}

/// Sizes that 32-bit arithmetic inside the kernels relies on.
inline void check_channels(const char* name, const ChannelLayout& layout, const ChannelMatrix& m) {
  FERRITE_CHECK(layout.channels <= INT32_MAX && layout.inner <= INT32_MAX &&
                    (!m.by_rows || m.rows <= INT32_MAX) &&
                    layout.outer * (m.by_rows ? m.packs() : 1) <= INT32_MAX,
                ShapeError, name, "expects fewer than 2^31 packs per channel, got [{}, {}, {}]",
                layout.outer, layout.channels, layout.inner);
}

}  // namespace ferrite::kernels::cuda
