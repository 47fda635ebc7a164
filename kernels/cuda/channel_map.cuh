// Elementwise work on a ChannelMatrix with parameters of channels. A function F defines it:
//   F::kUnroll      packs that a thread has in flight, a divisor of kTileUnroll
//   F::Loaded<V>    V adjacent elements of each operand; load<V>(at) reads them
//   F::Params<W>    parameters of W channels; params(ChannelsAt<W>) reads them
//   finish<V>(at, loaded, params)    computes and stores the results
#pragma once

#include "ferrite/kernels/cuda/channel_matrix.cuh"

namespace ferrite::kernels::cuda {

/// A thread's place in the tile of its block.
struct InTile {
  unsigned across, block, down, right;
  std::int64_t pack;

  __device__ explicit InTile(const Tiles& tiles)
      : across(blockIdx.x % tiles.across),
        block(blockIdx.x / tiles.across),
        down(threadIdx.x / tiles.width),
        right(threadIdx.x - down * tiles.width),
        pack(static_cast<std::int64_t>(across) * tiles.width + right) {}
  __device__ bool works(const Tiles& tiles) const {
    return down < tiles.height && pack < tiles.packs;
  }
};

/// Applies f to a thread's rows of one pack of columns.
template <class F, int V, class Params>
__device__ __forceinline__ void map_rows_of(const F& f, const Tiles& tiles, const InTile& at,
                                            const Params& params) {
  const std::int64_t pack = at.pack, height = tiles.height;
  const std::int64_t begin = at.block * tiles.rows_per_block + at.down;
  const std::int64_t end = min(at.block * tiles.rows_per_block + tiles.rows_per_block, tiles.rows);
  for (std::int64_t first = begin; first < end; first += F::kUnroll * height) {
    typename F::template Loaded<V> loaded[F::kUnroll];
#pragma unroll
    for (int u = 0; u < F::kUnroll; ++u)
      if (first + u * height < end)
        loaded[u] = f.template load<V>(((first + u * height) * tiles.packs + pack) * V);
#pragma unroll
    for (int u = 0; u < F::kUnroll; ++u)
      if (first + u * height < end)
        f.template finish<V>(((first + u * height) * tiles.packs + pack) * V, loaded[u], params);
  }
}

namespace detail {

template <class F, int V>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    map_rows(F f, Tiles tiles, ChannelOf channel) {
  const unsigned across = blockIdx.x % tiles.across, block = blockIdx.x / tiles.across;
  const unsigned down = threadIdx.x / tiles.width;
  const std::int64_t pack =
      static_cast<std::int64_t>(across) * tiles.width + (threadIdx.x - down * tiles.width);
  if (down >= tiles.height || pack >= tiles.packs) return;
  const std::int64_t begin = block * tiles.rows_per_block + down;
  const std::int64_t end = min(block * tiles.rows_per_block + tiles.rows_per_block, tiles.rows);

  std::uint32_t at_channel = channel.row(static_cast<std::uint32_t>(begin));
  const std::uint32_t channels = channel.channels.value(), step = tiles.height % channels;
  typename F::template Loaded<V> loaded[F::kUnroll];
  typename F::template Params<1> params[F::kUnroll];
#pragma unroll
  for (int u = 0; u < F::kUnroll; ++u) {
    const std::int64_t row = begin + u * static_cast<std::int64_t>(tiles.height);
    if (row < end) {
      loaded[u] = f.template load<V>((row * tiles.packs + pack) * V);
      params[u] = f.params(ChannelsAt<1>{{at_channel}, false});
    }
    at_channel += step;
    if (at_channel >= channels) at_channel -= channels;
  }
#pragma unroll
  for (int u = 0; u < F::kUnroll; ++u) {
    const std::int64_t row = begin + u * static_cast<std::int64_t>(tiles.height);
    if (row < end) f.template finish<V>((row * tiles.packs + pack) * V, loaded[u], params[u]);
  }
}

template <class F, int V>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    map_columns(F f, Tiles tiles, ChannelOf channel) {
  const InTile at(tiles);
  if (!at.works(tiles)) return;
  map_rows_of<F, V>(
      f, tiles, at,
      f.params(channels_of_columns<V>(channel, static_cast<std::uint32_t>(at.pack * V))));
}

}  // namespace detail

/// The tiles by which map_columns() and its like go over columns.
inline Tiles tiles_of_columns(const ChannelMatrix& m) {
  Tiles tiles(m, m.rows < kTileUnroll ? kTileThreads : kTileThreads / kTileUnroll);
  // Columns keep their parameters in registers, which pays for many rows.
  const std::int64_t per_thread = m.rows * tiles.packs / (2048 * kTileThreads);
  tiles.cut(std::clamp<std::int64_t>(per_thread / kTileUnroll * kTileUnroll, kTileUnroll,
                                     4 * kTileUnroll));
  return tiles;
}

/// Applies f to all elements: f.load() for several packs, then f.finish() for each, with the
/// f.params() of its channels.
template <class F, int kPack>
void map_channels(const Stream& stream, const char* name, const F& f, const ChannelLayout& layout,
                  std::size_t itemsize, bool aligned, bool params_aligned) {
  if (layout.channels == 0 || layout.count() == 0) return;
  const ChannelMatrix m = channel_matrix(layout, itemsize, kPack, aligned, 1);
  check_channels(name, layout, m);
  Tiles tiles = tiles_of_columns(m);
  if (m.by_rows) tiles.cut(F::kUnroll);
  const ChannelOf channel = channel_of(layout, m, params_aligned);
  const auto run = [&]<int V>() {
    launch({name, stream, tiles.blocks(), kTileThreads},
           m.by_rows ? detail::map_rows<F, V> : detail::map_columns<F, V>, f, tiles, channel);
  };
  if (m.pack == kPack)
    run.template operator()<kPack>();
  else
    run.template operator()<1>();
}

}  // namespace ferrite::kernels::cuda
