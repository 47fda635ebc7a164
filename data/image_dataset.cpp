#include "data/image_dataset.h"

#include <algorithm>

#include "core/views.h"
#include "data/host.h"

namespace ferrite::data {

namespace {

/// Asks for the beginning of an image, which lies anywhere; the processor sees where that leads.
void prefetch(const std::uint8_t* image, std::int64_t bytes) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(bytes, 1024); i += 64)
    __builtin_prefetch(image + i);
}

}  // namespace

ImageDataset::ImageDataset(const Tensor& images, const Tensor& labels,
                           std::vector<std::string> classes, const Transform& transform)
    : images_(host_contiguous(images, "image_dataset")),
      labels_(host_contiguous(labels, "image_dataset")),
      classes_(std::move(classes)) {
  FERRITE_CHECK(images_.dtype() == kUInt8 && labels_.dtype() == kInt64, DTypeError, "image_dataset",
                "expected uint8 images and int64 labels, got {} and {}", images_.dtype(),
                labels_.dtype());
  FERRITE_CHECK(images_.dim() == 4 && labels_.dim() == 1 && images_.size(0) == labels_.size(0),
                ShapeError, "image_dataset",
                "expected images [N, C, H, W] and labels [N], got {} and {}", images_.shape(),
                labels_.shape());
  const auto* label = labels_.data<std::int64_t>();
  for (std::int64_t i = 0; i < labels_.numel(); ++i)
    FERRITE_CHECK(label[i] >= 0 && label[i] < static_cast<std::int64_t>(classes_.size()),
                  ValueError, "image_dataset", "label {} at index {}: expected 0 to {}", label[i],
                  i, static_cast<std::int64_t>(classes_.size()) - 1);
  set_transform(transform);
}

void ImageDataset::set_transform(const Transform& transform) {
  transform_ = PreparedTransform(transform, images_.size(1));
}

Tensor ImageDataset::image(std::int64_t index) const {
  return geometry::apply(images_, geometry::select(images_, 0, index));
}

Sample ImageDataset::get(std::int64_t index) const {
  check_index(index, size(), "image_dataset");
  Generator random = Epoch{}.generator(index);
  return {transform_(image(index), random),
          geometry::apply(labels_, geometry::select(labels_, 0, index))};
}

Batch ImageDataset::get_batch(std::span<const std::int64_t> indices, const Epoch& epoch) const {
  Tensor labels = gather_rows(labels_, indices);  // checks the indices
  if (transform_.is_identity()) return {gather_rows(images_, indices), labels};
  if (transform_.is_table()) {
    const std::int64_t channels = images_.size(1), area = images_.size(2) * images_.size(3);
    Shape shape = images_.shape();
    shape[0] = static_cast<std::int64_t>(indices.size());
    Tensor out = empty(shape);
    float* to = out.data<float>();
    const auto at = [&](std::int64_t i) {
      return images_.data<std::uint8_t>() + i * channels * area;
    };
    for (std::size_t n = 0; n < indices.size(); ++n, to += channels * area) {
      if (n + 1 < indices.size()) prefetch(at(indices[n + 1]), channels * area);
      transform_.look_up(at(indices[n]), area, to);
    }
    return {out, labels};
  }
  Collation images(static_cast<std::int64_t>(indices.size()));
  for (const std::int64_t i : indices) {
    Generator random = epoch.generator(i);
    transform_.add_to(images, image(i), random);
  }
  return {images.take(), labels};
}

void check_labels(const Tensor& labels, std::int64_t classes, std::string_view op,
                  std::string_view file) {
  const std::vector<std::int64_t> values = labels.to_vector<std::int64_t>();
  const auto bad = std::ranges::find_if(values, [=](auto v) { return v < 0 || v >= classes; });
  if (bad == values.end()) return;
  fail<IoError>(op, "'{}' gives image {} the label {}; expected 0 to {}", file,
                bad - values.begin(), *bad, classes - 1);
}

}  // namespace ferrite::data
