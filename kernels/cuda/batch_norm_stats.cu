#include "ferrite/kernels/cuda/batch_norm_finish.cuh"
#include "ferrite/kernels/cuda/channel_reduce.cuh"
#include "ferrite/kernels/cuda/relu_mask.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

namespace {

struct NoParams {};

/// Mean and squared deviations (M2), from sums of differences to a value close to the mean: the
/// mean of the first values. A mean far from zero then costs no digits, and there is no division
/// per value. Parts are merged as in Chan, Golub and LeVeque, "Algorithms for Computing the Sample
/// Variance" (1983), which is Welford's update for parts instead of values.
template <class S, int W>
struct Moments {
  S count;
  S origin[W];  // the mean is origin + offset
  S offset[W];  // until settle(): the sum of differences from the origin
  S m2[W];      // until settle(): the sum of their squares

  __device__ void clear() {
    count = 0;
#pragma unroll
    for (int w = 0; w < W; ++w) origin[w] = offset[w] = m2[w] = 0;
  }
  template <int N, int V>
  __device__ void add(const S (&values)[N][V]) {
    if (count == S(0)) {
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int v = 0; v < V; ++v) origin[v % W] += values[n][v];
#pragma unroll
      for (int w = 0; w < W; ++w) origin[w] *= S(W) / S(N * V);
    }
    count += S(N * V / W);
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const S d = values[n][v] - origin[v % W];
        offset[v % W] += d;
        m2[v % W] += d * d;
      }
  }
  __device__ void settle() {
    if (count == S(0)) return;
    const S each = S(1) / count;
#pragma unroll
    for (int w = 0; w < W; ++w) {
      const S sum = offset[w];
      offset[w] = sum * each;
      m2[w] -= sum * offset[w];
      if (m2[w] < S(0)) m2[w] = 0;
    }
  }
  __device__ void merge(const Moments& b) {
    if (b.count == S(0)) return;
    const S n = count + b.count, part = b.count / n;
#pragma unroll
    for (int w = 0; w < W; ++w) {
      if (count == S(0)) origin[w] = b.origin[w];
      const S d = (b.origin[w] - origin[w]) + (b.offset[w] - offset[w]);
      offset[w] += d * part;
      m2[w] += b.m2[w] + d * d * (count * part);
    }
    count = n;
  }
  __device__ S result(int k, int w) const { return k == 0 ? origin[w] + offset[w] : m2[w]; }
};

template <class T>
struct ValueMoments {
  using Scalar = Compute<T>;
  static constexpr std::size_t kItemsize = sizeof(T);
  static constexpr int kUnroll = 4, kResults = 2;
  const T* in;

  template <int V>
  using Loaded = Pack<T, V>;
  template <int W>
  using State = Moments<Scalar, W>;

  template <int W>
  __device__ NoParams params(const ChannelsAt<W>&) const {
    return {};
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at, std::int64_t) const {
    return load_pack<V>(in + at);
  }
  template <int V, int W, int N>
  __device__ void add(Moments<Scalar, W>& state, NoParams, const Pack<T, V> (&loaded)[N]) const {
    Scalar values[N][V];
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int v = 0; v < V; ++v) values[n][v] = static_cast<Scalar>(loaded[n].v[v]);
    state.add(values);
  }
};

/// The sums of dy and of dy * (in - mean), with dy after the mask.
template <class T>
struct GradientSums {
  using Scalar = Compute<T>;
  static constexpr std::size_t kItemsize = sizeof(T);
  static constexpr int kUnroll = 2, kResults = 2;
  const T *dy, *in, *out;
  T* passed;
  const Scalar *mean, *invstd, *weight, *bias;
  ReluMask::From mask;
  bool reads_in;

  template <int V>
  struct Loaded {
    Pack<T, V> dy, in, out;
    std::int64_t at;
  };
  template <int W>
  struct Params {
    Scalar mean[W], scale[W], shift[W];
  };
  template <int W>
  using State = SumsState<Scalar, W>;

  template <int W>
  __device__ Params<W> params(const ChannelsAt<W>& channels) const {
    Params<W> p{};
    channels.get(p.mean, mean);
    if (mask == ReluMask::From::input) {
      Scalar inverse[W];
      channels.get(inverse, invstd);
      channels.get(p.scale, weight, Scalar(1));
      channels.get(p.shift, bias);
#pragma unroll
      for (int w = 0; w < W; ++w) p.scale[w] *= inverse[w];
    }
    return p;
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at, std::int64_t) const {
    Loaded<V> loaded{};
    loaded.dy = load_pack<V>(dy + at);
    if (reads_in) loaded.in = load_pack<V>(in + at);
    if (mask == ReluMask::From::output) loaded.out = load_pack<V>(out + at);
    loaded.at = at;
    return loaded;
  }
  template <int V, int W, int N>
  __device__ void add(SumsState<Scalar, W>& state, const Params<W>& p,
                      const Loaded<V> (&loaded)[N]) const {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      Pack<T, V> kept;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const int w = v % W;
        Scalar g = static_cast<Scalar>(loaded[n].dy.v[v]);
        const Scalar d = static_cast<Scalar>(loaded[n].in.v[v]) - p.mean[w];
        if (mask == ReluMask::From::input)
          g = pass(g, static_cast<T>(affine(d, p.scale[w], p.shift[w])));
        else if (mask == ReluMask::From::output)
          g = pass(g, loaded[n].out.v[v]);
        kept.v[v] = static_cast<T>(g);
        state.sum[0][w] += g;
        state.sum[1][w] += g * d;
      }
      if (passed != nullptr) store_pack<V>(passed + loaded[n].at, kept);
    }
  }
};

// ---- The second stage: one slice of a block's threads per channel, in double.

template <class S>
__global__ void __launch_bounds__(kMergeThreads)
    merge_moments(Partials<S> partials, std::int64_t channels, unsigned together, double count,
                  S* mean, S* m2) {
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * together + threadIdx.x % together;
  const unsigned slice = threadIdx.x / together, slices = kMergeThreads / together;
  const std::int64_t n = channel < channels ? partials.count() : 0;
  double sum = 0, squares = 0;
  for (std::int64_t q = slice; q < n; q += slices) {
    const auto place = partials.place(q, channel);
    sum += place.values * partials.get(0, place);
  }
  const double all = count > 0 ? sum_slices(sum, together) / count : 0;
  for (std::int64_t q = slice; q < n; q += slices) {
    const auto place = partials.place(q, channel);
    const double d = partials.get(0, place) - all;
    squares += partials.get(1, place) + place.values * d * d;
  }
  squares = sum_slices(squares, together);
  if (slice == 0 && channel < channels) {
    mean[channel] = static_cast<S>(all);
    m2[channel] = static_cast<S>(squares);
  }
}

// ---- Work on a few numbers per channel: one thread per channel, in double.

constexpr int kFewThreads = 128;

template <class S>
__global__ void of_sums(std::int64_t channels, double count, S* mean, S* m2) {
  const std::int64_t c = thread_in_grid<kFewThreads>();
  if (c >= channels) return;
  to_moments(count, mean[c], m2[c]);
}

/// A statistic of each part, with any stride between parts.
template <class S>
struct Parts {
  const S* data;
  std::int64_t stride;

  __device__ double get(std::int64_t part, std::int64_t c = 0) const {
    return static_cast<double>(data[part * stride + c]);
  }
};

/// Like the CPU kernel: first the mean of the means, then the deviations from it.
template <class S>
__global__ void combine(std::int64_t channels, std::int64_t parts, Parts<S> means, Parts<S> m2s,
                        Parts<S> counts, S* mean, S* m2, S* count) {
  const std::int64_t c = thread_in_grid<kFewThreads>();
  double total = 0;
  for (std::int64_t p = 0; p < parts; ++p) total += counts.get(p);
  if (c == 0) *count = static_cast<S>(total);
  if (c >= channels) return;
  double all = 0, squares = 0;
  if (total != 0) {
    for (std::int64_t p = 0; p < parts; ++p)
      if (counts.get(p) > 0) all += counts.get(p) * means.get(p, c);
    all /= total;
    for (std::int64_t p = 0; p < parts; ++p) {
      const double n = counts.get(p);
      if (!(n > 0)) continue;
      const double d = means.get(p, c) - all;
      squares += m2s.get(p, c) + n * d * d;
    }
  }
  mean[c] = static_cast<S>(all);
  m2[c] = static_cast<S>(squares);
}

template <class S, class R>
__global__ void finish(std::int64_t channels, Finish<S, R> of_channel, S* invstd) {
  const std::int64_t c = thread_in_grid<kFewThreads>();
  if (c < channels) invstd[c] = of_channel(c, true).invstd;
}

template <class S>
__global__ void inverse(std::int64_t channels, const S* var, double eps, S* invstd) {
  const std::int64_t c = thread_in_grid<kFewThreads>();
  if (c < channels) invstd[c] = static_cast<S>(1 / sqrt(static_cast<double>(var[c]) + eps));
}

}  // namespace

void channel_stats(const Stream& stream, const ChannelLayout& layout, const View& mean,
                   const View& m2, const View& in) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const T* x = in.as<T>();
    const auto merge = [&](const Partials<S>& partials) {
      const unsigned together = merged_channels(partials.count());
      launch({"channel_stats_merge", stream, blocks_for(layout.channels, together), kMergeThreads},
             merge_moments<S>, partials, layout.channels, together,
             static_cast<double>(layout.count()), mean.as<S>(), m2.as<S>());
    };
    reduce_channels<ValueMoments<T>, kPack>(stream, "channel_stats", ValueMoments<T>{x}, layout,
                                            is_aligned(x, kPack), true, merge);
  });
}

void batch_norm_backward_reduce(const Stream& stream, const ChannelLayout& layout,
                                const View& sum_dy, const View& sum_dy_xhat, const View& dy,
                                const View& in, const View& mean, const View& invstd,
                                const ReluMask& mask, const View& passed, const View& counters) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const GradientSums<T> sums{
        .dy = dy.as<T>(),
        .in = in.as<T>(),
        .out = mask.out.as<T>(),
        .passed = passed.as<T>(),
        .mean = mean.as<S>(),
        .invstd = invstd.as<S>(),
        .weight = mask.weight.as<S>(),
        .bias = mask.bias.as<S>(),
        .mask = mask.from,
        .reads_in = sum_dy_xhat.data != nullptr || mask.from == ReluMask::From::input};
    const bool aligned = is_aligned(sums.dy, kPack) && is_aligned(sums.in, kPack) &&
                         is_aligned(sums.out, kPack) && is_aligned(sums.passed, kPack);
    const SumsTo<S, 2> to{.sum = {sum_dy.as<S>(), sum_dy_xhat.as<S>()},
                          .factor = {nullptr, sums.invstd}};
    const auto merge = [&](const Partials<S>& partials) {
      merge_sums(stream, "batch_norm_backward_merge", partials, layout.channels, to);
    };
    const Merged<S> merged{.to = to,
                           .counters = counters.as<std::int32_t>(),
                           .counters_size = counters.data ? counters.numel : 0};
    reduce_channels<GradientSums<T>, kPack>(
        stream, "batch_norm_backward_reduce", sums, layout, aligned,
        params_aligned(sums.mean, sums.invstd, sums.weight, sums.bias), merge, merged);
  });
}

void stats_of_sums(const Stream& stream, const View& mean, const View& m2, std::int64_t n) {
  dispatch_types<float, double>(mean.dtype, "batch_norm", [&]<class S>() {
    launch({"stats_of_sums", stream, blocks_for(mean.numel, kFewThreads), kFewThreads}, of_sums<S>,
           mean.numel, static_cast<double>(n), mean.as<S>(), m2.as<S>());
  });
}

void combine_stats(const Stream& stream, const View& mean, const View& m2, const View& count,
                   const View& means, const View& m2s, const View& counts) {
  dispatch_types<float, double>(mean.dtype, "batch_norm", [&]<class S>() {
    // One block at least, for the count.
    const unsigned blocks = std::max(1u, blocks_for(mean.numel, kFewThreads));
    const auto parts = [](const View& v) { return Parts<S>{v.as<S>(), v.strides[0]}; };
    launch({"combine_stats", stream, blocks, kFewThreads}, combine<S>, mean.numel, counts.numel,
           parts(means), parts(m2s), parts(counts), mean.as<S>(), m2.as<S>(), count.as<S>());
  });
}

void batch_norm_finish(const Stream& stream, const View& invstd, const View& running_mean,
                       const View& running_var, const View& mean, const View& m2, const View& count,
                       std::int64_t n, double momentum, double eps) {
  dispatch_types<float, double>(mean.dtype, "batch_norm", [&]<class S>() {
    const DType running = running_mean.data ? running_mean.dtype : dtype_of<S>;
    dispatch_floating(running, "batch_norm", [&]<class R>() {
      const Finish<S, R> of_channel{.mean = mean.as<S>(),
                                    .m2 = m2.as<S>(),
                                    .are_sums = false,
                                    .count = count.as<S>(),
                                    .n = static_cast<double>(n),
                                    .momentum = momentum,
                                    .eps = eps,
                                    .running_mean = Running<R>(running_mean),
                                    .running_var = Running<R>(running_var)};
      launch({"batch_norm_finish", stream, blocks_for(mean.numel, kFewThreads), kFewThreads},
             finish<S, R>, mean.numel, of_channel, invstd.as<S>());
    });
  });
}

void inverse_std(const Stream& stream, const View& invstd, const View& var, double eps) {
  dispatch_types<float, double>(var.dtype, "batch_norm", [&]<class S>() {
    launch({"inverse_std", stream, blocks_for(var.numel, kFewThreads), kFewThreads}, inverse<S>,
           var.numel, var.as<S>(), eps, invstd.as<S>());
  });
}

}  // namespace ferrite::kernels::cuda
