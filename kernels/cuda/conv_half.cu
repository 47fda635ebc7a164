#include "ferrite/kernels/cuda/conv_mma.cuh"
#include "ferrite/kernels/cuda/conv_types.h"

namespace ferrite::kernels::cuda::native {

void half_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                      const View& bias) {
  mma_correlation<Half>(stream, launch, kernel, bias);
}

void half_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                          bool accumulate) {
  mma_weight_gradient<Half>(stream, launch, grad_kernel, accumulate);
}

}  // namespace ferrite::kernels::cuda::native
