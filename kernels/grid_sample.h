// Weighted sums of pixels at given places, of which ops/grid_sample.h makes its samples. All are
// contiguous: images [N, C, pixels]; samples [N, C, points]; for each of a point's K pixels its
// place (int64) and weight, [N, K, points]. float32 or float64, one for all. A place below 0 is
// outside of the image, where there is 0 whatever the weight.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// Whole numbers of pixels along each axis of an image, y before x: [N, taps, points] for an axis.
struct SampleAxes {
  int count = 0;                      ///< 2, or 3 with the depth first
  View whole[3];                      ///< of the weights' dtype
  std::int64_t sizes[3] = {1, 1, 1};  ///< of the image
  std::int64_t taps[3] = {1, 1, 1};   ///< of each axis; their product is K
};
/// places = those of all combinations of the axes' taps, the last axis first; -1 outside.
FERRITE_KERNEL_OF("grid_sample", sample_places, const View& places, const SampleAxes& axes);

/// The sizes of all images [N, C, pixels] and places [N, K, points].
struct SampleSizes {
  std::int64_t images, channels, pixels, taps, points;

  SampleSizes(const View& image, const View& places)
      : images(image.sizes[0]),
        channels(image.sizes[1]),
        pixels(image.sizes[2]),
        taps(places.sizes[1]),
        points(places.sizes[2]) {}
};

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
