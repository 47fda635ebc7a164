// Convolutions by cuDNN. The folders cudnn/ and no_cudnn/ define these; one of them is built.
#pragma once

#include "kernels/conv.h"

namespace ferrite::kernels::cuda::vendor {

// Each puts the convolution on the stream, or answers false, having done nothing, where cuDNN is
// not there, is switched off, or has no plan for these dtypes, sizes and strides.

bool conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params);
/// Without a bias: the caller adds it.
bool conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const ConvParams& params);
bool conv2d_weight(const Stream& stream, const View& grad_weight, const View& input,
                   const View& grad, const ConvParams& params);

}  // namespace ferrite::kernels::cuda::vendor
