#include "ferrite/data/image_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <system_error>

#include "ferrite/data/collation.h"
#include "ferrite/data/image_io.h"
#include "ferrite/data/prepared_transform.h"

namespace ferrite::data {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kOp = "image_folder";
/// Maximum nesting of folders. Deeper ones are cyclic links, which the system rejects after 40.
constexpr int kDeepest = 32;

bool is_image(const fs::path& path) {
  std::string end = path.extension().string();
  for (char& c : end)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

struct Listing {
  std::vector<fs::path> folders, files;
};

/// The entries of a folder; links are followed.
Listing list(const fs::path& folder) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code broken;  // a dangling link is neither
    const fs::file_type type = entry->status(broken).type();
    if (type == fs::file_type::directory) listing.folders.push_back(entry->path());
    if (type == fs::file_type::regular) listing.files.push_back(entry->path());
  }
  FERRITE_CHECK(!error, IoError, kOp, "cannot read the folder '{}': {}", folder.string(),
                error.message());
  return listing;
}

void add_images(const fs::path& folder, int depth, std::vector<fs::path>& images) {
  FERRITE_CHECK(depth < kDeepest, IoError, kOp,
                "'{}' lies {} folders deep; does a link lead back to a folder above it?",
                folder.string(), depth);
  const Listing listing = list(folder);
  std::ranges::copy_if(listing.files, std::back_inserter(images), is_image);
  for (const fs::path& below : listing.folders) add_images(below, depth + 1, images);
}

/// The images of a class, by folder, then by name, in byte order.
std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> images;
  add_images(folder, 0, images);
  std::ranges::sort(images, {}, [](const fs::path& p) {
    return std::pair(p.parent_path().string(), p.filename().string());
  });
  return images;
}

Tensor label_tensor(std::span<const std::int64_t> labels, const Shape& shape) {
  return from_vector(std::vector<std::int64_t>(labels.begin(), labels.end()), shape);
}

}  // namespace

/// Decoded images by index; the first ones to be decoded stay.
struct ImageFolder::Cache {
  Cache(std::size_t images, std::size_t bytes) : decoded(images), bytes_left(bytes) {}

  Tensor find(std::size_t index) {
    const std::lock_guard lock(mutex);
    return decoded[index];
  }
  void keep(std::size_t index, const Tensor& image) {
    const std::lock_guard lock(mutex);
    if (decoded[index].defined() || image.nbytes() > bytes_left) return;
    bytes_left -= image.nbytes();
    decoded[index] = image;
  }

  std::mutex mutex;
  std::vector<Tensor> decoded;
  std::size_t bytes_left;
};

ImageFolder::ImageFolder(const fs::path& root, const ImageFolderOptions& options)
    : mode_(options.mode), max_pixels_(options.max_pixels) {
  FERRITE_CHECK(mode_ != ImageMode::unchanged, ValueError, kOp,
                "expected the mode rgb or gray, so that all images have the same channels");
  FERRITE_CHECK(max_pixels_ > 0, ValueError, kOp, "expected max_pixels of 1 or more, got {}",
                max_pixels_);
  std::error_code ignored;
  FERRITE_CHECK(fs::is_directory(root, ignored), IoError, kOp, "there is no folder '{}'",
                root.string());
  std::vector<fs::path> folders = list(root).folders;
  FERRITE_CHECK(!folders.empty(), IoError, kOp,
                "found no classes in '{}': expected a folder of images for each", root.string());
  std::ranges::sort(folders, {}, [](const fs::path& p) { return p.filename().string(); });

  auto samples = std::make_shared<std::vector<File>>();
  std::vector<std::string> without;
  for (const fs::path& folder : folders) {
    const auto label = static_cast<std::int64_t>(classes_.size());
    classes_.push_back(folder.filename().string());
    class_to_idx_.emplace(classes_.back(), label);
    const std::vector<fs::path> images = images_below(folder);
    if (images.empty()) without.push_back(classes_.back());
    for (const fs::path& path : images) samples->push_back({path, label});
  }
  FERRITE_CHECK(options.allow_empty || without.empty(), IoError, kOp,
                "found no images for the class{} {} in '{}': expected files that end in .png, "
                ".jpg or .jpeg",
                without.size() == 1 ? "" : "es", fmt::join(without, ", "), root.string());
  if (options.cache_bytes > 0)
    cache_ = std::make_shared<Cache>(samples->size(), options.cache_bytes);
  samples_ = std::move(samples);
  set_transform(options.transform);
}

void ImageFolder::set_transform(const Transform& transform) {
  transform_ = std::make_shared<PreparedTransform>(transform, mode_ == ImageMode::gray ? 1 : 3);
}

Tensor ImageFolder::image(std::int64_t index) const {
  check_index(index, size(), kOp);
  const auto i = static_cast<std::size_t>(index);
  Tensor image = cache_ ? cache_->find(i) : Tensor();
  if (image.defined()) return image;
  image = read_image((*samples_)[i].path, mode_, max_pixels_);
  if (cache_) cache_->keep(i, image);
  return image;
}

Sample ImageFolder::get_random(std::int64_t index, Generator& random) const {
  return {(*transform_)(image(index), random),
          label_tensor({&(*samples_)[static_cast<std::size_t>(index)].label, 1}, Shape())};
}

Batch ImageFolder::get_batch(std::span<const std::int64_t> indices, const Epoch& epoch) const {
  const auto file = [&](std::int64_t i) -> const File& {
    return (*samples_)[static_cast<std::size_t>(i)];
  };
  std::vector<std::int64_t> labels;
  Collation images(static_cast<std::int64_t>(indices.size()), [&](const Shape& shape) {
    fail<ShapeError>(kOp,
                     "'{}' is {}, '{}' is {}: images of a batch need one size; put Resize or "
                     "RandomResizedCrop into the transform",
                     file(indices[0]).path.string(), images.shape(),
                     file(indices[labels.size()]).path.string(), shape);
  });
  for (std::size_t n = 0; n < indices.size(); ++n) {
    const std::int64_t i = indices[n];
    Generator random = epoch.at(n).generator(i);
    const impl::SampleGenerator scope(random);
    transform_->add_to(images, image(i), random);
    labels.push_back(file(i).label);
  }
  const auto n = static_cast<std::int64_t>(labels.size());
  return {images.take(), label_tensor(labels, {n})};
}

}  // namespace ferrite::data
