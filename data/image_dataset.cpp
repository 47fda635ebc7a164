#include "ferrite/data/image_dataset.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ferrite/core/parallel_for.h"
#include "ferrite/core/views.h"
#include "ferrite/data/collation.h"
#include "ferrite/data/host.h"
#include "ferrite/data/prepared_transform.h"

namespace ferrite::data {

namespace {

/// Prefetches the beginning of an image at a random address; the hardware prefetcher continues.
void prefetch(const std::uint8_t* image, std::int64_t bytes) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(bytes, 1024); i += 64)
    __builtin_prefetch(image + i);
}

}  // namespace

/// Tracks which images have been drawn, and draws each of the others once.
class ImageDataset::Drawing {
 public:
  Drawing(Draw draw, std::int64_t images)
      : draw_(std::move(draw)), states_(static_cast<std::size_t>(images)) {}

  /// Returns when the image has been drawn, by this thread or by another.
  void finish(std::int64_t index, std::uint8_t* pixels) {
    std::atomic<State>& state = states_[static_cast<std::size_t>(index)];
    for (;;) {
      State seen = state.load(std::memory_order_acquire);
      if (seen == State::done) return;
      if (seen == State::under_way) {
        state.wait(seen, std::memory_order_acquire);
      } else if (state.compare_exchange_strong(seen, State::under_way)) {
        try {
          draw_(index, pixels);
        } catch (...) {
          set(state, State::none);
          throw;
        }
        set(state, State::done);
      }
    }
  }

 private:
  enum class State : std::uint8_t { none, under_way, done };

  static void set(std::atomic<State>& state, State to) {
    state.store(to, std::memory_order_release);
    state.notify_all();
  }

  const Draw draw_;
  std::vector<std::atomic<State>> states_;
};

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

ImageDataset::ImageDataset(Draw draw, const Shape& image, const Tensor& labels,
                           std::vector<std::string> classes, const Transform& transform)
    : ImageDataset(
          [&] {
            Shape shape = image;
            shape.insert(0, labels.size(0));
            return empty(shape, {.dtype = kUInt8, .device = kCPU});
          }(),
          labels, std::move(classes), transform) {
  drawing_ = std::make_shared<Drawing>(std::move(draw), size());
}

void ImageDataset::draw(std::int64_t index) const {
  if (!drawing_) return;
  const std::int64_t bytes = images_.stride(0);
  drawing_->finish(index, images_.data<std::uint8_t>() + index * bytes);
}

const Tensor& ImageDataset::images() const {
  if (drawing_)
    parallel_for(size(), 64, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) draw(i);
    });
  return images_;
}

void ImageDataset::set_transform(const Transform& transform) {
  transform_ = std::make_shared<PreparedTransform>(transform, images_.size(1));
}

Tensor ImageDataset::image(std::int64_t index) const {
  return geometry::apply(images_, geometry::select(images_, 0, index));
}

Sample ImageDataset::get_random(std::int64_t index, Generator& random) const {
  check_index(index, size(), "image_dataset");
  draw(index);
  return {(*transform_)(image(index), random),
          geometry::apply(labels_, geometry::select(labels_, 0, index))};
}

Batch ImageDataset::get_batch(std::span<const std::int64_t> indices, const Epoch& epoch) const {
  Tensor labels = gather_rows(labels_, indices);  // checks the indices
  for (const std::int64_t i : indices) draw(i);
  if (transform_->is_identity()) return {gather_rows(images_, indices), labels};
  if (transform_->is_table()) {
    const std::int64_t channels = images_.size(1), area = images_.size(2) * images_.size(3);
    Shape shape = images_.shape();
    shape[0] = static_cast<std::int64_t>(indices.size());
    Tensor out = empty(shape, {.dtype = kFloat32, .device = kCPU});
    float* to = out.data<float>();
    const auto at = [&](std::int64_t i) {
      return images_.data<std::uint8_t>() + i * channels * area;
    };
    for (std::size_t n = 0; n < indices.size(); ++n, to += channels * area) {
      if (n + 1 < indices.size()) prefetch(at(indices[n + 1]), channels * area);
      transform_->look_up(at(indices[n]), area, to);
    }
    return {out, labels};
  }
  Collation images(static_cast<std::int64_t>(indices.size()));
  for (std::size_t n = 0; n < indices.size(); ++n) {
    Generator random = epoch.at(n).generator(indices[n]);
    const impl::SampleGenerator scope(random);
    transform_->add_to(images, image(indices[n]), random);
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
