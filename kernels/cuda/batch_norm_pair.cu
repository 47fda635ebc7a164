// Two batch norms whose results are added, with the ReLU behind the sum.
#include "ferrite/kernels/cuda/batch_norm_train.cuh"
#include "ferrite/kernels/cuda/channel_map.cuh"
#include "ferrite/kernels/cuda/channel_reduce.cuh"
#include "ferrite/kernels/cuda/relu_mask.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

namespace {

/// V elements of both inputs.
template <class T, int V>
struct PairLoaded {
  Pack<T, V> in[2];
};
/// The parameters of W channels.
template <class S, int W>
struct PairParams {
  S mean[2][W], scale[2][W];
  S shift[W];  // of the sum
};

/// Both norms, and the result of a pack of elements.
template <class T>
struct Pair {
  using Scalar = Compute<T>;
  struct Norm {
    const T* in;
    const Scalar *mean, *invstd, *weight, *bias;

    explicit Norm(const PairedNorm& of)
        : in(of.in.as<T>()),
          mean(of.mean.as<Scalar>()),
          invstd(of.invstd.as<Scalar>()),
          weight(of.weight.as<Scalar>()),
          bias(of.bias.as<Scalar>()) {}
  };
  Norm norm[2];

  Pair(const PairedNorm& a, const PairedNorm& b) : norm{Norm(a), Norm(b)} {}

  bool is_aligned(int pack) const {
    return cuda::is_aligned(norm[0].in, pack) && cuda::is_aligned(norm[1].in, pack);
  }
  template <class... S>
  bool params_aligned(const S*... others) const {
    const auto fits = [](const Norm& n) {
      return cuda::params_aligned(n.mean, n.invstd, n.weight, n.bias);
    };
    return fits(norm[0]) && fits(norm[1]) && cuda::params_aligned(others...);
  }

  template <int W>
  __device__ PairParams<Scalar, W> params_of(const ChannelsAt<W>& channels,
                                             const Scalar (&mean)[2][W],
                                             const Scalar (&invstd)[2][W]) const {
    PairParams<Scalar, W> p;
    Scalar shift[2][W];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      channels.get(p.scale[k], norm[k].weight, Scalar(1));
      channels.get(shift[k], norm[k].bias);
#pragma unroll
      for (int w = 0; w < W; ++w) {
        p.mean[k][w] = mean[k][w];
        p.scale[k][w] *= invstd[k][w];
      }
    }
#pragma unroll
    for (int w = 0; w < W; ++w) p.shift[w] = shift[0][w] + shift[1][w];
    return p;
  }
  template <int W>
  __device__ PairParams<Scalar, W> params(const ChannelsAt<W>& channels) const {
    Scalar mean[2][W], invstd[2][W];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      channels.get(mean[k], norm[k].mean);
      channels.get(invstd[k], norm[k].invstd);
    }
    return params_of(channels, mean, invstd);
  }
  template <int V>
  __device__ PairLoaded<T, V> load(std::int64_t at) const {
    return {{load_pack<V>(norm[0].in + at), load_pack<V>(norm[1].in + at)}};
  }
  template <int V, int W>
  __device__ static Scalar deviation(const PairLoaded<T, V>& loaded, const PairParams<Scalar, W>& p,
                                     int k, int v) {
    return static_cast<Scalar>(loaded.in[k].v[v]) - p.mean[k][v % W];
  }
  /// The result at element v, from the deviations of both norms.
  template <int W>
  __device__ static T result(const PairParams<Scalar, W>& p, int v, Scalar a, Scalar b) {
    const int w = v % W;
    return static_cast<T>(relu(affine(a, p.scale[0][w], affine(b, p.scale[1][w], p.shift[w]))));
  }
};

template <class T>
struct PairApply {
  using Scalar = Compute<T>;
  static constexpr int kUnroll = 4, kNorms = 2;
  Pair<T> pair;
  T* out;

  template <int V>
  using Loaded = PairLoaded<T, V>;
  template <int W>
  using Params = PairParams<Scalar, W>;

  template <int W>
  __device__ Params<W> params(const ChannelsAt<W>& channels) const {
    return pair.params(channels);
  }
  template <int W>
  __device__ Params<W> params_of(const ChannelsAt<W>& channels, const Scalar (&mean)[kNorms][W],
                                 const Scalar (&invstd)[kNorms][W]) const {
    return pair.params_of(channels, mean, invstd);
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at) const {
    return pair.template load<V>(at);
  }
  template <int V, int W>
  __device__ void finish(std::int64_t at, const PairLoaded<T, V>& loaded,
                         const PairParams<Scalar, W>& p) const {
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v)
      result.v[v] = Pair<T>::result(p, v, Pair<T>::deviation(loaded, p, 0, v),
                                    Pair<T>::deviation(loaded, p, 1, v));
    store_pack<V>(out + at, result);
  }
};

/// The operands of the gradient.
template <class T, int V>
struct PairGradient {
  PairLoaded<T, V> of;
  Pack<T, V> dy;
};

/// The sums of dy and of dy * (in - mean) for both norms, with dy after the mask.
template <class T>
struct PairGradientSums {
  using Scalar = Compute<T>;
  static constexpr std::size_t kItemsize = sizeof(T);
  // The parameters and sums of packs of 8 leave registers for one pack of each operand.
  static constexpr int kUnroll = sizeof(T) == 2 ? 1 : 2, kResults = 3;
  Pair<T> pair;
  const T* dy;

  template <int V>
  using Loaded = PairGradient<T, V>;
  template <int W>
  using Params = PairParams<Scalar, W>;
  template <int W>
  using State = SumsState<Scalar, W, kResults>;

  template <int W>
  __device__ Params<W> params(const ChannelsAt<W>& channels) const {
    return pair.params(channels);
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at, std::int64_t) const {
    return {pair.template load<V>(at), load_pack<V>(dy + at)};
  }
  template <int V, int W, int N>
  __device__ void add(SumsState<Scalar, W, kResults>& state, const PairParams<Scalar, W>& p,
                      const PairGradient<T, V> (&loaded)[N]) const {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Scalar a = Pair<T>::deviation(loaded[n].of, p, 0, v),
                     b = Pair<T>::deviation(loaded[n].of, p, 1, v);
        const Scalar g = pass(static_cast<Scalar>(loaded[n].dy.v[v]), Pair<T>::result(p, v, a, b));
        state.sum[0][v % W] += g;
        state.sum[1][v % W] += g * a;
        state.sum[2][v % W] += g * b;
      }
  }
};

/// dx = scale * (dy - mean of dy) - slope * (in - mean) for both norms, with dy after the mask.
template <class T>
struct PairBackwardApply {
  using Scalar = Compute<T>;
  static constexpr int kUnroll = 2;
  Pair<T> pair;
  const T* dy;
  T* dx[2];
  const Scalar *sum_dy, *sum_dy_xhat[2];
  Scalar n;

  template <int V>
  using Loaded = PairGradient<T, V>;
  template <int W>
  struct Params {
    PairParams<Scalar, W> of;
    Scalar mean_dy[W], slope[2][W];
  };

  template <int W>
  __device__ Params<W> params(const ChannelsAt<W>& channels) const {
    Params<W> p;
    Scalar mean[2][W], invstd[2][W];
    const Scalar each = Scalar(1) / n;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      channels.get(mean[k], pair.norm[k].mean);
      channels.get(invstd[k], pair.norm[k].invstd);
      channels.get(p.slope[k], sum_dy_xhat[k]);
    }
    p.of = pair.params_of(channels, mean, invstd);
    channels.get(p.mean_dy, sum_dy);
#pragma unroll
    for (int w = 0; w < W; ++w) {
      p.mean_dy[w] *= each;
#pragma unroll
      for (int k = 0; k < 2; ++k) p.slope[k][w] *= p.of.scale[k][w] * each * invstd[k][w];
    }
    return p;
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at) const {
    return {pair.template load<V>(at), load_pack<V>(dy + at)};
  }
  template <int V, int W>
  __device__ void finish(std::int64_t at, const PairGradient<T, V>& loaded,
                         const Params<W>& p) const {
    Pack<T, V> result[2];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int w = v % W;
      const Scalar d[2] = {Pair<T>::deviation(loaded.of, p.of, 0, v),
                           Pair<T>::deviation(loaded.of, p.of, 1, v)};
      const Scalar g =
          pass(static_cast<Scalar>(loaded.dy.v[v]), Pair<T>::result(p.of, v, d[0], d[1])) -
          p.mean_dy[w];
#pragma unroll
      for (int k = 0; k < 2; ++k)
        result[k].v[v] = static_cast<T>(g * p.of.scale[k][w] - d[k] * p.slope[k][w]);
    }
#pragma unroll
    for (int k = 0; k < 2; ++k)
      if (dx[k] != nullptr) store_pack<V>(dx[k] + at, result[k]);
  }
};

}  // namespace

void batch_norm_pair_train(const Stream& stream, const ChannelLayout& layout, const View& out,
                           const PairedNorm& a, const PairedNorm& b, const BatchTraining& of_a,
                           const BatchTraining& of_b, const View& counters) {
  dispatch_floating(out.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const PairApply<T> f{Pair<T>(a, b), out.as<T>()};
    const bool aligned = f.pair.is_aligned(kPack) && is_aligned(f.out, kPack);
    const ChannelMatrix m = channel_matrix(layout, sizeof(T), kPack, aligned, 1);
    if (trains_in_one<S>(layout, m, of_a, of_b)) {
      return train_channels<PairApply<T>, kPack>(
          stream, "batch_norm_pair_train", f, layout, m, f.pair.params_aligned(),
          {{Training<S>(layout, a.mean, a.invstd, of_a, counters),
            Training<S>(layout, b.mean, b.invstd, of_b, View())}});
    }
    finish_statistics<S>(stream, layout, a.mean, a.invstd, of_a, counters);
    finish_statistics<S>(stream, layout, b.mean, b.invstd, of_b, View());
    map_channels<PairApply<T>, kPack>(stream, "batch_norm_pair_apply", f, layout, sizeof(T),
                                      aligned, f.pair.params_aligned());
  });
}

void batch_norm_pair_backward_reduce(const Stream& stream, const ChannelLayout& layout,
                                     const PairSums& sums, const View& dy, const PairedNorm& a,
                                     const PairedNorm& b, const View& counters) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const PairGradientSums<T> f{Pair<T>(a, b), dy.as<T>()};
    const SumsTo<S, 3> to{.sum = {sums.dy.as<S>(), sums.dy_xhat_a.as<S>(), sums.dy_xhat_b.as<S>()},
                          .factor = {nullptr, f.pair.norm[0].invstd, f.pair.norm[1].invstd},
                          .first_again = sums.dy_again.as<S>()};
    const auto merge = [&](const Partials<S>& partials) {
      merge_sums(stream, "batch_norm_pair_backward_merge", partials, layout.channels, to);
    };
    reduce_channels<PairGradientSums<T>, kPack>(
        stream, "batch_norm_pair_backward_reduce", f, layout,
        f.pair.is_aligned(kPack) && is_aligned(f.dy, kPack), f.pair.params_aligned(), merge,
        {.to = to,
         .counters = counters.as<std::int32_t>(),
         .counters_size = counters.data ? counters.numel : 0});
  });
}

void batch_norm_pair_backward_apply(const Stream& stream, const ChannelLayout& layout,
                                    const View& dx_a, const View& dx_b, const View& dy,
                                    const PairedNorm& a, const PairedNorm& b,
                                    const PairSums& sums) {
  dispatch_floating(dy.dtype, "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const PairBackwardApply<T> f{.pair = Pair<T>(a, b),
                                 .dy = dy.as<T>(),
                                 .dx = {dx_a.as<T>(), dx_b.as<T>()},
                                 .sum_dy = sums.dy.as<S>(),
                                 .sum_dy_xhat = {sums.dy_xhat_a.as<S>(), sums.dy_xhat_b.as<S>()},
                                 .n = static_cast<S>(layout.count())};
    map_channels<PairBackwardApply<T>, kPack>(
        stream, "batch_norm_pair_backward_apply", f, layout, sizeof(T),
        f.pair.is_aligned(kPack) && is_aligned(f.dy, kPack) && is_aligned(f.dx[0], kPack) &&
            is_aligned(f.dx[1], kPack),
        f.pair.params_aligned(f.sum_dy, f.sum_dy_xhat[0], f.sum_dy_xhat[1]));
  });
}

}  // namespace ferrite::kernels::cuda
