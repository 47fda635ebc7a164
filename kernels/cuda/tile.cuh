// The common part of tiled products on CUDA cores (tile_product.cuh) and on tensor cores
// (tile_mma.cuh); matmul and the convolutions share both.
//
// A block computes a tile of the result from slices of its operands of depth kDepth, which it
// copies into shared memory several slices ahead of the arithmetic. Operands know the addresses of
// their elements: an operand has depth(batch), and loader<Rows, Depth, Threads>(batch, row, begin,
// end), an object that fills slices with a block's rows from depth `begin` on, and with zeros from
// `end` on. The columns of a product are the rows of its second operand.
//
// A Tile has
//   Element, T       types of the factors and of the sums
//   kRows, kColumns  of the block's results; kThreads, kBlocksAnSm
//   kFill            blocks that keep a GPU as busy as one of 256 threads
//   kDepth, kStages  depth of a slice, and number of slices in shared memory
//   kColumnsAt, kStageElements  offset of the second operand's slice in a stage; size of a stage
//   kWarpRows, kBand, kPasses   a warp stores kBand rows at a time, in kPasses passes
//   kRun             how many results a thread stores at once where possible
#pragma once

#include <algorithm>

#include "ferrite/kernels/cuda/async_copy.cuh"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/tile_output.cuh"

namespace ferrite::kernels::cuda {

/// The number of slices in shared memory.
inline constexpr int kTileStages = 4;

/// A block's tile: its product, first row and column, and range of the depth. Tiles are ordered in
/// bands of a few rows, so that blocks that run at the same time read the same operands.
struct TilePlace {
  std::uint32_t batch, row, column, begin;

  template <class Tile, class T>
  __device__ static TilePlace of_block(const TileGrid<T>& grid) {
    constexpr std::uint32_t kBand = 8;
    const std::uint32_t band = blockIdx.x / (kBand * grid.column_tiles);
    const std::uint32_t in_band = blockIdx.x - band * kBand * grid.column_tiles;
    const std::uint32_t height = std::min(kBand, grid.row_tiles - band * kBand);
    const std::uint32_t column = in_band / height;
    return {grid.first_batch + blockIdx.y, (band * kBand + in_band - column * height) * Tile::kRows,
            column * Tile::kColumns, blockIdx.z * grid.depth_step};
  }
};

namespace detail {

/// Calls multiply(stage) for every slice from `begin` to `end`, in order. `shared` has room for
/// Tile::kStages stages.
template <class Tile, class S, class LoadRows, class LoadColumns, class Multiply>
__device__ __forceinline__ void for_each_slice(S* shared, std::uint32_t begin, std::uint32_t end,
                                               LoadRows& load_rows, LoadColumns& load_columns,
                                               Multiply&& multiply) {
  constexpr unsigned kStages = Tile::kStages;
  const unsigned slices = end > begin ? (end - begin - 1) / Tile::kDepth + 1 : 0;
  const auto plan = [&](int ahead) {
    if constexpr (LoadRows::kPlans) load_rows.plan(ahead);
    if constexpr (LoadColumns::kPlans) load_columns.plan(ahead);
  };
  const auto fetch = [&](S* stage) {
    load_rows.fetch(stage);
    load_columns.fetch(stage + Tile::kColumnsAt);
  };
  if constexpr (LoadRows::kPlans || LoadColumns::kPlans) {
    for (int s = 0; s < Tile::kStages; ++s) plan(s);
    __syncthreads();
  }
#pragma unroll
  for (unsigned s = 0; s < kStages - 1; ++s) {
    if (s < slices) fetch(shared + s * Tile::kStageElements);
    async_commit();
  }
  for (unsigned slice = 0; slice < slices; ++slice) {
    async_wait<kStages - 2>();
    __syncthreads();  // this slice has arrived, and all threads have finished the previous one
    if (slice + kStages - 1 < slices) {
      fetch(shared + (slice + kStages - 1) % kStages * Tile::kStageElements);
      plan(0);
    }
    async_commit();
    multiply(shared + slice % kStages * Tile::kStageElements);
  }
}

/// Stores partial sums if the grid asks for them, else results.
template <class T, class Out>
struct TileStore {
  const Out& out;
  const TileGrid<T>& grid;
  std::uint32_t batch;

  template <int N, Along along>
  __device__ __forceinline__ void store(std::uint32_t row, std::uint32_t column,
                                        const Pack<T, N>& sums) const {
    if (grid.partial)  // always along columns
      store_pack<N>(grid.partial_row(blockIdx.z, batch, row) + column, sums);
    else
      out.template store<N, along>(batch, row, column, sums);
  }
};

/// The rows of a tile that one pass stores: kBand of each row of warps.
template <class Tile>
struct TilePass {
  static constexpr int kRows = Tile::kRows / Tile::kWarpRows * Tile::kBand;

  static __device__ int row_in_tile(int row, int pass) {
    return row / Tile::kBand * Tile::kWarpRows + pass * Tile::kBand + row % Tile::kBand;
  }
};

/// The shared memory for reordering results before they are stored, in elements of T.
template <class T>
constexpr int pass_elements(int rows, int columns) {
  constexpr int kPad = kPackBytes / static_cast<int>(sizeof(T));
  return std::max(rows * (columns + kPad), columns * (rows + kPad));
}

/// Stores the results of a pass from shared memory, N at a time.
template <class Tile, int N, Along along, class T, class Store>
__device__ __forceinline__ void store_lines(const T* shared, const Store& store,
                                            const TilePlace& place, int pass, std::uint32_t rows,
                                            std::uint32_t columns) {
  using Pass = TilePass<Tile>;
  constexpr int kLength = along == Along::columns ? Tile::kColumns : Pass::kRows;
  constexpr int kLines = along == Along::columns ? Pass::kRows : Tile::kColumns;
  constexpr int kAcross = std::min(kLength / N, Tile::kThreads), kDown = Tile::kThreads / kAcross;
  static_assert(kAcross * N == kLength && kAcross * kDown == Tile::kThreads);
  const int at = static_cast<int>(threadIdx.x) % kAcross * N;
#pragma unroll 1
  for (int line = static_cast<int>(threadIdx.x) / kAcross; line < kLines; line += kDown) {
    const int row_in_pass = along == Along::columns ? line : at;
    const std::uint32_t row = place.row + Pass::row_in_tile(row_in_pass, pass);
    const std::uint32_t column = place.column + (along == Along::columns ? at : line);
    if (row < rows && column < columns)
      store.template store<N, along>(
          row, column,
          load_pack<N>(shared + line * (kLength + kPackBytes / static_cast<int>(sizeof(T))) + at));
  }
}

/// Reorders a tile's sums for storing, through shared memory; all threads must have finished the
/// last slice. write(pass, put) must call put(row, column, sum) for the thread's results of a pass;
/// rows count within the pass, columns within the tile.
template <class Tile, class T, class Out, class Write>
__device__ __forceinline__ void store_tile(T* shared, const TileStore<T, Out>& store,
                                           const TilePlace& place, const Write& write) {
  using Pass = TilePass<Tile>;
  constexpr int kPad = kPackBytes / static_cast<int>(sizeof(T)), kRun = Tile::kRun;
  const std::uint32_t rows = store.out.rows(store.batch), columns = store.out.columns(store.batch);
  const StoreOrder order = store.grid.partial ? store.grid.template order<kRun>() : store.out.order;
  const int row_step = order.along == Along::columns ? Tile::kColumns + kPad : 1;
  const int column_step = order.along == Along::columns ? 1 : Pass::kRows + kPad;
#pragma unroll
  for (int pass = 0; pass < Tile::kPasses; ++pass) {
    __syncthreads();
    write(pass,
          [&](int row, int column, T sum) { shared[row * row_step + column * column_step] = sum; });
    __syncthreads();
    const auto lines = [&]<int N, Along along>() {
      store_lines<Tile, N, along>(shared, store, place, pass, rows, columns);
    };
    if (order.along == Along::columns)
      order.packed ? lines.template operator()<kRun, Along::columns>()
                   : lines.template operator()<1, Along::columns>();
    else
      order.packed ? lines.template operator()<kRun, Along::rows>()
                   : lines.template operator()<1, Along::rows>();
  }
}

}  // namespace detail

}  // namespace ferrite::kernels::cuda
