// Augmentation of image batches on their device: the operations that data/transforms.h applies to
// each image on the host, in one kernel for the batch.
#pragma once

#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// The order of the dimensions of images.
enum class ImageLayout : std::uint8_t {
  nchw,  ///< [N, C, H, W], in any memory format
  nhwc   ///< [N, H, W, C]
};

/// In the order of application.
struct AugmentOptions {
  ImageLayout layout = ImageLayout::nchw;  ///< of the input images
  std::int64_t padding = 0;                ///< zeros added on every side
  std::int64_t height = 0, width = 0;      ///< of the window; 0: the images' own size
  double flip = 0;                         ///< probability of a horizontal flip
  /// (value - mean[c]) / std[c], where values of uint8 images are scaled to 0 to 1. A single number
  /// applies to all channels; none: 0 and 1.
  std::vector<double> mean = {}, std = {};
  DType dtype = kFloat32;                    ///< of the result: float32, float16, bfloat16
  MemoryFormat memory_format = kContiguous;  ///< of the result
};

/// [N, C, height, width]: from each image, uint8 or float32 of at most 32 channels, a window at a
/// random position, randomly flipped, normalized. Unless `training`, the central window without a
/// flip. The parameters of image i depend only on block i of the random numbers, taken from
/// `generator` or from the device's default one: the same seed gives the same bits on every device.
/// Not recorded by autograd.
///
/// ShapeError if the window is larger than the padded image, ValueError for a deviation that is not
/// above 0, a probability outside [0, 1] or means that do not match the channels.
Tensor augment(const Tensor& images, const AugmentOptions& options, bool training = true,
               Generator* generator = nullptr);

}  // namespace ferrite
