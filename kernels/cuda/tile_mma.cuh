// A tiled product of 16-bit types on the tensor cores, with sums in float.
//
// A slice in shared memory consists of lines of 16-byte chunks, in which the chunks are permuted so
// that the eight rows of a matrix load are in different banks. A line is a row of the operand if
// the depth is dense in memory, else one depth index.
#pragma once

#include "ferrite/kernels/cuda/mma.cuh"
#include "ferrite/kernels/cuda/tile.cuh"

namespace ferrite::kernels::cuda {

/// Elements of a chunk.
inline constexpr int kChunk = 8;

/// The layout of chunks in a slice.
template <int Rows, int Depth, bool AlongDepth>
struct SliceLayout {
  static constexpr int kLines = AlongDepth ? Rows : Depth;
  static constexpr int kChunks = (AlongDepth ? Depth : Rows) / kChunk;  // a line
  static constexpr int kLinesABank = std::max(1, 8 / kChunks);          // lines in 128 bytes
  /// Lines so far apart are permuted alike.
  static constexpr int kPeriod = kLinesABank * std::min(kChunks, 8);
  static_assert((kChunks & (kChunks - 1)) == 0 && kChunks >= 2);

  /// In elements.
  static __device__ int at(int line, int chunk) {
    return (line * kChunks + (chunk ^ (line / kLinesABank % std::min(kChunks, 8)))) * kChunk;
  }
};

/// The sizes of the tiles of a block and a warp.
template <class S, int Rows, int Columns, int WarpRows, int WarpColumns, int BlocksAnSm>
struct MmaTile {
  using Element = S;
  using T = float;
  static constexpr int kRows = Rows, kColumns = Columns, kDepth = 32, kStages = kTileStages;
  static constexpr int kWarpRows = WarpRows, kWarpColumns = WarpColumns;
  static constexpr int kWarpsAcross = Columns / WarpColumns;
  static constexpr int kThreads = Rows / WarpRows * kWarpsAcross * kWarp;
  static constexpr int kBlocksAnSm = BlocksAnSm;
  static constexpr int kFill = std::min(256 / kThreads, (BlocksAnSm + 1) / 2);
  static constexpr int kRun = 4;
  static constexpr int kBand = std::min(WarpRows, 32), kPasses = WarpRows / kBand;
  static constexpr int kColumnsAt = kDepth * Rows;
  static constexpr int kStageElements = kColumnsAt + kDepth * Columns;
  static constexpr std::size_t kSharedBytes =
      std::max(sizeof(S) * kStages * kStageElements,
               sizeof(T) * detail::pass_elements<T>(Rows / WarpRows * kBand, Columns));
  static_assert(WarpRows % 16 == 0 && WarpColumns % 16 == 0);
};

namespace detail {

/// Rows [row, row + 16) and depths [k, k + 16) of a slice as four fragments, in the order in which
/// a product takes them in adjacent registers: of its left factor rows 0-7 and rows 8-15 of depths
/// 0-7, then the same rows of depths 8-15; of its right factors depths 0-7 and 8-15 of rows 0-7,
/// then of rows 8-15.
template <class Layout, bool AlongDepth, bool Left, class S>
__device__ __forceinline__ void load_square(unsigned (&fragments)[4], const S* slice, int row,
                                            int k) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int second = lane / 8 % 2 * 8, third = lane / 16 * 8;
  row += Left ? second : third;
  k += Left ? third : second;
  if constexpr (AlongDepth)
    load_fragments<false>(fragments, slice + Layout::at(row + lane % 8, k / kChunk));
  else
    load_fragments<true>(fragments, slice + Layout::at(k + lane % 8, row / kChunk));
}

/// A warp's share of multiplying one slice.
template <class Tile, bool RowsAlong, bool ColumnsAlong, class S>
__device__ __forceinline__ void multiply_slice(
    const S* rows, const S* columns, int row, int column,
    float (&sum)[Tile::kWarpRows / 16][Tile::kWarpColumns / 8][4]) {
  using RowLayout = SliceLayout<Tile::kRows, Tile::kDepth, RowsAlong>;
  using ColumnLayout = SliceLayout<Tile::kColumns, Tile::kDepth, ColumnsAlong>;
  constexpr int kDown = Tile::kWarpRows / 16, kAcross = Tile::kWarpColumns / 16;
#pragma unroll
  for (int k = 0; k < Tile::kDepth; k += 16) {
    unsigned a[kDown][4], b[kAcross][4];
#pragma unroll
    for (int i = 0; i < kDown; ++i)
      load_square<RowLayout, RowsAlong, true>(a[i], rows, row + 16 * i, k);
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
      load_square<ColumnLayout, ColumnsAlong, false>(b[j], columns, column + 16 * j, k);
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < 2 * kAcross; ++j) {
        const unsigned(&pair)[4] = b[j / 2];
        const unsigned right[2] = {pair[j % 2 * 2], pair[j % 2 * 2 + 1]};
        multiply_fragments<S>(sum[i][j], a[i], right);
      }
  }
}

}  // namespace detail

/// One tile of out = a b, or of a part of its depth.
template <class Tile, class A, class B, class Out>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksAnSm)
    tile_mma(A a, B b, Out out, TileGrid<float> grid) {
  using S = typename Tile::Element;
  const TilePlace place = TilePlace::of_block<Tile>(grid);
  const std::uint32_t batch = place.batch;
  if (place.row >= out.rows(batch) || place.column >= out.columns(batch)) return;
  const std::uint32_t end = std::min(a.depth(batch), place.begin + grid.depth_step);
  auto load_rows = a.template loader<Tile::kRows, Tile::kDepth, Tile::kThreads>(batch, place.row,
                                                                                place.begin, end);
  auto load_columns = b.template loader<Tile::kColumns, Tile::kDepth, Tile::kThreads>(
      batch, place.column, place.begin, end);

  FERRITE_DYNAMIC_SHARED(shared, unsigned char);
  S* const slices = reinterpret_cast<S*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp_row = warp / Tile::kWarpsAcross;
  const int warp_column = warp % Tile::kWarpsAcross * Tile::kWarpColumns;
  float sum[Tile::kWarpRows / 16][Tile::kWarpColumns / 8][4] = {};
  detail::for_each_slice<Tile>(
      slices, place.begin, end, load_rows, load_columns, [&](const S* stage) {
        detail::multiply_slice<Tile, A::kAlongDepth, B::kAlongDepth>(
            stage, stage + Tile::kColumnsAt, warp_row * Tile::kWarpRows, warp_column, sum);
      });
  // Lane 4 r + c has columns 2 c and 2 c + 1 of rows r and r + 8 of each product.
  detail::store_tile<Tile>(
      reinterpret_cast<float*>(shared), detail::TileStore<float, Out>{out, grid, batch}, place,
      [&](int pass, const auto& put) {
        constexpr int kDown = Tile::kBand / 16;
#pragma unroll
        for (int i = 0; i < kDown; ++i)
#pragma unroll
          for (int j = 0; j < Tile::kWarpColumns / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              put(warp_row * Tile::kBand + 16 * i + lane / 4 + e / 2 * 8,
                  warp_column + 8 * j + lane % 4 * 2 + e % 2, sum[pass * kDown + i][j][e]);
      });
}

}  // namespace ferrite::kernels::cuda
