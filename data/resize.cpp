// Transforms that scale images.
#include <algorithm>
#include <cmath>

#include "ferrite/data/image_tensor.h"
#include "ferrite/data/transforms.h"

namespace ferrite::data {

namespace {

void check_size(std::int64_t height, std::int64_t width, std::string_view op) {
  FERRITE_CHECK(height > 0 && width > 0, ValueError, op, "expected a size above 0, got {} x {}",
                height, width);
}

/// Like Python's round(): ties to even.
std::int64_t rounded(double v) { return static_cast<std::int64_t>(std::nearbyint(v)); }

}  // namespace

// ---- Resize

Resize::Resize(std::int64_t size) : height_(size), width_(0) { check_size(size, size, "resize"); }

Resize::Resize(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
  check_size(height, width, "resize");
}

Warp Resize::draw(std::int64_t height, std::int64_t width, Generator&) const {
  const Window whole{0, 0, height, width};
  if (width_ != 0) return {whole, height_, width_};
  const std::int64_t shorter = std::max<std::int64_t>(std::min(height, width), 1);
  return {whole, height_ * height / shorter, height_ * width / shorter};
}

// ---- CenterCrop

CenterCrop::CenterCrop(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
  check_size(height, width, "center_crop");
}

Warp CenterCrop::draw(std::int64_t height, std::int64_t width, Generator&) const {
  // When padding, torchvision rounds the other way.
  const auto start = [](std::int64_t from, std::int64_t to) {
    return to > from ? -((to - from) / 2) : rounded(static_cast<double>(from - to) / 2);
  };
  return {{start(height, height_), start(width, width_), height_, width_}, height_, width_};
}

// ---- RandomResizedCrop

RandomResizedCrop::RandomResizedCrop(std::int64_t height, std::int64_t width,
                                     const RandomResizedCropOptions& options)
    : height_(height), width_(width), options_(options) {
  check_size(height, width, "random_resized_crop");
  const auto& [low, high] = options.scale;
  FERRITE_CHECK(low > 0 && low <= high && high <= 1, ValueError, "random_resized_crop",
                "expected a scale of 0 < low <= high <= 1, got {} and {}", low, high);
  FERRITE_CHECK(options.ratio[0] > 0 && options.ratio[0] <= options.ratio[1] &&
                    std::isfinite(options.ratio[1]),
                ValueError, "random_resized_crop",
                "expected a ratio of 0 < low <= high, got {} and {}", options.ratio[0],
                options.ratio[1]);
}

namespace {

Window draw_part(std::int64_t height, std::int64_t width, const RandomResizedCropOptions& options,
                 Generator& random) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  const auto& [low, high] = options.ratio;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = h * w * uniform(random, options.scale[0], options.scale[1]);
    const double ratio = std::exp(uniform(random, std::log(low), std::log(high)));
    const std::int64_t part_width = rounded(std::sqrt(area * ratio));
    const std::int64_t part_height = rounded(std::sqrt(area / ratio));
    if (part_width < 1 || part_width > width || part_height < 1 || part_height > height) continue;
    const std::int64_t top = up_to(random, height - part_height);
    return {top, up_to(random, width - part_width), part_height, part_width};
  }
  Window part{0, 0, height, width};
  if (w / h < low) part.height = std::clamp<std::int64_t>(rounded(w / low), 1, height);
  if (w / h > high) part.width = std::clamp<std::int64_t>(rounded(h * high), 1, width);
  part.top = (height - part.height) / 2;
  part.left = (width - part.width) / 2;
  return part;
}

}  // namespace

Warp RandomResizedCrop::draw(std::int64_t height, std::int64_t width, Generator& random) const {
  return {draw_part(height, width, options_, random), height_, width_};
}

}  // namespace ferrite::data
