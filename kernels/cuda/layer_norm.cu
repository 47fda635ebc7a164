#include "ferrite/kernels/cuda/channel_reduce.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kLayerNormThreads = 256;
constexpr int kHeld = 4;  // packs of a row that a thread keeps in registers

/// A thread's share of a row of `packs` packs, on which `lanes` adjacent threads of a warp, or a
/// whole block, work. Thread `lane` has the packs lane, lane + lanes and so on. It keeps the first
/// kHeld of each operand in registers. Further packs occur only in rows of a whole block, and are
/// read once per pass.
struct RowShare {
  std::int64_t row, packs;
  int lane, lanes;

  /// f(k, p) for the packs p that are held, f(kHeld, p) for the others.
  template <class F>
  __device__ __forceinline__ void for_each(F&& f) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      if (lane + k * lanes < packs) f(k, static_cast<std::int64_t>(lane + k * lanes));
    for (std::int64_t p = lane + kHeld * lanes; p < packs; p += lanes) f(kHeld, p);
  }
};

template <class S>
struct Two {
  S a, b;
  __device__ Two operator+(const Two& o) const { return {a + o.a, b + o.b}; }
};

/// The sum over the threads that share a row, returned to each of them. All threads of the block
/// must call it.
template <bool kBlock, class S>
__device__ __forceinline__ Two<S> row_sum(Two<S> value, int lanes) {
  if constexpr (kBlock) {
    return block_reduce<kLayerNormThreads>(value, Two<S>{0, 0}, Add());
  } else {
    for (int bits = lanes / 2; bits > 0; bits /= 2) {
      const Two<S> other = shuffle_xor(value, bits);
      value = threadIdx.x & static_cast<unsigned>(bits) ? other + value : value + other;
    }
    return value;
  }
}

template <bool kBlock>
__device__ __forceinline__ RowShare share_of(std::int64_t rows, std::int64_t packs, int lanes) {
  if constexpr (kBlock) {
    return {static_cast<std::int64_t>(blockIdx.x), packs, static_cast<int>(threadIdx.x),
            kLayerNormThreads};
  } else {
    const std::int64_t row = thread_in_grid<kLayerNormThreads>() / lanes;
    return {row, row < rows ? packs : 0, static_cast<int>(threadIdx.x) & (lanes - 1), lanes};
  }
}

template <class T, int V, bool kBlock>
__global__ void __launch_bounds__(kLayerNormThreads)
    normalize_rows(std::int64_t rows, std::int64_t packs, int lanes, const T* in,
                   const Compute<T>* weight, const Compute<T>* bias, Compute<T> eps, T* out,
                   Compute<T>* means, Compute<T>* rstds) {
  using S = Compute<T>;
  const RowShare share = share_of<kBlock>(rows, packs, lanes);
  const std::int64_t begin = share.row * packs;
  const S n = static_cast<S>(packs * V);
  Pack<T, V> held[kHeld] = {};
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (share.lane + k * share.lanes < share.packs)
      held[k] = load_pack<V>(in + (begin + share.lane + k * share.lanes) * V);
  const auto get = [&](int k, std::int64_t p) {
    return k < kHeld ? held[k] : load_pack<V>(in + (begin + p) * V);
  };

  S first = 0;
  if (means != nullptr) {
    Two<S> sum{0, 0};
    share.for_each([&](int k, std::int64_t p) {
      const Pack<T, V> x = get(k, p);
#pragma unroll
      for (int v = 0; v < V; ++v) sum.a += static_cast<S>(x.v[v]);
    });
    first = row_sum<kBlock>(sum, share.lanes).a / n;
  }

  // The second sum corrects the first one's rounding (Chan, Golub and LeVeque 1983).
  Two<S> d{0, 0};
  share.for_each([&](int k, std::int64_t p) {
    const Pack<T, V> x = get(k, p);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const S off = static_cast<S>(x.v[v]) - first;
      d.a += off;
      d.b += off * off;
    }
  });
  d = row_sum<kBlock>(d, share.lanes);
  const S off = means != nullptr ? d.a / n : S(0), mean = first + off;
  const S var = (d.b - d.a * off) / n;
  const S rstd = S(1) / sqrt((var < S(0) ? S(0) : var) + eps);
  if (share.lane == 0 && share.packs > 0) {
    if (means != nullptr) means[share.row] = mean;
    rstds[share.row] = rstd;
  }
  if (out == nullptr) return;

  share.for_each([&](int k, std::int64_t p) {
    const Pack<T, V> x = get(k, p);
    S w[V] = {}, b[V] = {};
    if (weight != nullptr) load_params(w, weight + p * V);
    if (bias != nullptr) load_params(b, bias + p * V);
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      S y = (static_cast<S>(x.v[v]) - mean) * rstd;
      if (weight != nullptr) y *= w[v];
      if (bias != nullptr) y += b[v];
      result.v[v] = static_cast<T>(y);
    }
    store_pack<V>(out + (begin + p) * V, result);
  });
}

/// dx = (g - mean(g) - xhat * mean(g * xhat)) * rstd, where g = dy * weight.
template <class T, int V, bool kBlock>
__global__ void __launch_bounds__(kLayerNormThreads)
    backward_rows(std::int64_t rows, std::int64_t packs, int lanes, const T* dy, const T* in,
                  const Compute<T>* means, const Compute<T>* rstds, const Compute<T>* weight,
                  T* dx) {
  using S = Compute<T>;
  const RowShare share = share_of<kBlock>(rows, packs, lanes);
  const std::int64_t begin = share.row * packs;
  const S n = static_cast<S>(packs * V);
  const S mean = share.packs > 0 && means != nullptr ? means[share.row] : S(0);
  const S rstd = share.packs > 0 ? rstds[share.row] : S(0);
  Pack<T, V> held_dy[kHeld] = {}, held_in[kHeld] = {};
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (share.lane + k * share.lanes < share.packs) {
      held_dy[k] = load_pack<V>(dy + (begin + share.lane + k * share.lanes) * V);
      held_in[k] = load_pack<V>(in + (begin + share.lane + k * share.lanes) * V);
    }
  /// f(v, g, xhat) for the elements of a pack.
  const auto elements = [&](int k, std::int64_t p, auto&& f) {
    const Pack<T, V> a = k < kHeld ? held_dy[k] : load_pack<V>(dy + (begin + p) * V);
    const Pack<T, V> x = k < kHeld ? held_in[k] : load_pack<V>(in + (begin + p) * V);
    S w[V] = {};
    if (weight != nullptr) load_params(w, weight + p * V);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      S g = static_cast<S>(a.v[v]);
      if (weight != nullptr) g *= w[v];
      f(v, g, (static_cast<S>(x.v[v]) - mean) * rstd);
    }
  };

  Two<S> sums{0, 0};
  share.for_each([&](int k, std::int64_t p) {
    elements(k, p, [&](int, S g, S xhat) {
      sums.a += g;
      sums.b += g * xhat;
    });
  });
  sums = row_sum<kBlock>(sums, share.lanes);
  const S shift = means != nullptr ? sums.a / n : S(0), slope = sums.b / n;
  share.for_each([&](int k, std::int64_t p) {
    Pack<T, V> result;
    elements(k, p, [&](int v, S g, S xhat) {
      result.v[v] = static_cast<T>((g - shift - xhat * slope) * rstd);
    });
    store_pack<V>(dx + (begin + p) * V, result);
  });
}

/// Sums over rows of dy and of dy * xhat: the gradients of bias and weight.
template <class T>
struct ColumnSums {
  using Scalar = Compute<T>;
  static constexpr int kUnroll = 2, kResults = 2;
  const T *dy, *in;
  const Scalar *mean, *rstd;

  template <int V>
  struct Loaded {
    Pack<T, V> dy, in;
    Scalar mean, rstd;
  };
  struct NoParams {};
  template <int W>
  using State = SumsState<Scalar, W>;

  template <int W>
  __device__ NoParams params(const ChannelsAt<W>&) const {
    return {};
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at, std::int64_t row) const {
    return {load_pack<V>(dy + at), load_pack<V>(in + at), mean != nullptr ? mean[row] : Scalar(0),
            rstd[row]};
  }
  template <int V, int N>
  __device__ void add(State<V>& state, NoParams, const Loaded<V> (&loaded)[N]) const {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Scalar g = static_cast<Scalar>(loaded[n].dy.v[v]);
        state.sum[0][v] += g;
        state.sum[1][v] +=
            g * ((static_cast<Scalar>(loaded[n].in.v[v]) - loaded[n].mean) * loaded[n].rstd);
      }
  }
};

/// Runs f.operator()<V, whole block a row>(packs, lanes, blocks).
template <int kPack, class F>
void with_shares(std::int64_t rows, std::int64_t width, bool aligned, F&& f) {
  const auto run = [&]<int V>() {
    const std::int64_t packs = width / V;
    if (packs > kHeld * kWarp)
      return f.template operator()<V, true>(packs, kLayerNormThreads, rows);
    int lanes = 1;
    while (lanes < kWarp && lanes < packs) lanes *= 2;
    f.template operator()<V, false>(packs, lanes,
                                    (rows * lanes + kLayerNormThreads - 1) / kLayerNormThreads);
  };
  if (aligned && width % kPack == 0)
    run.template operator()<kPack>();
  else
    run.template operator()<1>();
}

}  // namespace

void layer_norm(const Stream& stream, std::int64_t rows, std::int64_t width, const View& out,
                const View& mean, const View& rstd, const View& in, const View& weight,
                const View& bias, double eps) {
  if (rows == 0 || width == 0) return;
  dispatch_floating(in.dtype, "layer_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const T* x = in.as<T>();
    T* y = out.as<T>();
    const S *w = weight.as<S>(), *b = bias.as<S>();
    const bool aligned = is_aligned(x, kPack) && is_aligned(y, kPack) && params_aligned(w, b);
    with_shares<kPack>(rows, width, aligned,
                       [&]<int V, bool kBlock>(std::int64_t packs, int lanes, std::int64_t blocks) {
                         launch({"layer_norm", stream, blocks_for(blocks, 1), kLayerNormThreads},
                                normalize_rows<T, V, kBlock>, rows, packs, lanes, x, w, b,
                                static_cast<S>(eps), y, mean.as<S>(), rstd.as<S>());
                       });
  });
}

void layer_norm_backward(const Stream& stream, std::int64_t rows, std::int64_t width,
                         const View& grad_in, const View& grad_weight, const View& grad_bias,
                         const View& grad_out, const View& in, const View& mean, const View& rstd,
                         const View& weight) {
  if (width == 0) return;
  dispatch_floating(in.dtype, "layer_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const T *x = in.as<T>(), *dy = grad_out.as<T>();
    T* dx = grad_in.as<T>();
    const S *w = weight.as<S>(), *m = mean.as<S>(), *r = rstd.as<S>();
    const bool aligned = is_aligned(x, kPack) && is_aligned(dy, kPack);

    if (grad_weight.data || grad_bias.data) {
      const auto merge = [&](const Partials<S>& partials) {
        merge_sums(stream, "layer_norm_backward_merge", partials, width,
                   SumsTo<S, 2>{.sum = {grad_bias.as<S>(), grad_weight.as<S>()}});
      };
      const auto reduce = [&]<int V>() {
        reduce_columns<ColumnSums<T>, V>(
            stream, "layer_norm_backward_reduce", ColumnSums<T>{dy, x, m, r},
            {.by_rows = false, .pack = V, .joined = 1, .rows = rows, .columns = width},
            {.outer = rows, .channels = width, .inner = 1}, true, merge);
      };
      if (rows == 0)
        merge({});
      else if (aligned && width % kPack == 0)
        reduce.template operator()<kPack>();
      else
        reduce.template operator()<1>();
    }
    if (rows == 0 || dx == nullptr) return;
    with_shares<kPack>(
        rows, width, aligned && is_aligned(dx, kPack) && params_aligned(w),
        [&]<int V, bool kBlock>(std::int64_t packs, int lanes, std::int64_t blocks) {
          launch({"layer_norm_backward", stream, blocks_for(blocks, 1), kLayerNormThreads},
                 backward_rows<T, V, kBlock>, rows, packs, lanes, dy, x, m, r, w, dx);
        });
  });
}

}  // namespace ferrite::kernels::cuda
