#include "ferrite/kernels/cuda/matmul_mma.cuh"

namespace ferrite::kernels::cuda::native {

void bfloat16_product(const Stream& stream, const View& out, const View& a, const View& b,
                      const MatmulOptions& options) {
  mma_product<BFloat16>(stream, out, a, b, options);
}

}  // namespace ferrite::kernels::cuda::native
