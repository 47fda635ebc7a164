#pragma once

#include "ferrite/kernels/cuda/conv_plan.h"

namespace ferrite::kernels::cuda::native {

/// The limit of the elements of `to`, over all channels, in one launch of these functions.
inline constexpr std::int64_t kMaxDirect = (std::int64_t{1} << 31) - 1;

/// Like the functions in conv_types.h, for any floating dtype.
void direct_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                        const View& bias);
void direct_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                            bool accumulate);

}  // namespace ferrite::kernels::cuda::native
