// Batch norm from the statistics of its batch, which the kernel that applies them finishes, or
// another before it.
#pragma once

#include <algorithm>

#include "ferrite/kernels/cuda/batch_norm_finish.cuh"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/channel_map.cuh"

namespace ferrite::kernels::cuda {

/// What a batch leaves behind besides its running statistics; the mean may be null.
template <class S>
struct Kept {
  S *mean, *invstd;
  std::int64_t* batches;
  std::int32_t* counters;
  std::int64_t counters_size;

  __device__ void keep(std::int64_t c, S of_mean, S of_invstd) const {
    if (mean != nullptr) mean[c] = of_mean;
    invstd[c] = of_invstd;
  }
  __device__ void count(unsigned thread, unsigned threads) const {
    if (thread == 0 && batches != nullptr) ++*batches;
    for (std::int64_t i = thread; i < counters_size; i += threads) counters[i] = 0;
  }
};

/// S: the type of statistics, R: that of the running ones.
template <class S, class R = S>
struct Training {
  Finish<S, R> finish;
  Kept<S> kept;

  Training(const ChannelLayout& layout, const View& mean, const View& invstd,
           const BatchTraining& of, const View& counters)
      : finish{.mean = of.batch.mean.as<S>(),
               .m2 = of.batch.m2.as<S>(),
               .are_sums = of.batch.are_sums,
               .count = nullptr,
               .n = static_cast<double>(layout.count()),
               .momentum = of.running.momentum,
               .eps = of.eps,
               .running_mean = Running<R>(of.running.mean),
               .running_var = Running<R>(of.running.var)},
        kept{.mean = mean.data == of.batch.mean.data ? nullptr : mean.as<S>(),
             .invstd = invstd.as<S>(),
             .batches = of.running.batches.as<std::int64_t>(),
             .counters = counters.as<std::int32_t>(),
             .counters_size = counters.data ? counters.numel : 0} {}
};

template <class S, int K>
struct Trainings {
  Training<S> of[K];
};

namespace detail {

/// A function of F::kNorms batch norms, whose parameters f.params_of() makes of their means and
/// inverse deviations: each block finishes those of its channels, and the first one across keeps
/// them.
template <class F, int V>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    train_columns(F f, Tiles tiles, ChannelOf channel,
                  Trainings<typename F::Scalar, F::kNorms> trainings) {
  using S = typename F::Scalar;
  FERRITE_SHARED(own, S[F::kNorms][2][kTileThreads * V]);
  const InTile at(tiles);
  const std::int64_t first = static_cast<std::int64_t>(at.across) * tiles.width * V;
  const std::int64_t some = min(std::int64_t{tiles.width} * V, tiles.packs * V - first);
#pragma unroll
  for (int k = 0; k < F::kNorms; ++k) {
    const Training<S>& training = trainings.of[k];
    for (std::int64_t i = threadIdx.x; i < some; i += kTileThreads) {
      const auto [mean, invstd] = training.finish(first + i, at.block == 0);
      own[k][0][i] = mean;
      own[k][1][i] = invstd;
      if (at.block == 0) training.kept.keep(first + i, mean, invstd);
    }
    if (blockIdx.x == 0) training.kept.count(threadIdx.x, kTileThreads);
  }
  __syncthreads();
  if (!at.works(tiles)) return;

  S mean[F::kNorms][V], invstd[F::kNorms][V];
#pragma unroll
  for (int k = 0; k < F::kNorms; ++k)
#pragma unroll
    for (int v = 0; v < V; ++v) {
      mean[k][v] = own[k][0][at.right * V + v];
      invstd[k][v] = own[k][1][at.right * V + v];
    }
  map_rows_of<F, V>(
      f, tiles, at,
      f.params_of(channels_of_columns<V>(channel, static_cast<std::uint32_t>(at.pack * V)), mean,
                  invstd));
}

template <class S, class R>
__global__ void finish_channels(std::int64_t channels, Training<S, R> training) {
  const std::int64_t c = thread_in_grid<kTileThreads>();
  if (blockIdx.x == 0) training.kept.count(threadIdx.x, kTileThreads);
  if (c >= channels) return;
  const auto [mean, invstd] = training.finish(c, true);
  training.kept.keep(c, mean, invstd);
}

}  // namespace detail

/// Whether train_channels() takes a matrix, and running statistics of the norms that it trains.
template <class S, class... Norms>
bool trains_in_one(const ChannelLayout& layout, const ChannelMatrix& m, const Norms&... norms) {
  const auto fits = [](const RunningStatistics& running) {
    return running.mean.data == nullptr || running.mean.dtype == dtype_of<S>;
  };
  return layout.channels > 0 && layout.count() > 0 && !m.by_rows && layout.inner == 1 &&
         m.joined == 1 && (fits(norms.running) && ...);
}

/// One kernel that finishes statistics and applies f.
template <class F, int kPack>
void train_channels(const Stream& stream, const char* name, const F& f, const ChannelLayout& layout,
                    const ChannelMatrix& m, bool params_aligned,
                    const Trainings<typename F::Scalar, F::kNorms>& trainings) {
  check_channels(name, layout, m);
  const Tiles tiles = tiles_of_columns(m);
  const auto run = [&]<int V>() {
    launch({name, stream, tiles.blocks(), kTileThreads}, detail::train_columns<F, V>, f, tiles,
           channel_of(layout, m, params_aligned), trainings);
  };
  if (m.pack == kPack)
    run.template operator()<kPack>();
  else
    run.template operator()<1>();
}

/// Finishes the statistics for a second kernel, which applies them: where rows belong to channels,
/// and for running statistics of other types.
template <class S>
void finish_statistics(const Stream& stream, const ChannelLayout& layout, const View& mean,
                       const View& invstd, const BatchTraining& of, const View& counters) {
  const DType running = of.running.mean.data ? of.running.mean.dtype : dtype_of<S>;
  dispatch_floating(running, "batch_norm", [&]<class R>() {
    launch({"batch_norm_finish", stream, std::max(1U, blocks_for(layout.channels, kTileThreads)),
            kTileThreads},
           detail::finish_channels<S, R>, layout.channels,
           Training<S, R>(layout, mean, invstd, of, counters));
  });
}

}  // namespace ferrite::kernels::cuda
