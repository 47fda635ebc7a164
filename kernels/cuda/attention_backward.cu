#include "ferrite/kernels/cuda/attention_operands.cuh"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kMeanThreads = 256;

/// What the gradients need besides the operands.
template <class T>
struct AttentionGradient {
  AttentionHeads<T> grad, out;
  const Compute<T>* lse;
  Compute<T>* means;  ///< of the gradients of each query's weights, by the weights
};

/// means: the products of the gradient and the result, a warp for each query.
template <class T>
__global__ void __launch_bounds__(kMeanThreads)
    attention_means(AttentionGradient<T> g, std::uint32_t heads, std::int64_t count) {
  using C = Compute<T>;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kMeanThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= count) return;
  const auto q = static_cast<int>(row % g.grad.rows);
  const auto head = static_cast<std::uint32_t>(row / g.grad.rows);
  const T* const grad = g.grad.at(head / heads, head % heads, q);
  const T* const out = g.out.at(head / heads, head % heads, q);
  C sum = 0;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < g.grad.width; i += kWarp)
    sum += static_cast<C>(grad[i]) * static_cast<C>(out[i]);
  sum = warp_reduce(sum, Add());
  if (threadIdx.x % kWarp == 0) g.means[row] = sum;
}

/// Turns products (of queries and keys) into weights, and the gradients of weights (`d`) into those
/// of products. Rows are queries, or keys (Transposed). The weights stay as dropout leaves them.
template <class Tiles, bool Transposed, class T>
__device__ __forceinline__ void weight_gradients(const AttentionProblem<T>& p,
                                                 const AttentionGradient<T>& g,
                                                 const PhiloxState& state, std::uint32_t b,
                                                 std::uint32_t h, int row, int column,
                                                 typename Tiles::Weights& w,
                                                 typename Tiles::Weights& d) {
  using C = Compute<T>;
#pragma unroll
  for (int j = 0; j < Tiles::kOthers / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int own = row + Tiles::row_of(e), other = column + Tiles::column_of(j, e);
      const int q = Transposed ? other : own, k = Transposed ? own : other;
      const bool exists = q < p.query.rows;
      const C weight = exists ? std::exp(p.score(w[j][e], b, h, q, k) - g.lse[p.row(b, h, q)]) : 0;
      const C kept = p.dropout ? p.kept(state, b, h, q, k) : C(1);
      w[j][e] = weight * kept;
      d[j][e] = exists ? weight * (d[j][e] * kept - g.means[p.row(b, h, q)]) : C(0);
    }
}

template <class Tiles, class T>
__device__ __forceinline__ void store_results(const AttentionHeads<T>& to, std::uint32_t b,
                                              std::uint32_t h, int row, int column,
                                              const typename Tiles::Results& results,
                                              Compute<T> scale) {
#pragma unroll
  for (int j = 0; j < Tiles::kWidth / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + Tiles::row_of(e), c = column + Tiles::column_of(j, e);
      if (r < to.rows && c < to.width) to.at(b, h, r)[c] = static_cast<T>(results[j][e] * scale);
    }
}

template <class Tiles, class T>
__global__ void __launch_bounds__(Tiles::kThreads)
    attention_query_gradient(AttentionProblem<T> p, AttentionGradient<T> g, AttentionHeads<T> to) {
  FERRITE_DYNAMIC_SHARED(shared, T);
  T* const queries = shared;
  T* const grads = queries + Tiles::kOwn;
  T* const keys = grads + Tiles::kOwn;
  T* const values = keys + Tiles::kOther;
  T* const exchange = values + Tiles::kOther;

  const AttentionPlace place(p.heads, p.query.rows, Tiles::kRows, p.causal);
  const std::uint32_t b = place.b, h = place.h, group = h / p.group;
  const int column = static_cast<int>(blockIdx.y) * Tiles::kWidth;
  const int end = p.causal ? std::min(p.key.rows, place.row + Tiles::kRows) : p.key.rows;
  const PhiloxState state = p.state.resolved();
  typename Tiles::Results results = {};
  for (int key = 0; key < end; key += Tiles::kOthers) {
    typename Tiles::Weights w, d;
    multiply_all<Tiles>(d, grads, g.grad.from(b, h, place.row), values, p.value.from(b, group, key),
                        key == 0, [] {});
    multiply_all<Tiles>(w, queries, p.query.from(b, h, place.row), keys, p.key.from(b, group, key),
                        key == 0, [] {});
    weight_gradients<Tiles, false>(p, g, state, b, h, place.row, key, w, d);
    select_columns<Tiles>(keys, p.key.from(b, group, key), column);
    multiply_weights<Tiles>(results, d, keys, exchange);
  }
  store_results<Tiles>(to, b, h, place.row, column, results, p.scale);
}

template <class Tiles, class T>
__global__ void __launch_bounds__(Tiles::kThreads)
    attention_key_gradient(AttentionProblem<T> p, AttentionGradient<T> g, AttentionHeads<T> to_key,
                           AttentionHeads<T> to_value) {
  FERRITE_DYNAMIC_SHARED(shared, T);
  T* const keys = shared;
  T* const values = keys + Tiles::kOwn;
  T* const queries = values + Tiles::kOwn;
  T* const grads = queries + Tiles::kOther;
  T* const exchange = grads + Tiles::kOther;

  const AttentionPlace place(p.heads / p.group, p.key.rows, Tiles::kRows, false);
  const std::uint32_t b = place.b;
  const int column = static_cast<int>(blockIdx.y) * Tiles::kWidth;
  const int begin = p.causal ? place.row / Tiles::kOthers * Tiles::kOthers : 0;
  const PhiloxState state = p.state.resolved();
  typename Tiles::Results by_key = {}, by_value = {};
  bool first = true;
  for (std::uint32_t h = place.h * p.group; h < (place.h + 1) * p.group; ++h)
    for (int query = begin; query < p.query.rows; query += Tiles::kOthers, first = false) {
      typename Tiles::Weights w, d;
      multiply_all<Tiles>(d, values, p.value.from(b, place.h, place.row), grads,
                          g.grad.from(b, h, query), first, [] {});
      multiply_all<Tiles>(w, keys, p.key.from(b, place.h, place.row), queries,
                          p.query.from(b, h, query), first, [] {});
      weight_gradients<Tiles, true>(p, g, state, b, h, place.row, query, w, d);
      if (to_value.data && column < p.value.width) {
        select_columns<Tiles>(grads, g.grad.from(b, h, query), column);
        multiply_weights<Tiles>(by_value, w, grads, exchange);
      }
      if (to_key.data && column < p.key.width) {
        select_columns<Tiles>(queries, p.query.from(b, h, query), column);
        multiply_weights<Tiles>(by_key, d, queries, exchange);
      }
    }
  if (to_key.data) store_results<Tiles>(to_key, b, place.h, place.row, column, by_key, p.scale);
  if (to_value.data)
    store_results<Tiles>(to_value, b, place.h, place.row, column, by_value, Compute<T>(1));
}

template <class T>
AttentionHeads<T> optional_heads(const View& v) {
  return v.data ? AttentionHeads<T>(v) : AttentionHeads<T>();
}

}  // namespace

void attention_backward(const Stream& stream, const AttentionOperands& operands,
                        const AttentionGradients& gradients, const View& grad_out, const View& out,
                        const View& lse) {
  if (vendor::attention_backward(stream, operands, gradients, grad_out, out, lse)) return;
  dispatch_floating(out.dtype, "scaled_dot_product_attention", [&]<class T>() {
    using C = Compute<T>;
    const AttentionProblem<T> p(operands);
    const std::int64_t rows = out.sizes[0] * out.sizes[1] * out.sizes[2];
    const Workspace means(stream, sizeof(C) * static_cast<std::size_t>(rows));
    const AttentionGradient<T> g{AttentionHeads<T>(grad_out), AttentionHeads<T>(out), lse.as<C>(),
                                 means.as<C>()};
    launch({"attention_means", stream, blocks_for(rows, kMeanThreads / kWarp), kMeanThreads},
           attention_means<T>, g, p.heads, rows);
    const int e = p.key.width, v = p.value.width;
    const auto batch = static_cast<unsigned>(out.sizes[0]);
    with_attention_tiles<T>(std::max(e, v), [&]<class Tiles>() {
      constexpr std::size_t kShared =
          sizeof(T) * (2 * Tiles::kOwn + 2 * Tiles::kOther + Tiles::kWeights);
      if (gradients.query.data)
        launch({"attention_query_gradient", stream,
                dim3(blocks_for(p.query.rows, Tiles::kRows) * batch * p.heads,
                     blocks_for(e, Tiles::kWidth)),
                Tiles::kThreads, kShared},
               attention_query_gradient<Tiles, T>, p, g, AttentionHeads<T>(gradients.query));
      if (gradients.key.data || gradients.value.data)
        launch({"attention_key_gradient", stream,
                dim3(blocks_for(p.key.rows, Tiles::kRows) * batch * (p.heads / p.group),
                     blocks_for(std::max(e, v), Tiles::kWidth)),
                Tiles::kThreads, kShared},
               attention_key_gradient<Tiles, T>, p, g, optional_heads<T>(gradients.key),
               optional_heads<T>(gradients.value));
    });
  });
}

}  // namespace ferrite::kernels::cuda
