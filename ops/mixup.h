// MixUp (Zhang et al. 2018) and CutMix (Yun et al. 2019): batches mixed with themselves, each
// sample with the one before it, as torchvision's transforms.v2. Labels become probabilities of
// classes, which cross_entropy() takes.
//
//   const MixUp mixup({.num_classes = 10, .alpha = 0.2});
//   Generator random(seed);
//   for (auto& [images, labels] : loader) {
//     auto [mixed, probabilities] = mixup(images, labels, random);
//     cross_entropy(model(mixed), probabilities).backward();
//   }
//
// They work where the batch is, off the tape, and draw from `random`, on the host, in the order of
// the batches: results do not depend on the loader's workers.
#pragma once

#include <cstdint>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// A number from the distribution Beta(a, b), by gamma variates (Marsaglia and Tsang 2000).
/// ValueError unless a and b are above 0.
double sample_beta(double a, double b, Generator& random);

/// A batch of mixed images with their mixed labels.
struct MixedBatch {
  Tensor images;  ///< [N, C, H, W]
  Tensor labels;  ///< probabilities [N, num_classes]
};

/// The options of MixUp and CutMix.
struct MixOptions {
  std::int64_t num_classes;  ///< the number of classes of the labels
  double alpha = 1;  ///< of Beta(alpha, alpha), from which the part of a sample itself is drawn
};

/// Images lam * x + (1 - lam) * (x of the sample before), and labels [N, num_classes] of the same
/// mixture. Images, or other inputs, are floating, labels int64 [N] (DTypeError), or probabilities
/// already.
class MixUp {
 public:
  /// ValueError unless num_classes and alpha are above 0.
  explicit MixUp(const MixOptions& options);
  /// The batch, mixed.
  MixedBatch operator()(const Tensor& images, const Tensor& labels, Generator& random) const;
  /// With this lam, 0 to 1.
  MixedBatch mix(const Tensor& images, const Tensor& labels, double lam) const;

 private:
  MixOptions options_;
};

/// Replaces a rectangle of each image [N, C, H, W] by that of the sample before. The labels are
/// mixed by its share of the area.
class CutMix {
 public:
  explicit CutMix(const MixOptions& options);
  /// The batch, mixed.
  MixedBatch operator()(const Tensor& images, const Tensor& labels, Generator& random) const;
  /// The rectangle about (x, y) whose sides are sqrt(1 - lam) of the image's, clipped to it.
  MixedBatch cut(const Tensor& images, const Tensor& labels, double lam, std::int64_t x,
                 std::int64_t y) const;

 private:
  MixOptions options_;
};

}  // namespace ferrite
