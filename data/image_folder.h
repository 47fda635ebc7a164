// Classified images in folders, one a class, as torchvision.datasets.ImageFolder reads them:
//
//   root/cat/1.png  root/cat/more/2.jpeg  root/dog/3.JPG
//
// Images are decoded when they are asked for, by the threads that ask: a loader's workers.
#pragma once

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
#include "ferrite/data/prepared_transform.h"
#include "ferrite/data/transforms.h"

namespace ferrite::data {

struct ImageFolderOptions {
  /// What files are decoded to: rgb or gray.
  ImageMode mode = ImageMode::rgb;
  /// Of the decoded image, uint8 [3 or 1, H, W].
  Transform transform = ToTensor();
  /// Whether a class may be without images.
  bool allow_empty = false;
  /// Decoded images are kept until they take so many bytes; those that come later are decoded
  /// anew each time.
  std::size_t cache_bytes = 0;
  /// Larger images are refused (data/image_mode.h).
  std::int64_t max_pixels = kMaxImagePixels;
};

/// Classes are the folders directly below the root, in the order of their names (by bytes). Images
/// are the files anywhere below those (links are followed) that end in .png, .jpg or .jpeg, small
/// or large, ordered by folder, then by name; what else lies there is passed over. Samples are
/// (transform(image), label): the label int64. Copies share the cache.
class ImageFolder : public Dataset {
 public:
  struct File {
    std::filesystem::path path;
    std::int64_t label;
  };

  /// IoError where the root is no folder or cannot be read, where there are no classes, and where a
  /// class has no images. ValueError for a mode that keeps the file's channels, and for max_pixels
  /// below 1.
  explicit ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_->size()); }
  /// IoError naming the file where it cannot be read as an image.
  Sample get(std::int64_t index) const override;
  /// The same; ShapeError, naming two files, where transformed images differ in size.
  Batch get_batch(std::span<const std::int64_t> indices, const Epoch& epoch = {}) const override;

  /// Names by label.
  const std::vector<std::string>& classes() const { return classes_; }
  /// Labels by name.
  const std::map<std::string, std::int64_t>& class_to_idx() const { return class_to_idx_; }
  /// Files and labels by index.
  const std::vector<File>& samples() const { return *samples_; }
  /// Sample `index` decoded, before the transform. It may be the cache's own: not to be written.
  Tensor image(std::int64_t index) const;

  /// Replaces the transform; not while a loader runs on this object.
  void set_transform(const Transform& transform);

 private:
  struct Cache;

  ImageMode mode_;
  std::int64_t max_pixels_;
  std::vector<std::string> classes_;
  std::map<std::string, std::int64_t> class_to_idx_;
  std::shared_ptr<const std::vector<File>> samples_;
  std::shared_ptr<Cache> cache_;  // null: nothing is kept
  PreparedTransform transform_;
};

}  // namespace ferrite::data
