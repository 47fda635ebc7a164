#include "ferrite/kernels/cuda/matmul_mma.cuh"

namespace ferrite::kernels::cuda::native {

void half_product(const Stream& stream, const View& out, const View& a, const View& b,
                  const MatmulOptions& options) {
  mma_product<Half>(stream, out, a, b, options);
}

}  // namespace ferrite::kernels::cuda::native
