// Augmentation of image batches on their device: what data/transforms.h does image by image on the
// host, in one kernel for the batch.
#pragma once

#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

enum class ImageLayout : std::uint8_t {
  nchw,  ///< [N, C, H, W], in any memory format
  nhwc   ///< [N, H, W, C]
};

/// In the order in which they take effect.
struct AugmentOptions {
  ImageLayout layout = ImageLayout::nchw;  ///< of the images that are given
  std::int64_t padding = 0;                ///< zeros on every side
  std::int64_t height = 0, width = 0;      ///< of the window that is kept; 0: the images' own
  double flip = 0;                         ///< probability of mirroring left and right
  /// (value - mean[c]) / std[c], where values of uint8 images count from 0 to 1. One number serves
  /// all channels; none: 0 and 1.
  std::vector<double> mean = {}, std = {};
  DType dtype = kFloat32;                    ///< of the result: float32, float16, bfloat16
  MemoryFormat memory_format = kContiguous;  ///< of the result
};

/// [N, C, height, width]: a window of each image, uint8 or float32 of at most 32 channels, at a
/// random place, mirrored at random, normalized. Where not `training`, the window in the middle,
/// and nothing mirrored. What image i is given depends on block i of the random numbers alone,
/// taken from `generator` or from the default one of the device: the same seed gives the same bits
/// on every device. Takes no part in autograd.
///
/// ShapeError where the window is larger than the padded image, ValueError for a deviation that is
/// not above 0, a probability outside [0, 1] or means that do not fit the channels.
Tensor augment(const Tensor& images, const AugmentOptions& options, bool training = true,
               Generator* generator = nullptr);

}  // namespace ferrite
