#include "ferrite/kernels/cuda/matmul_tiles.cuh"

namespace ferrite::kernels::cuda::native {

namespace {

using ManyRows = Tile<double, 64, 64, 32, 32, 8, 4, 3>;
using FewRows = Tile<double, 16, 128, 16, 32, 4, 4, 4>;

}  // namespace

void double_product(const Stream& stream, const View& out, const View& a, const View& b,
                    const MatmulOptions& options) {
  MatrixProduct<double, double> product(out, a, b, options);
  if (product.out.columns < product.out.rows && product.out.columns <= FewRows::kRows)
    product.transpose();
  if (product.out.rows <= FewRows::kRows)
    run_tiles<FewRows>(stream, "double_product_flat", product);
  else
    run_tiles<ManyRows>(stream, "double_product", product);
}

}  // namespace ferrite::kernels::cuda::native
