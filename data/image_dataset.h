// Classified images held in memory as uint8 and converted batch by batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferrite/data/dataset.h"
#include "ferrite/data/transforms.h"

namespace ferrite::data {

class PreparedTransform;

/// Base of MNIST, CIFAR10 and the like; can also be used directly. Copies share the images.
///
/// Samples are (transform(image), label): the image float32 [C, H, W] unless the transform changes
/// that, the label int64. If a transform ends in ToTensor and Normalize, the two are replaced by
/// one table look-up per value, with identical bits.
class ImageDataset : public RandomDataset {
 public:
  /// `images` uint8 [N, C, H, W], `labels` int64 [N], one name per class. ShapeError, DTypeError;
  /// ValueError if a label is not below the number of classes.
  ImageDataset(const Tensor& images, const Tensor& labels, std::vector<std::string> classes,
               const Transform& transform = ToTensor());

  /// The number of images.
  std::int64_t size() const override { return images_.size(0); }
  Sample get_random(std::int64_t index, Generator& random) const override;
  Batch get_batch(std::span<const std::int64_t> indices, const Epoch& epoch = {}) const override;

  /// All images, uint8 [N, C, H, W], before the transform.
  const Tensor& images() const;
  /// int64 [N].
  const Tensor& labels() const { return labels_; }
  /// Names by label.
  const std::vector<std::string>& classes() const { return classes_; }

  /// Replaces the transform. Do not call it while a loader runs on this object.
  void set_transform(const Transform& transform);

 protected:
  /// Writes image `index`, dense uint8 [C, H, W]. Called from several threads, once per image.
  using Draw = std::function<void(std::int64_t index, std::uint8_t* pixels)>;

  /// A set whose images, of shape [C, H, W], are drawn on first access, and kept.
  ImageDataset(Draw draw, const Shape& image, const Tensor& labels,
               std::vector<std::string> classes, const Transform& transform);

 private:
  class Drawing;

  void draw(std::int64_t index) const;
  Tensor image(std::int64_t index) const;

  Tensor images_, labels_;
  std::vector<std::string> classes_;
  std::shared_ptr<const PreparedTransform> transform_;
  std::shared_ptr<Drawing> drawing_;  // null if all images exist from the start
};

/// Throws IoError, tagged with `op`, unless every label is in 0..classes-1.
void check_labels(const Tensor& labels, std::int64_t classes, std::string_view op,
                  std::string_view file);

}  // namespace ferrite::data
