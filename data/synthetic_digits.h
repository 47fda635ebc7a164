// Procedurally drawn digits: a stand-in for MNIST without downloads.
#pragma once

#include <cstdint>

#include "ferrite/data/image_dataset.h"

namespace ferrite::data {

/// `n` gray images of 1x28x28, white strokes on black, with random slant, size, position, bending,
/// stroke width, brightness, stray strokes and noise. Sample i depends on (seed, i) alone; each run
/// of ten consecutive samples holds every digit once. Use different seeds for train and test sets.
/// An image is drawn on first access. ValueError for a negative n.
class SyntheticDigits : public ImageDataset {
 public:
  explicit SyntheticDigits(std::int64_t n, std::uint64_t seed = 0,
                           Transform transform = ToTensor());

 private:
  SyntheticDigits(const Tensor& labels, std::uint64_t seed, const Transform& transform);
};

}  // namespace ferrite::data
