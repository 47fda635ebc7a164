// A tiled product on the CUDA cores; each thread holds its part of the tile in registers.
#pragma once

#include "ferrite/kernels/cuda/tile.cuh"

namespace ferrite::kernels::cuda {

/// A slice in shared memory is [Depth][tile_pitch]: padded, so that threads that copy along the
/// depth write to different banks.
template <class T>
constexpr int tile_pitch(int rows) {
  return rows + kPackBytes / static_cast<int>(sizeof(T));
}

/// The sizes of the tiles of a block, a warp and a thread.
template <class Value, int Rows, int Columns, int WarpRows, int WarpColumns, int ThreadRows,
          int ThreadColumns, int BlocksAnSm>
struct Tile {
  using Element = Value;
  using T = Value;
  static constexpr int kRows = Rows, kColumns = Columns, kDepth = 8, kStages = kTileStages;
  static constexpr int kWarpRows = WarpRows, kWarpColumns = WarpColumns;
  static constexpr int kThreadRows = ThreadRows, kThreadColumns = ThreadColumns;
  static constexpr int kLaneRows = WarpRows / ThreadRows;
  static constexpr int kLaneColumns = WarpColumns / ThreadColumns;
  static constexpr int kWarpsAcross = Columns / WarpColumns;
  static constexpr int kThreads = Rows / WarpRows * kWarpsAcross * kWarp;
  static constexpr int kBlocksAnSm = BlocksAnSm;
  static constexpr int kFill = 256 / kThreads;
  // A thread's rows and columns are in runs of 16 bytes; the runs of the other lanes lie between
  // them.
  static constexpr int kRun = kPackBytes / static_cast<int>(sizeof(T));
  static constexpr int kBand = kLaneRows * kRun, kPasses = ThreadRows / kRun;
  static constexpr int kColumnsAt = kDepth * tile_pitch<T>(Rows);
  static constexpr int kStageElements = kColumnsAt + kDepth * tile_pitch<T>(Columns);
  static constexpr std::size_t kSharedBytes =
      sizeof(T) * std::max(kStages * kStageElements,
                           detail::pass_elements<T>(Rows / WarpRows * kBand, Columns));
  static_assert(kLaneRows * kLaneColumns == kWarp);
  static_assert(ThreadRows % kRun == 0 && ThreadColumns % kRun == 0);
};

namespace detail {

/// Adds the products of one slice to a thread's sums.
template <class Tile, class T>
__device__ __forceinline__ void multiply_slice(const T* rows, const T* columns,
                                               T (&sum)[Tile::kThreadRows][Tile::kThreadColumns]) {
  constexpr int kRun = Tile::kRun;
#pragma unroll
  for (int k = 0; k < Tile::kDepth; ++k) {
    Pack<T, kRun> a[Tile::kThreadRows / kRun], b[Tile::kThreadColumns / kRun];
#pragma unroll
    for (int i = 0; i < Tile::kThreadRows / kRun; ++i)
      a[i] = load_pack<kRun>(rows + k * tile_pitch<T>(Tile::kRows) + i * Tile::kBand);
#pragma unroll
    for (int j = 0; j < Tile::kThreadColumns / kRun; ++j)
      b[j] = load_pack<kRun>(columns + k * tile_pitch<T>(Tile::kColumns) +
                             j * Tile::kLaneColumns * kRun);
#pragma unroll
    for (int i = 0; i < Tile::kThreadRows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::kThreadColumns; ++j)
        sum[i][j] += a[i / kRun].v[i % kRun] * b[j / kRun].v[j % kRun];
  }
}

}  // namespace detail

/// One tile of out = a b, or of a part of its depth.
template <class Tile, class A, class B, class Out>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksAnSm)
    tile_product(A a, B b, Out out, TileGrid<typename Tile::T> grid) {
  using T = typename Tile::T;
  constexpr int kRun = Tile::kRun;
  const TilePlace place = TilePlace::of_block<Tile>(grid);
  const std::uint32_t batch = place.batch;
  if (place.row >= out.rows(batch) || place.column >= out.columns(batch)) return;
  const std::uint32_t end = std::min(a.depth(batch), place.begin + grid.depth_step);
  auto load_rows = a.template loader<Tile::kRows, Tile::kDepth, Tile::kThreads>(batch, place.row,
                                                                                place.begin, end);
  auto load_columns = b.template loader<Tile::kColumns, Tile::kDepth, Tile::kThreads>(
      batch, place.column, place.begin, end);

  FERRITE_DYNAMIC_SHARED(shared, T);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp_row = warp / Tile::kWarpsAcross, lane_row = lane / Tile::kLaneColumns * kRun;
  const int row = warp_row * Tile::kWarpRows + lane_row;
  const int column =
      warp % Tile::kWarpsAcross * Tile::kWarpColumns + lane % Tile::kLaneColumns * kRun;
  T sum[Tile::kThreadRows][Tile::kThreadColumns] = {};
  detail::for_each_slice<Tile>(
      shared, place.begin, end, load_rows, load_columns, [&](const T* stage) {
        detail::multiply_slice<Tile>(stage + row, stage + Tile::kColumnsAt + column, sum);
      });
  detail::store_tile<Tile>(
      shared, detail::TileStore<T, Out>{out, grid, batch}, place, [&](int pass, const auto& put) {
#pragma unroll
        for (int i = 0; i < kRun; ++i)
#pragma unroll
          for (int j = 0; j < Tile::kThreadColumns; ++j)
            put(warp_row * Tile::kBand + lane_row + i,
                column + j / kRun * Tile::kLaneColumns * kRun + j % kRun, sum[pass * kRun + i][j]);
      });
}

}  // namespace ferrite::kernels::cuda
