#pragma once

#include "ferrite/kernels/conv.h"

namespace ferrite::kernels::cuda {

/// These choose who convolves (kernels/cuda/own.h).
void conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params);
void conv2d_stats(const Stream& stream, const View& out, const View& mean, const View& m2,
                  const View& input, const View& weight, const View& bias,
                  const ConvParams& params);
void conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const View& bias, const ConvParams& params);
void conv2d_weight(const Stream& stream, const View& grad_weight, const View& grad_bias,
                   const View& input, const View& grad, const ConvParams& params);

}  // namespace ferrite::kernels::cuda
