// Convolutions with many groups of few channels (mainly depthwise ones), for which the tiles of a
// matrix product would be nearly empty. Each thread computes its results alone.
#include <algorithm>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/conv_direct.h"
#include "ferrite/kernels/cuda/conv_tiles.cuh"
#include "ferrite/kernels/cuda/tile_launch.cuh"

namespace ferrite::kernels::cuda::native {

namespace {

constexpr int kDirectThreads = 256;
constexpr int kRun = 4;  // neighbouring results per thread

/// How the results of all groups are distributed over threads.
struct DirectOrder {
  Divisor runs[ConvAxis::kPhases];  // of results in a row, a column phase
  Divisor channels, outs;           // of `to`: in all, and a group
  bool channels_first;              // neighbouring threads have neighbouring channels
};

/// to = from * kernel + bias; one phase per blockIdx.y.
template <class S, class T = Compute<S>>
__global__ void __launch_bounds__(kDirectThreads)
    direct_correlation(ConvGeometry g, const __grid_constant__ DirectOrder order, S* to,
                       const S* from, const S* kernel, const S* bias, std::int64_t bias_step,
                       bool relu) {
  const Correlation c(g, blockIdx.y);  // group 0
  const Divisor& runs = order.runs[blockIdx.y % g.column_phases];
  std::uint32_t rest = blockIdx.x * kDirectThreads + threadIdx.x;
  std::uint32_t channel = 0;
  if (order.channels_first) channel = order.channels.split(rest);
  const auto x = static_cast<int>(runs.split(rest) * kRun);
  const auto y = static_cast<int>(c.row.count.split(rest));
  if (!order.channels_first) channel = order.channels.split(rest);
  const std::uint32_t image = rest;
  if (image >= g.images) return;
  std::uint32_t group = channel;
  const std::uint32_t out = order.outs.split(group);

  const int from_y = y * g.rows.stride + c.row.first;
  const int from_x = x * g.columns.stride + c.column.first;
  from += image * g.from_image_step + group * g.from_group_step;
  kernel += group * g.kernel_group_step + out * g.kernel_out_step + c.row.kernel_first +
            c.column.kernel_first;
  T sum[kRun] = {};
  for (std::uint32_t in = 0; in < g.channels.value(); ++in)
    for (int ty = 0; ty < static_cast<int>(c.row.tap_count); ++ty) {
      const int at_y = from_y + ty * g.rows.step;
      if (static_cast<unsigned>(at_y) >= static_cast<unsigned>(g.rows.size)) continue;
      const S* const line = from + in * g.from_channel_step + at_y * g.rows.from_step;
      const S* const weights = kernel + in * g.kernel_channel_step + ty * g.rows.kernel_step;
      for (int tx = 0; tx < static_cast<int>(c.column.tap_count); ++tx) {
        const T weight = static_cast<T>(weights[tx * g.columns.kernel_step]);
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          const int at_x = from_x + i * g.columns.stride + tx * g.columns.step;
          if (static_cast<unsigned>(at_x) < static_cast<unsigned>(g.columns.size))
            sum[i] += weight * static_cast<T>(line[at_x * g.columns.from_step]);
        }
      }
    }

  const T add = bias ? static_cast<T>(bias[channel * bias_step]) : T(0);
  to += image * g.to_image_step + channel * g.to_channel_step + c.row.to_first +
        y * g.rows.to_step + c.column.to_first;
#pragma unroll
  for (int i = 0; i < kRun; ++i)
    if (x + i < static_cast<int>(c.column.count.value())) {
      const T value = sum[i] + add;
      to[(x + i) * g.columns.to_step] = static_cast<S>(relu && value < T(0) ? T(0) : value);
    }
}

constexpr int kTaps = 9;  // weights per thread at a time

/// The weights whose gradients a block sums, and the positions over which it sums them.
struct DirectSums {
  std::uint32_t outs;           // channels of `to`, all groups
  Divisor outs_a_group, pairs;  // pairs of an output channel and an input channel of its group
  std::uint32_t step;           // positions per part, one per blockIdx.z
};

/// partial[part][out][in][tap] = the sums over one part of the positions. The threads of a block
/// share the positions of one pair of channels; if channels are adjacent in memory, the lanes of a
/// warp handle 32 pairs instead.
template <class S, bool ChannelsLast, class T = Compute<S>>
__global__ void __launch_bounds__(kDirectThreads)
    direct_weight_gradient(ConvGeometry g, DirectSums sums, const S* from, const S* to,
                           T* partial) {
  constexpr int kAbreast = ChannelsLast ? kWarp : 1, kDeep = kDirectThreads / kAbreast;
  const Correlation c(g, 0);
  const std::uint32_t pair =
      std::min(blockIdx.x * kAbreast + threadIdx.x % kAbreast, sums.pairs.value() - 1);
  std::uint32_t out = pair;
  const std::uint32_t in = g.channels.split(out);
  const std::uint32_t group = sums.outs_a_group.quotient(out);
  from += group * g.from_group_step + in * g.from_channel_step;
  to += out * g.to_channel_step;
  const std::uint32_t taps = c.row.tap_count * c.column.tap_count;
  const std::uint32_t first_tap = blockIdx.y * kTaps;

  T sum[kTaps] = {};
  const std::uint32_t end = std::min(c.positions(), (blockIdx.z + 1) * sums.step);
  for (std::uint32_t p = blockIdx.z * sums.step + threadIdx.x / kAbreast; p < end; p += kDeep) {
    const ImagePoint at = c.from_position(p);
    const T grad = static_cast<T>(to[c.to_position(p)]);
    std::uint32_t ty = c.column.taps.quotient(first_tap);
    std::uint32_t tx = first_tap - ty * c.column.tap_count;
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      const int y = static_cast<int>(ty) * g.rows.step, x = static_cast<int>(tx) * g.columns.step;
      const ImagePoint tap{y * g.rows.from_step + x * g.columns.from_step, y, x};
      if (first_tap + t < taps && c.inside(at, tap))
        sum[t] += grad * static_cast<T>(from[at.offset + tap.offset]);
      if (++tx == c.column.tap_count) tx = 0, ++ty;
    }
  }

  T* const result = partial + (std::int64_t{blockIdx.z} * sums.pairs.value() + pair) * taps;
  if constexpr (!ChannelsLast) {
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      const T all = block_reduce<kDirectThreads>(sum[t], T(0), Add());
      if (threadIdx.x == 0 && first_tap + t < taps) result[first_tap + t] = all;
    }
  } else {
    FERRITE_SHARED(shared, T[kDirectThreads / kWarp][kTaps][kWarp]);
#pragma unroll
    for (int t = 0; t < kTaps; ++t) shared[threadIdx.x / kWarp][t][threadIdx.x % kWarp] = sum[t];
    __syncthreads();
    if (threadIdx.x >= kWarp || blockIdx.x * kAbreast + threadIdx.x >= sums.pairs.value()) return;
    for (int t = 0; t < kTaps && first_tap + t < taps; ++t) {
      T all = 0;
      for (int warp = 0; warp < kDirectThreads / kWarp; ++warp) all += shared[warp][t][threadIdx.x];
      result[first_tap + t] = all;
    }
  }
}

}  // namespace

void direct_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                        const View& bias) {
  const ConvGeometry& g = launch.g;
  const std::uint32_t phases = g.row_phases * g.column_phases;
  const std::int64_t channels = launch.batches / phases * g.outs;
  DirectOrder order{};
  order.channels = Divisor(static_cast<std::uint32_t>(channels));
  order.outs = Divisor(g.outs);
  order.channels_first = g.to_channel_step == 1 && channels > 1;
  std::int64_t most_runs = 0, most_rows = 0;
  for (std::uint32_t i = 0; i < g.column_phases; ++i) {
    const std::uint32_t runs = (g.columns.phases[i].count.value() + kRun - 1) / kRun;
    order.runs[i] = Divisor(runs);
    most_runs = std::max<std::int64_t>(most_runs, runs);
  }
  for (std::uint32_t i = 0; i < g.row_phases; ++i)
    most_rows = std::max<std::int64_t>(most_rows, g.rows.phases[i].count.value());
  const std::int64_t threads = g.images * most_rows * most_runs * channels;
  dispatch_floating(kernel.dtype, "conv2d", [&]<class S>() {
    cuda::launch({"direct_correlation", stream, dim3(blocks_for(threads, kDirectThreads), phases),
                  kDirectThreads},
                 direct_correlation<S>, g, order, static_cast<S*>(launch.to),
                 static_cast<const S*>(launch.from), static_cast<const S*>(kernel.as<S>()),
                 static_cast<const S*>(bias.as<S>()), bias.data ? bias.strides[0] : 0,
                 launch.activation == Activation::relu);
  });
}

void direct_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                            bool accumulate) {
  ConvGeometry g = launch.g;
  const std::int64_t outs = launch.batches * g.outs, pairs = outs * g.channels.value();
  const std::int64_t taps = launch.taps / g.channels.value();
  const bool across = g.channels_last && g.to_channel_step == 1;
  DirectSums sums{};
  sums.outs = static_cast<std::uint32_t>(outs);
  sums.outs_a_group = Divisor(g.outs);
  sums.pairs = Divisor(static_cast<std::uint32_t>(pairs));
  const dim3 grid(blocks_for(pairs, across ? kWarp : 1), blocks_for(taps, kTaps));
  const DepthParts parts =
      plan_parts(std::int64_t{grid.x} * grid.y, launch.positions, across ? 512 : 4096, 1024);
  sums.step = static_cast<std::uint32_t>(parts.step);
  dispatch_floating(grad_kernel.dtype, "conv2d", [&]<class S>() {
    using T = Compute<S>;
    const Workspace partial(stream,
                            sizeof(T) * static_cast<std::size_t>(parts.count * pairs * taps));
    const auto count = static_cast<unsigned>(parts.count);
    cuda::launch({"direct_weight_gradient", stream, dim3(grid.x, grid.y, count), kDirectThreads},
                 across ? direct_weight_gradient<S, true> : direct_weight_gradient<S, false>, g,
                 sums, static_cast<const S*>(launch.from), static_cast<const S*>(launch.to),
                 partial.as<T>());
    // Treated as one group, with the taps of an input channel adjacent.
    g.outs = sums.outs;
    g.channels_last = false;
    TileGrid<T> tiles{};
    tiles.partial = partial.as<T>();
    tiles.rows = g.outs;
    tiles.columns = static_cast<std::uint32_t>(launch.taps);
    TileOutput<S, T, TapMap> out{grad_kernel.as<S>(), {g}, {}};
    out.epilogue.beta = accumulate ? 1 : 0;
    launch_sum_parts<T>(stream, out, tiles, parts.count);
  });
}

}  // namespace ferrite::kernels::cuda::native
