#include "ferrite/kernels/cuda/conv_mma.cuh"
#include "ferrite/kernels/cuda/conv_types.h"

namespace ferrite::kernels::cuda::native {

void bfloat16_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                          const View& bias) {
  mma_correlation<BFloat16>(stream, launch, kernel, bias);
}

void bfloat16_weight_gradient(const Stream& stream, const ConvLaunch& launch,
                              const View& grad_kernel, bool accumulate) {
  mma_weight_gradient<BFloat16>(stream, launch, grad_kernel, accumulate);
}

}  // namespace ferrite::kernels::cuda::native
