// Weighted sums of pixels at given places, of which ops/grid_sample.h makes its samples. All are
// contiguous: images [N, C, pixels]; samples [N, C, points]; for each of a point's K pixels its
// place (int64) and weight, [N, K, points]. float32 or float64, one for all. A place below 0 is
// outside of the image, where there is 0 whatever the weight.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// samples = the sum of the K weighted pixels, in their order.
FERRITE_KERNEL_OF("grid_sample", sample_pixels, const View& samples, const View& image,
                  const View& places, const View& weights);
/// grad_weights = the sum over the channels of grad_samples times the pixel, 0 outside.
FERRITE_KERNEL_OF("grid_sample", sample_weight_gradient, const View& grad_weights,
                  const View& grad_samples, const View& image, const View& places);
/// Adds each weighted gradient to its pixel's, to the same bits in each run.
FERRITE_KERNEL_OF("grid_sample", sample_image_gradient, const View& grad_image,
                  const View& grad_samples, const View& places, const View& weights);

}  // namespace ferrite::kernels
