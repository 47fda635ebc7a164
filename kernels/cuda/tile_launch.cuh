// Launching tiled products, with the depth cut into parts where tiles are too few to fill a GPU.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

/// The sizes of a launch: a batch of products, each [rows, depth] by [depth, columns].
struct TileSizes {
  std::int64_t rows, columns, depth, batches = 1;
};

/// How the depth is cut. By the sizes only, so that results do not depend on the GPU.
struct DepthParts {
  std::int64_t count = 1, step;
};

/// Blocks that keep a large GPU busy.
inline constexpr std::int64_t kEnoughBlocks = 256;

/// Parts such that there are about kEnoughBlocks `blocks` in all, none of less than `min_step`,
/// itself a multiple of the depth of any tile's slices.
inline DepthParts plan_parts(std::int64_t blocks, std::int64_t depth, std::int64_t min_step = 256) {
  const std::int64_t wanted = blocks * 2 <= kEnoughBlocks ? kEnoughBlocks / blocks : 1;
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

inline constexpr int kSumThreads = 256;

/// Sums the parts of results in their order, and stores them.
template <class T, class Out>
__global__ void __launch_bounds__(kSumThreads)
    sum_parts(Out out, TileGrid<T> grid, std::uint32_t parts, Divisor columns) {
  const std::uint32_t at = blockIdx.x * kSumThreads + threadIdx.x;
  const std::uint32_t batch = grid.first_batch + blockIdx.y;
  std::uint32_t row = at;
  const std::uint32_t column = columns.split(row);
  if (row >= out.rows(batch) || column >= out.columns(batch)) return;
  const std::int64_t part_step = std::int64_t{grid.batches} * grid.rows * grid.columns;
  const T* from = grid.partial_row(0, batch, row) + column;
  Pack<T, 1> sum{};
#pragma unroll 4
  for (std::uint32_t part = 0; part < parts; ++part, from += part_step) sum.v[0] += *from;
  out.template store<1, Along::columns>(batch, row, column, sum);
}

/// out = a b for every product of the batch. `kernel` is a tile_product of Tile, or takes the same.
template <class Tile, class A, class B, class Out>
void launch_tiles(const Stream& stream, const char* name,
                  void (*kernel)(A, B, Out, TileGrid<typename Tile::T>), const A& a, const B& b,
                  const Out& out, const TileSizes& sizes, const DepthParts& parts) {
  using T = typename Tile::T;
  constexpr std::int64_t kMaxBatches = 65535;
  for (std::int64_t first = 0; first < sizes.batches; first += kMaxBatches) {
    const std::int64_t batches = std::min(kMaxBatches, sizes.batches - first);
    TileGrid<T> grid{};
    grid.row_tiles = blocks_for(sizes.rows, Tile::kRows);
    grid.column_tiles = blocks_for(sizes.columns, Tile::kColumns);
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
    const auto y = static_cast<unsigned>(batches);
    launch({name, stream,
            dim3(grid.row_tiles * grid.column_tiles, y, static_cast<unsigned>(parts.count)),
            Tile::kThreads, Tile::kSharedBytes},
           kernel, a, b, out, grid);
    if (parts.count > 1)
      launch({"sum_parts", stream, dim3(blocks_for(sizes.rows * sizes.columns, kSumThreads), y),
              kSumThreads},
             sum_parts<T, Out>, out, grid, static_cast<std::uint32_t>(parts.count),
             Divisor(grid.columns));
  }
}

}  // namespace ferrite::kernels::cuda
