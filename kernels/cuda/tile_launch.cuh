// Launches of tiled products. The depth is split into parts if there are too few tiles to fill a
// GPU.
#pragma once

#include <algorithm>
#include <optional>

#include "ferrite/kernels/cuda/tile_product.cuh"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

/// The sizes of a launch: a batch of products, each [rows, depth] by [depth, columns].
struct TileSizes {
  std::int64_t rows, columns, depth, batches = 1;
};

/// The split of the depth. It depends only on the sizes, so that results do not depend on the GPU.
struct DepthParts {
  std::int64_t count = 1, step;
};

/// Blocks of 256 threads that keep a large GPU busy.
inline constexpr std::int64_t kEnoughBlocks = 256;

/// Splits so that the `blocks` become about `enough` in all, with a depth of at least `min_step`
/// per part. Steps are multiples of the depth of any tile's slices.
inline DepthParts plan_parts(std::int64_t blocks, std::int64_t depth, std::int64_t min_step,
                             std::int64_t enough) {
  const std::int64_t wanted = blocks * 2 <= enough ? enough / blocks : 1;
  const std::int64_t parts = std::clamp<std::int64_t>(depth / min_step, 1, wanted);
  if (parts == 1) return {1, std::max<std::int64_t>(depth, 1)};
  constexpr std::int64_t kMultiple = 64;
  const std::int64_t step = ((depth - 1) / parts / kMultiple + 1) * kMultiple;
  return {(depth - 1) / step + 1, step};
}

template <class Tile>
std::int64_t tiles_of(const TileSizes& sizes) {
  return ((sizes.rows - 1) / Tile::kRows + 1) * ((sizes.columns - 1) / Tile::kColumns + 1);
}

template <class Tile>
DepthParts plan_parts(const TileSizes& sizes) {
  return plan_parts(tiles_of<Tile>(sizes) * sizes.batches, sizes.depth, 256,
                    kEnoughBlocks * Tile::kFill);
}

inline constexpr int kSumThreads = 256;
inline constexpr int kSumResults = kWarp;  // a block

/// Sums the parts of results in a fixed order and stores them. The lanes of a warp have adjacent
/// results; the warps of a block share the parts.
template <class T, class Out>
__global__ void __launch_bounds__(kSumThreads)
    sum_parts(Out out, TileGrid<T> grid, std::uint32_t parts, Divisor columns) {
  constexpr int kWarps = kSumThreads / kWarp;
  const std::uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::uint32_t batch = grid.first_batch + blockIdx.y;
  std::uint32_t row = blockIdx.x * kSumResults + lane;
  const std::uint32_t column = columns.split(row);
  const bool any = row < out.rows(batch) && column < out.columns(batch);
  Pack<T, 1> sum{};
  if (any) {
    const std::int64_t part_step = std::int64_t{grid.batches} * grid.rows * grid.columns;
    const T* from = grid.partial_row(0, batch, row) + column + warp * part_step;
#pragma unroll 4
    for (std::uint32_t part = warp; part < parts; part += kWarps, from += kWarps * part_step)
      sum.v[0] += *from;
  }
  FERRITE_SHARED(shared, T[kWarps][kWarp]);
  shared[warp][lane] = sum.v[0];
  __syncthreads();
  if (warp > 0 || !any) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum.v[0] += shared[w][lane];
  out.template store<1, Along::columns>(batch, row, column, sum);
}

/// Launches sum_parts for the partial sums of `grid`.
template <class T, class Out>
void launch_sum_parts(const Stream& stream, const Out& out, const TileGrid<T>& grid,
                      std::int64_t parts) {
  launch({"sum_parts", stream,
          dim3(blocks_for(std::int64_t{grid.rows} * grid.columns, kSumResults), grid.batches),
          kSumThreads},
         sum_parts<T, Out>, out, grid, static_cast<std::uint32_t>(parts), Divisor(grid.columns));
}

/// Calls launch_products(grid) for as many products of a batch at a time as a grid may have; `grid`
/// has the sizes and, if the depth is split, memory for partial sums, which are added afterwards.
template <class T, class Out, class Launch>
void launch_in_parts(const Stream& stream, const Out& out, const TileSizes& sizes,
                     const DepthParts& parts, const Launch& launch_products) {
  constexpr std::int64_t kMaxBatches = 65535;
  for (std::int64_t first = 0; first < sizes.batches; first += kMaxBatches) {
    const std::int64_t batches = std::min(kMaxBatches, sizes.batches - first);
    TileGrid<T> grid{};
    grid.first_batch = static_cast<std::uint32_t>(first);
    grid.batches = static_cast<std::uint32_t>(batches);
    grid.depth_step = static_cast<std::uint32_t>(parts.step);
    grid.rows = static_cast<std::uint32_t>(sizes.rows);
    grid.columns = static_cast<std::uint32_t>(sizes.columns);
    std::optional<Workspace> partial;
    if (parts.count > 1) {
      partial.emplace(stream, sizeof(T) * static_cast<std::size_t>(parts.count * batches *
                                                                   sizes.rows * sizes.columns));
      grid.partial = partial->template as<T>();
    }
    launch_products(grid);
    if (parts.count > 1) launch_sum_parts<T>(stream, out, grid, parts.count);
  }
}

/// out = a b for every product of the batch. `kernel` is a tile_product or tile_mma of Tile.
template <class Tile, class A, class B, class Out>
void launch_tiles(const Stream& stream, const char* name,
                  void (*kernel)(A, B, Out, TileGrid<typename Tile::T>), const A& a, const B& b,
                  const Out& out, const TileSizes& sizes, const DepthParts& parts) {
  using T = typename Tile::T;
  launch_in_parts<T>(stream, out, sizes, parts, [&](TileGrid<T> grid) {
    grid.row_tiles = blocks_for(sizes.rows, Tile::kRows);
    grid.column_tiles = blocks_for(sizes.columns, Tile::kColumns);
    launch(
        {name, stream,
         dim3(grid.row_tiles * grid.column_tiles, grid.batches, static_cast<unsigned>(parts.count)),
         Tile::kThreads, Tile::kSharedBytes},
        kernel, a, b, out, grid);
  });
}

}  // namespace ferrite::kernels::cuda
