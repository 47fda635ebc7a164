// Classified images, one folder per class, as in torchvision.datasets.ImageFolder:
//
//   root/cat/1.png  root/cat/more/2.jpeg  root/dog/3.JPG
//
// Images are decoded on access, in the calling threads: a loader's workers.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferrite/data/dataset.h"
#include "ferrite/data/image_mode.h"
#include "ferrite/data/transforms.h"

namespace ferrite::data {

class PreparedTransform;

struct ImageFolderOptions {
  /// The format to decode to: rgb or gray.
  ImageMode mode = ImageMode::rgb;
  /// Applied to the decoded image, uint8 [3 or 1, H, W].
  Transform transform = ToTensor();
  /// Whether a class may have no images.
  bool allow_empty = false;
  /// Decoded images are kept up to this many bytes; later ones are decoded again each time.
  std::size_t cache_bytes = 0;
  /// Larger images are rejected (data/image_mode.h).
  std::int64_t max_pixels = kMaxImagePixels;
};

/// Classes are the folders directly below the root, in the order of their names (by bytes). Images
/// are all files below those (links are followed) that end in .png, .jpg or .jpeg, in upper or
/// lower case, ordered by folder, then by name; other files are ignored. Samples are
/// (transform(image), label): the label int64. Copies share the cache.
class ImageFolder : public RandomDataset {
 public:
  /// An image file and its class.
  struct File {
    std::filesystem::path path;
    std::int64_t label;  ///< the index of the class
  };

  /// IoError if the root is not a folder or cannot be read, if there are no classes, or if a class
  /// has no images. ValueError for a mode that keeps the file's channels, and for max_pixels below
  /// 1.
  explicit ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options = {});
  /// As in torchvision: `ImageFolder("photos", ToTensor())`.
  template <std::convertible_to<Transform> T>
  ImageFolder(const std::filesystem::path& root, const T& transform)
      : ImageFolder(root, ImageFolderOptions{.transform = transform}) {}

  /// The number of images.
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_->size()); }
  /// IoError naming the file if it cannot be read as an image.
  Sample get_random(std::int64_t index, Generator& random) const override;
  /// As above; ShapeError, naming two files, if transformed images differ in size.
  Batch get_batch(std::span<const std::int64_t> indices, const Epoch& epoch = {}) const override;

  /// Names by label.
  const std::vector<std::string>& classes() const { return classes_; }
  /// Labels by name.
  const std::map<std::string, std::int64_t>& class_to_idx() const { return class_to_idx_; }
  /// Files and labels by index.
  const std::vector<File>& samples() const { return *samples_; }
  /// Sample `index` decoded, before the transform. It may be owned by the cache: do not write to
  /// it.
  Tensor image(std::int64_t index) const;

  /// Replaces the transform. Do not call it while a loader runs on this object.
  void set_transform(const Transform& transform);

 private:
  struct Cache;

  ImageMode mode_;
  std::int64_t max_pixels_;
  std::vector<std::string> classes_;
  std::map<std::string, std::int64_t> class_to_idx_;
  std::shared_ptr<const std::vector<File>> samples_;
  std::shared_ptr<Cache> cache_;  // null: no cache
  std::shared_ptr<const PreparedTransform> transform_;
};

}  // namespace ferrite::data
