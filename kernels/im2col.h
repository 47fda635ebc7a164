// im2col, which lays out as a matrix what a convolution reads, and its adjoint col2im.
//
// columns [N, C, KH, KW, OH, OW]: element (n, c, i, j, y, x) is pixel
// (y * stride - padding + i * dilation, x * ...) of image n, channel c; 0 outside of the image.
// Viewed as [N, C * KH * KW, OH * OW], it is the result of PyTorch's unfold. Strides are arbitrary.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// Fills `columns` from input [N, C, H, W] of the same dtype, which may be any; ignores
/// `params.groups`.
FERRITE_KERNEL(im2col, const View& columns, const View& input, const ConvParams& params);

/// The gradient of im2col: each pixel of image [N, C, H, W] is the sum of the elements of `columns`
/// that im2col copies it to. Floating dtypes; 16-bit types are summed in float32.
FERRITE_KERNEL(col2im, const View& image, const View& columns, const ConvParams& params);

}  // namespace ferrite::kernels
