// Products of 16-bit matrices on tensor cores.
#pragma once

#include "ferrite/kernels/cuda/matmul_tiles.cuh"
#include "ferrite/kernels/cuda/mma_matrix.cuh"

namespace ferrite::kernels::cuda::native {

/// `Whole`: all chunks of both operands are contiguous and aligned.
template <class Tile, bool Whole, bool RowsAlong, bool ColumnsAlong, class S>
void run_mma(const Stream& stream, const char* name, const MatrixProduct<S, float>& product) {
  using A = MatrixChunks<S, Tile::kRows, Tile::kDepth, Tile::kThreads, RowsAlong, Whole>;
  using B = MatrixChunks<S, Tile::kColumns, Tile::kDepth, Tile::kThreads, ColumnsAlong, Whole>;
  using Out = TileOutput<S, float, MatrixMap>;
  const TileSizes sizes = product.sizes();
  const MatrixView &a = product.a, &b = product.b;
  launch_tiles<Tile>(
      stream, name, tile_mma<Tile, A, B, Out>,
      A{static_cast<const S*>(a.data), a.rows, a.columns, a.batch_step, a.row_step, a.column_step},
      B{static_cast<const S*>(b.data), b.columns, b.rows, b.batch_step, b.column_step, b.row_step},
      product.output(Tile::kRun), sizes, plan_parts<Tile>(sizes));
}

/// Chooses loaders by the layouts of the operands.
template <class Tile, bool Whole = false, class S>
void run_mma(const Stream& stream, const char* name, const MatrixProduct<S, float>& product) {
  const bool rows_along = product.a.row_step != 1, columns_along = product.b.column_step != 1;
  if (rows_along)
    columns_along ? run_mma<Tile, Whole, true, true>(stream, name, product)
                  : run_mma<Tile, Whole, true, false>(stream, name, product);
  else
    columns_along ? run_mma<Tile, Whole, false, true>(stream, name, product)
                  : run_mma<Tile, Whole, false, false>(stream, name, product);
}

template <class S>
bool whole_chunks_of(const MatrixView& m) {
  const bool by_rows = m.row_step != 1;
  return has_whole_chunks(static_cast<const S*>(m.data), m.batch_step,
                          by_rows ? m.column_step : m.row_step,
                          by_rows ? m.row_step : m.column_step);
}

template <class S>
void mma_product(const Stream& stream, const View& out, const View& a, const View& b,
                 const MatmulOptions& options) {
  using Large = MmaTile<S, 128, 128, 64, 64, 2>;
  using Small = MmaTile<S, 64, 64, 32, 32, 4>;
  using Flat = MmaTile<S, 16, 128, 16, 32, 4>;  // few rows
  MatrixProduct<S, float> product(out, a, b, options);
  if (product.out.columns < product.out.rows && product.out.columns <= Flat::kRows)
    product.transpose();
  const TileSizes sizes = product.sizes();
  if (sizes.rows <= Flat::kRows)
    run_mma<Flat>(stream, "half_product_flat", product);
  else if (tiles_of<Large>(sizes) * sizes.batches >= kEnoughBlocks / 2 &&
           whole_chunks_of<S>(product.a) && whole_chunks_of<S>(product.b))
    run_mma<Large, true>(stream, "half_product", product);
  else
    run_mma<Small>(stream, "half_product_small", product);
}

}  // namespace ferrite::kernels::cuda::native
