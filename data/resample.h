// Pillow's separable resampling, for the transforms that scale. Each value of the result is a
// weighted mean of pixels, first along rows, then along columns, under a triangle as wide as two
// pixels of the larger of both images. Of uint8 images the weights are integers of 22 bits and what
// lies between the two passes is rounded to uint8 as well.
#pragma once

#include "ferrite/core/tensor.h"
#include "ferrite/data/image_tensor.h"

namespace ferrite::data {

/// Scales the window, which lies in it, of a dense image of uint8 or float32 to `out`'s size; `out`
/// is dense, of the same channels and type.
void resample(const Tensor& image, const Window& window, const Tensor& out);

}  // namespace ferrite::data
