#include "ferrite/core/error.h"
#include "ferrite/kernels/cuda/matmul_tiles.cuh"
#include "ferrite/kernels/cuda/relu_mask.cuh"
#include "ferrite/kernels/linear_gradients.h"

namespace ferrite::kernels::cuda {

namespace {

using native::MatrixProduct, native::MatrixView;

/// What a group of warps computes: a tile, from a quarter of each slice.
using Part = Tile<float, 32, 32, 32, 16, 4, 4, 2>;

/// Such small products have few tiles. Many warps a tile keep the multiprocessors busy.
struct SplitTile : Part {
  static constexpr int kGroups = 4;
  static constexpr int kThreads = kGroups * Part::kThreads, kDepth = kGroups * Part::kDepth;
  static constexpr int kColumnsAt = kDepth * tile_pitch<float>(kRows);
  static constexpr int kStageElements = kColumnsAt + kDepth * tile_pitch<float>(kColumns);
  static constexpr std::size_t kSharedBytes = sizeof(float) * kStages * kStageElements;
  static_assert(kRows == kWarp, "a lane adds up a row");
};

constexpr int kWarps = SplitTile::kThreads / kWarp;
using Sums = float[SplitTile::kThreadRows][SplitTile::kThreadColumns];
using Elements = MatrixOperand<float, SplitTile::kRows, SplitTile::kDepth, SplitTile::kThreads>;
using Packs = PackedOperand<float, SplitTile::kRows, SplitTile::kDepth, SplitTile::kThreads>;

/// The gradient of a ReLU's input, or of its result where `relu` is null.
struct MaskedOutput : TileOutput<float, float, MatrixMap> {
  const float* relu;  ///< the ReLU's results, at the offsets of the gradients

  template <int N, Along along>
  __device__ __forceinline__ void store(std::uint32_t batch, std::uint32_t row,
                                        std::uint32_t column, Pack<float, N> sums) const {
    if (relu) {
      const Pack<float, N> y = load_pack<N>(relu + map.offset(batch, row, column));
#pragma unroll
      for (int i = 0; i < N; ++i) sums.v[i] = pass(sums.v[i], y.v[i]);
    }
    TileOutput::store<N, along>(batch, row, column, sums);
  }
};

/// The products; the sums of the rows of the weight's left operand are the gradient of the bias.
template <class Dense>
struct Products {
  Elements grad;
  Dense weight;
  MaskedOutput grad_input;
  Dense grad_by_outs, input;
  TileOutput<float, float, MatrixMap> grad_weight;
  float* grad_bias;
  std::int64_t bias_step;
  std::uint32_t input_tiles_across, weight_tiles_across, weight_tiles;
};

__device__ __forceinline__ TilePlace place_of(std::uint32_t tile, std::uint32_t tiles_across) {
  const std::uint32_t row = tile / tiles_across;
  return {0, row * SplitTile::kRows, (tile - row * tiles_across) * SplitTile::kColumns, 0};
}

/// Adds to the sums of the first group of warps those of the others, in order.
__device__ __forceinline__ void add_groups(float* shared, Sums& sum) {
  constexpr int kRun = SplitTile::kRun;
  static_assert(SplitTile::kThreadColumns == kRun);
  const int group = static_cast<int>(threadIdx.x) / Part::kThreads;
  float* const own = shared + static_cast<int>(threadIdx.x) % Part::kThreads * kRun;
  const auto at = [&](int of, int row) {
    return own + ((of - 1) * SplitTile::kThreadRows + row) * Part::kThreads * kRun;
  };
  __syncthreads();
#pragma unroll
  for (int i = 0; i < SplitTile::kThreadRows; ++i)
    if (group > 0) {
      Pack<float, kRun> values;
#pragma unroll
      for (int j = 0; j < kRun; ++j) values.v[j] = sum[i][j];
      store_shared_pack<kRun>(at(group, i), values);
    }
  __syncthreads();
  if (group > 0) return;
#pragma unroll
  for (int of = 1; of < SplitTile::kGroups; ++of)
#pragma unroll
    for (int i = 0; i < SplitTile::kThreadRows; ++i) {
      const Pack<float, kRun> values = load_pack<kRun>(at(of, i));
#pragma unroll
      for (int j = 0; j < kRun; ++j) sum[i][j] += values.v[j];
    }
}

/// Computes and stores the tile at `place` of a b; see(slice) is shown all slices.
template <class A, class B, class Out, class See>
__device__ __forceinline__ void compute_tile(float* shared, const TilePlace& place, const A& a,
                                             const B& b, const Out& out, const See& see) {
  constexpr int kRun = SplitTile::kRun;
  const std::uint32_t depth = a.depth(0);
  auto load_rows = a.template loader<SplitTile::kRows, SplitTile::kDepth, SplitTile::kThreads>(
      0, place.row, 0, depth);
  auto load_columns =
      b.template loader<SplitTile::kColumns, SplitTile::kDepth, SplitTile::kThreads>(
          0, place.column, 0, depth);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int group = thread / Part::kThreads;
  const int row = lane / Part::kLaneColumns * kRun;
  const int column =
      thread / kWarp % Part::kWarpsAcross * Part::kWarpColumns + lane % Part::kLaneColumns * kRun;
  const int rows_at = group * Part::kColumnsAt + row;
  const int columns_at =
      SplitTile::kColumnsAt + group * Part::kDepth * tile_pitch<float>(Part::kColumns) + column;
  Sums sum = {};
  detail::for_each_slice<SplitTile>(
      shared, 0, depth, load_rows, load_columns, [&](const float* stage) {
        detail::multiply_slice<Part>(stage + rows_at, stage + columns_at, sum);
        see(stage);
      });
  add_groups(shared, sum);
  detail::store_tile<SplitTile>(shared, detail::TileStore<float, Out>{out, TileGrid<float>{}, 0},
                                place, [&](int, const auto& put) {
                                  if (group > 0) return;
#pragma unroll
                                  for (int i = 0; i < Part::kThreadRows; ++i)
#pragma unroll
                                    for (int j = 0; j < Part::kThreadColumns; ++j)
                                      put(row + i, column + j, sum[i][j]);
                                });
}

/// Stores the sums of a tile's 32 rows, of which each warp has those of some depths.
__device__ __forceinline__ void store_row_sums(float* to, std::int64_t step, std::uint32_t rows,
                                               float sum) {
  FERRITE_SHARED(shared, float[kWarps][kWarp]);
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || lane >= rows) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += shared[w][lane];
  to[lane * step] = sum;
}

/// The tiles of the weight's gradient, whose sums are longer for most batches, then the input's.
template <class Dense>
__global__ void __launch_bounds__(SplitTile::kThreads, SplitTile::kBlocksAnSm)
    compute_products(Products<Dense> p) {
  FERRITE_DYNAMIC_SHARED(shared, float);
  if (blockIdx.x >= p.weight_tiles) {
    compute_tile(shared, place_of(blockIdx.x - p.weight_tiles, p.input_tiles_across), p.grad,
                 p.weight, p.grad_input, [](const float*) {});
    return;
  }
  const TilePlace place = place_of(blockIdx.x, p.weight_tiles_across);
  const bool adds_rows = p.grad_bias && place.column == 0;
  float row_sum = 0;
  compute_tile(shared, place, p.grad_by_outs, p.input, p.grad_weight, [&](const float* stage) {
    if (!adds_rows) return;
    constexpr int kEach = SplitTile::kDepth / kWarps;
    const int first = static_cast<int>(threadIdx.x) / kWarp * kEach;
    const float* const rows = stage + static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      row_sum += rows[(first + k) * tile_pitch<float>(SplitTile::kRows)];
  });
  if (adds_rows)
    store_row_sums(p.grad_bias + place.row * p.bias_step, p.bias_step,
                   p.grad_weight.rows(0) - place.row, row_sum);
}

/// An operand with the rows of `m`, by element or by pack.
template <class Operand>
Operand operand(const MatrixView& m) {
  const auto* const data = static_cast<const float*>(m.data);
  if constexpr (std::is_same_v<Operand, Packs>)
    return {data, m.rows, m.columns, m.column_step};
  else
    return native::row_operand<float, SplitTile::kRows, SplitTile>(m);
}

template <class Dense>
void run(const Stream& stream, const LinearGradients& out, const View& grad, const View& input,
         const View& weight) {
  constexpr int kRun = SplitTile::kRun;
  const MatrixView by_outs = MatrixView(grad).transposed();
  Products<Dense> p{
      .grad = operand<Elements>(MatrixView(grad)),
      .weight = operand<Dense>(MatrixView(weight).transposed()),
      .grad_input = {MatrixProduct<float, float>(out.input, grad, weight, {}).output(kRun),
                     out.after_relu ? input.as<float>() : nullptr},
      .grad_by_outs = operand<Dense>(by_outs),
      .input = operand<Dense>(MatrixView(input).transposed()),
      .grad_weight =
          MatrixProduct<float, float>(out.weight, transposed(grad), input, {}).output(kRun),
      .grad_bias = out.bias.as<float>(),
      .bias_step = out.bias.data ? out.bias.strides[0] : 0,
      .input_tiles_across = blocks_for(input.sizes[1], SplitTile::kColumns),
      .weight_tiles_across = std::max(1u, blocks_for(input.sizes[1], SplitTile::kColumns)),
      .weight_tiles = 0};
  p.grad_input.order.packed = p.grad_input.order.packed && is_aligned(p.grad_input.relu, kRun);
  p.weight_tiles = p.weight_tiles_across * blocks_for(grad.sizes[1], SplitTile::kRows);
  const unsigned input_tiles = p.input_tiles_across * blocks_for(grad.sizes[0], SplitTile::kRows);
  launch({"linear_gradients", stream, p.weight_tiles + input_tiles, SplitTile::kThreads,
          SplitTile::kSharedBytes},
         compute_products<Dense>, p);
}

}  // namespace

void linear_gradients(const Stream& stream, const LinearGradients& out, const View& grad,
                      const View& input, const View& weight) {
  FERRITE_CHECK(grad.dtype == kFloat32, DTypeError, "linear_gradients",
                "expected float32 on a CUDA device, got {}", name(grad.dtype));
  const auto packs = [](const MatrixView& m) {
    return can_pack(static_cast<const float*>(m.data), m.row_step, m.column_step);
  };
  if (packs(MatrixView(weight).transposed()) && packs(MatrixView(grad).transposed()) &&
      packs(MatrixView(input).transposed()))
    run<Packs>(stream, out, grad, input, weight);
  else
    run<Elements>(stream, out, grad, input, weight);
}

}  // namespace ferrite::kernels::cuda
