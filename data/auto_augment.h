// Augmentation by random operations of random strength, as torchvision's transforms of these names:
// affine maps (of the nearest pixel), colours and sharpness. Masks, boxes and points follow the
// affine maps. Images are of 1 or 3 channels.
#pragma once

#include <cstdint>
#include <string_view>

#include "ferrite/data/transforms.h"

namespace ferrite::data {

/// An operation of an augmentation policy.
enum class AugmentOp : std::uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize
};

/// torchvision's _apply_op: `magnitude` is a slope, pixels, degrees, a change of the factor 1, bits
/// or a threshold (of uint8 values; of float32 images the 255th part of it). `fill` is what comes
/// in from outside the image.
Annotated apply_op(const Annotated& sample, AugmentOp op, double magnitude, double fill = 0);

/// Runs as many random operations as choose() says, on the image and on what belongs to it.
class RandomOps : public TransformBase {
 public:
  Tensor apply(const Tensor& image, Generator& random) const override;
  Annotated apply_all(const Annotated& sample, Generator& random) const override;

 protected:
  RandomOps(std::int64_t num_ops, std::int64_t bins, double fill, std::string_view op);
  /// An operation that was chosen for an image.
  struct Choice {
    AugmentOp op;      ///< the operation
    double magnitude;  ///< the strength of the operation
  };
  /// The operations for one image.
  virtual Choice choose(Generator& random, std::int64_t height, std::int64_t width) const = 0;

  std::int64_t num_ops_, bins_;
  double fill_;
};

struct RandAugmentOptions {
  std::int64_t num_ops = 2;    ///< how many operations an image gets
  std::int64_t magnitude = 9;  ///< of the bins, from 0
  std::int64_t num_magnitude_bins = 31;
  double fill = 0;
};

/// RandAugment (Cubuk et al. 2020): `num_ops` operations one after another, all of one strength,
/// with random signs. ValueError for a magnitude that is no bin.
class RandAugment : public RandomOps {
 public:
  explicit RandAugment(const RandAugmentOptions& options = {});
  explicit RandAugment(std::int64_t num_ops, std::int64_t magnitude = 9)
      : RandAugment(RandAugmentOptions{.num_ops = num_ops, .magnitude = magnitude}) {}

 private:
  /// The operations for one image.
  Choice choose(Generator& random, std::int64_t height, std::int64_t width) const override;

  std::int64_t magnitude_;
};

struct TrivialAugmentWideOptions {
  std::int64_t num_magnitude_bins = 31;
  double fill = 0;
};

/// TrivialAugment (Müller and Hutter 2021) in its wide space: one operation of random strength.
class TrivialAugmentWide : public RandomOps {
 public:
  explicit TrivialAugmentWide(const TrivialAugmentWideOptions& options = {})
      : RandomOps(1, options.num_magnitude_bins, options.fill, "trivial_augment_wide") {}

 private:
  /// The operations for one image.
  Choice choose(Generator& random, std::int64_t height, std::int64_t width) const override;
};

}  // namespace ferrite::data
