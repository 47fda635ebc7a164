// Pillow's separable resampling, for the transforms that scale. Each result value is a weighted
// mean of pixels, first along rows, then along columns, under a triangle filter as wide as two
// pixels of the smaller of both images. For uint8 images the weights are integers of 22 bits, and
// the values between the two passes are rounded to uint8 as well.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/data/warp.h"

namespace ferrite::data {

/// Scales a window inside a dense image of uint8 or float32 to the size of `out`, which is dense
/// and has the same channels and type.
void resample(const Tensor& image, const Window& window, const Tensor& out);

}  // namespace ferrite::data
