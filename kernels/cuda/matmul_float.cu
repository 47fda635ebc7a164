#include "ferrite/kernels/cuda/matmul_tiles.cuh"

namespace ferrite::kernels::cuda::native {

namespace {

using Large = Tile<float, 128, 128, 64, 32, 8, 8, 2>;
using Small = Tile<float, 64, 64, 32, 32, 8, 4, 4>;
using Flat = Tile<float, 16, 128, 16, 32, 4, 4, 6>;  // few rows

}  // namespace

void float_product(const Stream& stream, const View& out, const View& a, const View& b,
                   const MatmulOptions& options) {
  MatrixProduct<float, float> product(out, a, b, options);
  TileSizes sizes = product.sizes();
  if (sizes.columns < sizes.rows && sizes.columns <= Flat::kRows) {
    product.transpose();
    sizes = product.sizes();
  }
  if (sizes.rows <= Flat::kRows)
    run_tiles<Flat>(stream, "float_product_flat", product);
  else if (tiles_of<Large>(sizes) * sizes.batches >= kEnoughBlocks / 2)
    run_tiles<Large>(stream, "float_product", product);
  else
    run_tiles<Small>(stream, "float_product_small", product);
}

}  // namespace ferrite::kernels::cuda::native
