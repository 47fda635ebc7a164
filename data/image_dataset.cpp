#include "data/image_dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/views.h"
#include "data/host.h"

namespace ferrite::data {

namespace {

void look_up(const std::uint8_t* in, const float* table, std::int64_t channels, std::int64_t area,
             float* out) {
  for (std::int64_t c = 0; c < channels; ++c, table += 256)
    for (std::int64_t i = 0; i < area; ++i) *out++ = table[*in++];
}

/// An image of 256 pixels, one of each value, in every channel.
Tensor ramp(std::int64_t channels) {
  Tensor image = empty({channels, 1, 256}, {.dtype = kUInt8});
  for (std::int64_t c = 0; c < channels; ++c)
    std::iota(image.data<std::uint8_t>() + c * 256, image.data<std::uint8_t>() + (c + 1) * 256,
              std::uint8_t{0});
  return image;
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
  std::vector<Transform> parts = transform.parts();
  auto split = parts.end();
  while (split != parts.begin() && std::prev(split)->pointwise()) --split;
  const Compose tail(std::vector<Transform>(split, parts.end()));
  parts.erase(split, parts.end());
  Tensor table;
  if (!tail.parts().empty()) {
    Generator unused;
    try {
      table = tail.apply(ramp(images_.size(1)), unused);
    } catch (const Error&) {
      // What comes before may change the number of channels or the type; else the error is real.
      if (parts.empty()) throw;
    }
  }
  if (table.defined() && (table.dtype() != kFloat32 || !table.is_contiguous())) table = {};
  head_ = std::move(parts);
  tail_ = tail;
  table_ = table;
}

bool ImageDataset::table_fits(const Tensor& image) const {
  return table_.defined() && image.dtype() == kUInt8 && image.dim() == 3 &&
         image.size(0) == table_.size(0);
}

Tensor ImageDataset::image(std::int64_t index) const {
  return geometry::apply(images_, geometry::select(images_, 0, index));
}

Tensor ImageDataset::transformed(std::int64_t index, Generator& random) const {
  Tensor current = image(index);
  for (const Transform& t : head_) current = t(current, random);
  if (!table_fits(current)) return tail_.apply(current, random);
  current = host_contiguous(current, "image_dataset");
  Tensor out = empty(current.shape());
  look_up(current.data<std::uint8_t>(), table_.data<float>(), current.size(0),
          current.size(1) * current.size(2), out.data<float>());
  return out;
}

Sample ImageDataset::get(std::int64_t index) const {
  check_index(index, size(), "image_dataset");
  Generator random = Epoch{}.generator(index);
  return {transformed(index, random),
          geometry::apply(labels_, geometry::select(labels_, 0, index))};
}

Batch ImageDataset::get_batch(std::span<const std::int64_t> indices, const Epoch& epoch) const {
  Tensor labels = gather_rows(labels_, indices);  // checks the indices
  if (head_.empty() && tail_.parts().empty()) return {gather_rows(images_, indices), labels};
  if (head_.empty() && table_.defined()) {
    const std::int64_t channels = images_.size(1), area = images_.size(2) * images_.size(3);
    Shape shape = images_.shape();
    shape[0] = static_cast<std::int64_t>(indices.size());
    Tensor out = empty(shape);
    float* to = out.data<float>();
    for (const std::int64_t i : indices) {
      look_up(images_.data<std::uint8_t>() + i * channels * area, table_.data<float>(), channels,
              area, to);
      to += channels * area;
    }
    return {out, labels};
  }
  std::vector<Tensor> images;
  images.reserve(indices.size());
  for (const std::int64_t i : indices) {
    Generator random = epoch.generator(i);
    images.push_back(transformed(i, random));
  }
  return {stack(images), labels};
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
