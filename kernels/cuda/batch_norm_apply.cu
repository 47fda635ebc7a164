#include "ferrite/kernels/cuda/batch_norm_finish.cuh"
#include "ferrite/kernels/cuda/batch_norm_map.cuh"
#include "ferrite/kernels/cuda/channel_matrix.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

namespace {

/// What a batch leaves behind besides its running statistics; the mean may be null.
template <class S>
struct Kept {
  S *mean, *invstd;
  std::int64_t* batches;
  std::int32_t* counters;
  std::int64_t counters_size;

  __device__ void count(unsigned thread, unsigned threads) const {
    if (thread == 0 && batches != nullptr) ++*batches;
    for (std::int64_t i = thread; i < counters_size; i += threads) counters[i] = 0;
  }
};

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

template <class F, int V>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    map_columns(F f, Tiles tiles, ChannelOf channel) {
  const InTile at(tiles);
  if (!at.works(tiles)) return;
  map_rows_of<F, V>(
      f, tiles, at,
      f.params(channels_of_columns<V>(channel, static_cast<std::uint32_t>(at.pack * V))));
}

/// Batch norm from the statistics of the batch: each block finishes those of its channels, and the
/// first one across keeps them.
template <class T, int V>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    train_columns(Apply<T> f, Tiles tiles, ChannelOf channel, Finish<Compute<T>, Compute<T>> finish,
                  Kept<Compute<T>> kept) {
  using S = Compute<T>;
  FERRITE_SHARED(own, S[2][kTileThreads * V]);
  const InTile at(tiles);
  const std::int64_t first = static_cast<std::int64_t>(at.across) * tiles.width * V;
  const std::int64_t some = min(std::int64_t{tiles.width} * V, tiles.packs * V - first);
  for (std::int64_t i = threadIdx.x; i < some; i += kTileThreads) {
    const auto [mean, invstd] = finish(first + i, at.block == 0);
    own[0][i] = mean;
    own[1][i] = invstd;
    if (at.block != 0) continue;
    if (kept.mean != nullptr) kept.mean[first + i] = mean;
    kept.invstd[first + i] = invstd;
  }
  if (blockIdx.x == 0) kept.count(threadIdx.x, kTileThreads);
  __syncthreads();
  if (!at.works(tiles)) return;

  typename Apply<T>::template Params<V> params;
  const ChannelsAt<V> channels =
      channels_of_columns<V>(channel, static_cast<std::uint32_t>(at.pack * V));
  channels.get(params.scale, f.weight, S(1));
  channels.get(params.shift, f.bias);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    params.mean[v] = own[0][at.right * V + v];
    params.scale[v] *= own[1][at.right * V + v];
  }
  map_rows_of<Apply<T>, V>(f, tiles, at, params);
}

/// Finishes the statistics for a second kernel, which applies them: where rows belong to channels,
/// and for running statistics of other types.
template <class S, class R>
__global__ void finish_channels(std::int64_t channels, Finish<S, R> finish, Kept<S> kept) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kTileThreads + threadIdx.x;
  if (blockIdx.x == 0) kept.count(threadIdx.x, kTileThreads);
  if (c >= channels) return;
  const auto [mean, invstd] = finish(c, true);
  if (kept.mean != nullptr) kept.mean[c] = mean;
  kept.invstd[c] = invstd;
}

/// The tiles by which map_columns() and its like go over columns.
Tiles tiles_of_columns(const ChannelMatrix& m) {
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
  check_channels(layout, m);
  Tiles tiles = tiles_of_columns(m);
  if (m.by_rows) tiles.cut(F::kUnroll);
  const ChannelOf channel = channel_of(layout, m, params_aligned);
  const auto run = [&]<int V>() {
    launch({name, stream, tiles.blocks(), kTileThreads},
           m.by_rows ? map_rows<F, V> : map_columns<F, V>, f, tiles, channel);
  };
  if (m.pack == kPack)
    run.template operator()<kPack>();
  else
    run.template operator()<1>();
}

}  // namespace

namespace {

template <int kPack, class T>
bool is_aligned(const Apply<T>& f) {
  return cuda::is_aligned(f.in, kPack) && cuda::is_aligned(f.residual, kPack) &&
         cuda::is_aligned(f.out, kPack);
}

template <class S, class R>
Finish<S, R> finish_of(const ChannelLayout& layout, const BatchStatistics& batch,
                       const RunningStatistics& running, double eps) {
  return {.mean = batch.mean.as<S>(),
          .m2 = batch.m2.as<S>(),
          .are_sums = batch.are_sums,
          .count = nullptr,
          .n = static_cast<double>(layout.count()),
          .momentum = running.momentum,
          .eps = eps,
          .running_mean = Running<R>(running.mean),
          .running_var = Running<R>(running.var)};
}

}  // namespace

void batch_norm_apply(const Stream& stream, const ChannelLayout& layout, const View& out,
                      const View& in, const View& mean, const View& invstd, const View& weight,
                      const View& bias, const View& residual, NormActivation activation) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    constexpr int kPack = pack_size<T>();
    const Apply<T> f = apply_of<T>(out, in, mean, invstd, weight, bias, residual, activation);
    map_channels<Apply<T>, kPack>(stream, "batch_norm_apply", f, layout, sizeof(T),
                                  is_aligned<kPack>(f),
                                  params_aligned(f.mean, f.invstd, f.weight, f.bias));
  });
}

void batch_norm_train(const Stream& stream, const ChannelLayout& layout, const View& out,
                      const View& in, const View& mean, const View& invstd,
                      const BatchStatistics& batch, const RunningStatistics& running, double eps,
                      const View& weight, const View& bias, const View& residual,
                      NormActivation activation, const View& counters) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const Kept<S> kept{.mean = mean.data == batch.mean.data ? nullptr : mean.as<S>(),
                       .invstd = invstd.as<S>(),
                       .batches = running.batches.as<std::int64_t>(),
                       .counters = counters.as<std::int32_t>(),
                       .counters_size = counters.data ? counters.numel : 0};
    const DType moved = running.mean.data ? running.mean.dtype : dtype_of<S>;
    const Apply<T> f = apply_of<T>(out, in, mean, invstd, weight, bias, residual, activation);
    const ChannelMatrix m = channel_matrix(layout, sizeof(T), kPack, is_aligned<kPack>(f), 1);
    const bool whole = layout.channels > 0 && layout.count() > 0 && !m.by_rows &&
                       layout.inner == 1 && m.joined == 1 && moved == dtype_of<S> && f.out;
    if (!whole) {
      dispatch_floating(moved, "batch_norm", [&]<class R>() {
        launch({"batch_norm_finish", stream,
                std::max(1U, blocks_for(layout.channels, kTileThreads)), kTileThreads},
               finish_channels<S, R>, layout.channels, finish_of<S, R>(layout, batch, running, eps),
               kept);
      });
      if (f.out == nullptr) return;
      return cuda::batch_norm_apply(stream, layout, out, in, mean, invstd, weight, bias, residual,
                                    activation);
    }
    check_channels(layout, m);
    const Tiles tiles = tiles_of_columns(m);
    const auto run = [&]<int V>() {
      launch({"batch_norm_train", stream, tiles.blocks(), kTileThreads}, train_columns<T, V>, f,
             tiles, channel_of(layout, m, params_aligned(f.weight, f.bias)),
             finish_of<S, S>(layout, batch, running, eps), kept);
    };
    if (m.pack == kPack)
      run.template operator()<kPack>();
    else
      run.template operator()<1>();
  });
}

void batch_norm_backward_apply(const Stream& stream, const ChannelLayout& layout, const View& dx,
                               const View& dy, const View& in, const View& mean, const View& invstd,
                               const View& weight, const View& sum_dy, const View& sum_dy_xhat,
                               const View& count, std::int64_t n, const ReluMask& mask) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    constexpr int kPack = pack_size<T>();
    const BackwardApply<T> f =
        backward_apply_of<T>(dx, dy, in, mean, invstd, weight, sum_dy, sum_dy_xhat, count, n, mask);
    map_channels<BackwardApply<T>, kPack>(
        stream, "batch_norm_backward_apply", f, layout, sizeof(T),
        is_aligned(f.dy, kPack) && is_aligned(f.in, kPack) && is_aligned(f.out, kPack) &&
            is_aligned(f.dx, kPack),
        params_aligned(f.mean, f.invstd, f.weight, f.bias, f.sum_dy, f.sum_dy_xhat));
  });
}

}  // namespace ferrite::kernels::cuda
