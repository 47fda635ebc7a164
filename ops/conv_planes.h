// Convolutions of planes under the name of the function that calls them: errors and nodes of the
// tape are tagged with `op`.
#pragma once

#include "ferrite/ops/conv.h"

namespace ferrite::ops {

/// Checks that operands are defined, floating, on one device, of one dtype and of the ranks of a
/// convolution in `dims` dimensions.
void check_conv_operands(const char* op, const Tensor& input, const Tensor& weight, int dims);

Tensor convolve(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias,
                const Conv2dFuncOptions& options);
Tensor convolve_transposed(const char* op, const Tensor& input, const Tensor& weight,
                           const Tensor& bias, const ConvTranspose2dFuncOptions& options);

}  // namespace ferrite::ops
