// What a convolution reads, laid out as a matrix, and the way back (im2col and col2im).
//
// columns [N, C, KH, KW, OH, OW]: element (n, c, i, j, y, x) is pixel
// (y * stride - padding + i * dilation, x * ...) of image n, channel c; 0 outside of the image.
// Seen as [N, C * KH * KW, OH * OW] that is PyTorch's unfold. Strides are any.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// columns from input [N, C, H, W] of the same dtype, any; `params.groups` is not used.
FERRITE_KERNEL(im2col, const View& columns, const View& input, const ConvParams& params);

/// image [N, C, H, W] = for each pixel the sum of the columns' elements that it went to: the
/// gradient of im2col. Of a floating dtype; 16-bit types are summed in float.
FERRITE_KERNEL(col2im, const View& image, const View& columns, const ConvParams& params);

}  // namespace ferrite::kernels
