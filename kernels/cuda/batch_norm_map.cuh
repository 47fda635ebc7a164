// Batch norm's affine step and its gradient, of one pack of elements at a time.
#pragma once

#include "ferrite/kernels/cuda/channel_matrix.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/relu_mask.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

template <class T>
struct Apply {
  using Scalar = Compute<T>;
  static constexpr int kUnroll = 4, kNorms = 1;
  const T *in, *residual;
  T* out;
  const Scalar *mean, *invstd, *weight, *bias;
  bool relu;

  template <int V>
  struct Loaded {
    Pack<T, V> in, residual;
  };
  template <int W>
  struct Params {
    Scalar mean[W], scale[W], shift[W];
  };
  template <int W>
  __device__ Params<W> params(const ChannelsAt<W>& channels) const {
    Scalar means[1][W], inverses[1][W];
    channels.get(means[0], mean);
    channels.get(inverses[0], invstd);
    return params_of(channels, means, inverses);
  }
  /// The same from given means and inverse deviations (train_columns).
  template <int W>
  __device__ Params<W> params_of(const ChannelsAt<W>& channels, const Scalar (&means)[kNorms][W],
                                 const Scalar (&inverses)[kNorms][W]) const {
    Params<W> p;
    channels.get(p.scale, weight, Scalar(1));
    channels.get(p.shift, bias);
#pragma unroll
    for (int w = 0; w < W; ++w) {
      p.mean[w] = means[0][w];
      p.scale[w] *= inverses[0][w];
    }
    return p;
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at) const {
    Loaded<V> loaded{};
    loaded.in = load_pack<V>(in + at);
    if (residual != nullptr) loaded.residual = load_pack<V>(residual + at);
    return loaded;
  }
  template <int V, int W>
  __device__ void finish(std::int64_t at, const Loaded<V>& loaded, const Params<W>& p) const {
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const Scalar d = static_cast<Scalar>(loaded.in.v[v]) - p.mean[v % W];
      Scalar y = affine(d, p.scale[v % W], p.shift[v % W]);
      if (residual != nullptr) y += static_cast<Scalar>(loaded.residual.v[v]);
      result.v[v] = static_cast<T>(relu ? cuda::relu(y) : y);
    }
    store_pack<V>(out + at, result);
  }
};

/// dx = scale * dy - shift - slope * (in - mean), with dy after the mask.
template <class T>
struct BackwardApply {
  using Scalar = Compute<T>;
  static constexpr int kUnroll = 2;
  const T *dy, *in, *out;
  T* dx;
  const Scalar *mean, *invstd, *weight, *bias, *sum_dy, *sum_dy_xhat, *count;
  Scalar n;
  ReluMask::From mask;
  bool reads_in;

  template <int V>
  struct Loaded {
    Pack<T, V> dy, in, out;
  };
  template <int W>
  struct Params {
    Scalar mean[W], scale[W], shift[W], slope[W], bias[W];
  };
  template <int W>
  __device__ Params<W> params(const ChannelsAt<W>& channels) const {
    Params<W> p{};
    Scalar inverse[W];
    channels.get(p.mean, mean);
    channels.get(inverse, invstd);
    channels.get(p.scale, weight, Scalar(1));
#pragma unroll
    for (int w = 0; w < W; ++w) p.scale[w] *= inverse[w];
    if (mask == ReluMask::From::input) channels.get(p.bias, bias);
    if (sum_dy == nullptr) return p;
    channels.get(p.shift, sum_dy);
    channels.get(p.slope, sum_dy_xhat);
    const Scalar each = Scalar(1) / (count != nullptr ? *count : n);
#pragma unroll
    for (int w = 0; w < W; ++w) {
      p.shift[w] *= p.scale[w] * each;
      p.slope[w] *= p.scale[w] * each * inverse[w];
    }
    return p;
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at) const {
    Loaded<V> loaded{};
    loaded.dy = load_pack<V>(dy + at);
    if (reads_in) loaded.in = load_pack<V>(in + at);
    if (mask == ReluMask::From::output) loaded.out = load_pack<V>(out + at);
    return loaded;
  }
  template <int V, int W>
  __device__ void finish(std::int64_t at, const Loaded<V>& loaded, const Params<W>& p) const {
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int w = v % W;
      Scalar g = static_cast<Scalar>(loaded.dy.v[v]);
      const Scalar d = static_cast<Scalar>(loaded.in.v[v]) - p.mean[w];
      if (mask == ReluMask::From::input)
        g = pass(g, static_cast<T>(affine(d, p.scale[w], p.bias[w])));
      else if (mask == ReluMask::From::output)
        g = pass(g, loaded.out.v[v]);
      Scalar result_of = g * p.scale[w];
      if (sum_dy != nullptr) result_of = result_of - p.shift[w] - d * p.slope[w];
      result.v[v] = static_cast<T>(result_of);
    }
    store_pack<V>(dx + at, result);
  }
};

template <class T>
Apply<T> apply_of(const View& out, const View& in, const View& mean, const View& invstd,
                  const View& weight, const View& bias, const View& residual,
                  NormActivation activation) {
  using S = Compute<T>;
  return {.in = in.as<T>(),
          .residual = residual.as<T>(),
          .out = out.as<T>(),
          .mean = mean.as<S>(),
          .invstd = invstd.as<S>(),
          .weight = weight.as<S>(),
          .bias = bias.as<S>(),
          .relu = activation == NormActivation::relu};
}

template <class T>
BackwardApply<T> backward_apply_of(const View& dx, const View& dy, const View& in, const View& mean,
                                   const View& invstd, const View& weight, const View& sum_dy,
                                   const View& sum_dy_xhat, const View& count, std::int64_t n,
                                   const ReluMask& mask) {
  using S = Compute<T>;
  return {.dy = dy.as<T>(),
          .in = in.as<T>(),
          .out = mask.out.as<T>(),
          .dx = dx.as<T>(),
          .mean = mean.as<S>(),
          .invstd = invstd.as<S>(),
          .weight = weight.as<S>(),
          .bias = mask.bias.as<S>(),
          .sum_dy = sum_dy.as<S>(),
          .sum_dy_xhat = sum_dy_xhat.as<S>(),
          .count = count.as<S>(),
          .n = static_cast<S>(n),
          .mask = mask.from,
          .reads_in = sum_dy.data != nullptr || mask.from == ReluMask::From::input};
}

}  // namespace ferrite::kernels::cuda
