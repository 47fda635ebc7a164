// Convolutions by element type, one source file each, so that they compile in parallel.
#pragma once

#include "ferrite/kernels/cuda/conv_plan.h"

namespace ferrite::kernels::cuda::native {

/// to = from * kernel + bias for the channels and phases of a launch. `bias` may have null data.
void float_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                       const View& bias);
void double_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                        const View& bias);
void half_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                      const View& bias);
void bfloat16_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                          const View& bias);

/// grad_kernel = (or +=, to `accumulate`) the gradient with respect to the kernel, from images
/// `from` and gradients `to`.
void float_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                           bool accumulate);
void double_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                            bool accumulate);
void half_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                          bool accumulate);
void bfloat16_weight_gradient(const Stream& stream, const ConvLaunch& launch,
                              const View& grad_kernel, bool accumulate);

}  // namespace ferrite::kernels::cuda::native
