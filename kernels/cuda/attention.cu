#include "ferrite/kernels/cuda/attention_operands.cuh"
#include "ferrite/kernels/cuda/vendor/cudnn.h"

namespace ferrite::kernels::cuda {

namespace {

template <class Tiles, class T>
__global__ void __launch_bounds__(Tiles::kThreads)
    attention_kernel(AttentionProblem<T> p, AttentionHeads<T> out, Compute<T>* lse) {
  using C = Compute<T>;
  constexpr C kNever = -std::numeric_limits<C>::infinity();
  FERRITE_DYNAMIC_SHARED(shared, T);
  T* const queries = shared;
  T* const keys = queries + Tiles::kOwn;
  T* const values = keys + Tiles::kOther;
  T* const exchange = values + Tiles::kOther;

  const AttentionPlace place(p.heads, p.query.rows, Tiles::kRows, p.causal);
  const std::uint32_t b = place.b, h = place.h, g = h / p.group;
  const int column = static_cast<int>(blockIdx.y) * Tiles::kWidth;
  const AttentionRows<T> own = p.query.from(b, h, place.row);
  const int end = p.causal ? std::min(p.key.rows, place.row + Tiles::kRows) : p.key.rows;
  const PhiloxState state = p.state.resolved();

  C top[2] = {kNever, kNever}, total[2] = {0, 0};
  typename Tiles::Results results = {};
  for (int key = 0; key < end; key += Tiles::kOthers) {
    typename Tiles::Weights w;
    multiply_all<Tiles>(w, queries, own, keys, p.key.from(b, g, key), key == 0, [&] {
      load_tile<Tiles, Tiles::kOthers>(values, p.value.from(b, g, key), column);
    });
    C highest[2] = {top[0], top[1]};
#pragma unroll
    for (int j = 0; j < Tiles::kOthers / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        C& x = w[j][e];
        x = p.score(x, b, h, place.row + Tiles::row_of(e), key + Tiles::column_of(j, e));
        if (x > highest[e / 2]) highest[e / 2] = x;
      }
    C shrink[2], origin[2], sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // The four lanes of a row.
      highest[i] = group_reduce(highest[i], 4, [](C x, C y) { return x > y ? x : y; });
      origin[i] = highest[i] == kNever ? C(0) : highest[i];
      shrink[i] = std::exp(top[i] - origin[i]);
      top[i] = highest[i];
    }
#pragma unroll
    for (int j = 0; j < Tiles::kOthers / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        C& x = w[j][e];
        x = std::exp(x - origin[e / 2]);
        sum[e / 2] += x;
        if (p.dropout)
          x *= p.kept(state, b, h, place.row + Tiles::row_of(e), key + Tiles::column_of(j, e));
      }
#pragma unroll
    for (int i = 0; i < 2; ++i) total[i] = total[i] * shrink[i] + group_reduce(sum[i], 4, Add());
#pragma unroll
    for (auto& four : results)
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] *= shrink[e / 2];
    multiply_weights<Tiles>(results, w, values, exchange);
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int q = place.row + Tiles::row_of(2 * i);
    if (q >= p.query.rows) continue;
    const C factor = total[i] != 0 ? 1 / total[i] : C(0);
    T* const to = out.at(b, h, q);
#pragma unroll
    for (int j = 0; j < Tiles::kWidth / 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = column + Tiles::column_of(j, e);
        if (c < out.width) to[c] = static_cast<T>(results[j][2 * i + e] * factor);
      }
    if (blockIdx.y == 0 && Tiles::lane() % 4 == 0)
      lse[p.row(b, h, q)] = total[i] != 0 ? top[i] + std::log(total[i]) : C(0);
  }
}

}  // namespace

void attention(const Stream& stream, const AttentionOperands& operands, const View& out,
               const View& lse) {
  if (vendor::attention(stream, operands, out, lse)) return;
  dispatch_floating(out.dtype, "scaled_dot_product_attention", [&]<class T>() {
    const AttentionProblem<T> p(operands);
    with_attention_tiles<T>(std::max(p.key.width, p.value.width), [&]<class Tiles>() {
      const unsigned blocks = blocks_for(p.query.rows, Tiles::kRows);
      const auto heads = static_cast<unsigned>(out.sizes[0] * out.sizes[1]);
      launch({"attention", stream, dim3(blocks * heads, blocks_for(p.value.width, Tiles::kWidth)),
              Tiles::kThreads, sizeof(T) * (Tiles::kOwn + 2 * Tiles::kOther + Tiles::kWeights)},
             attention_kernel<Tiles, T>, p, AttentionHeads<T>(out), lse.as<Compute<T>>());
    });
  });
}

}  // namespace ferrite::kernels::cuda
