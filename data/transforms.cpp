#include "ferrite/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "ferrite/data/host.h"
#include "ferrite/data/image_tensor.h"

namespace ferrite::data {

void check_probability(double p, std::string_view op) {
  FERRITE_CHECK(p >= 0 && p <= 1, ValueError, op, "expected a probability of 0 to 1, got {}", p);
}

Tensor dense_image(const Tensor& image, std::string_view op) {
  FERRITE_CHECK(image.defined() && image.dim() == 3, ShapeError, op,
                "expected an image [C, H, W], got {}", image.describe());
  FERRITE_CHECK(image.dtype() == kUInt8 || image.dtype() == kFloat32, DTypeError, op,
                "expected uint8 or float32, got {}", image.describe());
  return host_contiguous(image, op);
}

std::vector<Transform> Transform::parts() const {
  if (!impl_) return {};
  if (const auto* composed = dynamic_cast<const Compose*>(impl_.get())) return composed->parts();
  return {*this};
}

Annotated TransformBase::apply_all(const Annotated& sample, Generator& random) const {
  Annotated out = sample;
  out.image = apply(sample.image, random);
  return out;
}

Tensor GeometricTransform::apply(const Tensor& image, Generator& random) const {
  const Tensor in = dense_image(image, op());
  return warp_image(in, draw(in.size(1), in.size(2), random), op());
}

Annotated GeometricTransform::apply_all(const Annotated& sample, Generator& random) const {
  const Tensor in = dense_image(sample.image, op());
  return warp(sample, draw(in.size(1), in.size(2), random), op());
}

Compose::Compose(const std::vector<Transform>& transforms) {
  for (const Transform& t : transforms)
    for (Transform& part : t.parts()) parts_.push_back(std::move(part));
}

Tensor Compose::apply(const Tensor& image, Generator& random) const {
  Tensor current = image;
  for (const Transform& t : parts_) current = t(current, random);
  return current;
}

Annotated Compose::apply_all(const Annotated& sample, Generator& random) const {
  Annotated current = sample;
  for (const Transform& t : parts_) current = t(current, random);
  return current;
}

bool Compose::pointwise() const { return std::ranges::all_of(parts_, &Transform::pointwise); }

Tensor ToTensor::apply(const Tensor& image, Generator&) const {
  const Tensor in = dense_image(image, "to_tensor");
  if (in.dtype() == kFloat32) return in;
  Tensor out = empty(in.shape(), {.dtype = kFloat32, .device = kCPU});
  std::transform(in.data<std::uint8_t>(), in.data<std::uint8_t>() + in.numel(), out.data<float>(),
                 [](std::uint8_t v) { return static_cast<float>(v) / 255.0f; });
  return out;
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> std)
    : mean_(mean.begin(), mean.end()), std_(std.begin(), std.end()) {
  FERRITE_CHECK(!mean.empty() && mean.size() == std.size(), ValueError, "normalize",
                "expected as many means as deviations, got {} and {}", mean.size(), std.size());
  for (const double s : std)
    FERRITE_CHECK(s > 0 && std::isfinite(s), ValueError, "normalize",
                  "expected deviations above 0, got {}", s);
}

Tensor Normalize::apply(const Tensor& image, Generator&) const {
  const Tensor in = dense_image(image, "normalize");
  FERRITE_CHECK(in.dtype() == kFloat32, DTypeError, "normalize",
                "expected float32, got {}; put ToTensor in front", in.describe());
  const auto channels = static_cast<std::size_t>(in.size(0));
  FERRITE_CHECK(mean_.size() == 1 || mean_.size() == channels, ShapeError, "normalize",
                "image has {} channels, mean and std have {}", channels, mean_.size());
  Tensor out = empty(in.shape(), {.dtype = kFloat32, .device = kCPU});
  const std::int64_t area = in.size(1) * in.size(2);
  const float* p = in.data<float>();
  float* q = out.data<float>();
  for (std::size_t c = 0; c < channels; ++c, p += area, q += area) {
    const float mean = mean_[mean_.size() == 1 ? 0 : c], std = std_[std_.size() == 1 ? 0 : c];
    std::transform(p, p + area, q, [=](float v) { return (v - mean) / std; });
  }
  return out;
}

RandomCrop::RandomCrop(std::int64_t height, std::int64_t width, std::int64_t padding)
    : height_(height), width_(width), padding_(padding) {
  FERRITE_CHECK(height > 0 && width > 0 && padding >= 0, ValueError, "random_crop",
                "expected a size above 0 and a padding of 0 or more, got {} x {} and {}", height,
                width, padding);
}

Warp RandomCrop::draw(std::int64_t height, std::int64_t width, Generator& random) const {
  const std::int64_t free_y = height + 2 * padding_ - height_;
  const std::int64_t free_x = width + 2 * padding_ - width_;
  FERRITE_CHECK(free_y >= 0 && free_x >= 0, ShapeError, "random_crop",
                "an image of {} x {} with padding {} is smaller than the window of {} x {}", height,
                width, padding_, height_, width_);
  const std::int64_t top = up_to(random, free_y), left = up_to(random, free_x);
  return {{top - padding_, left - padding_, height_, width_}, height_, width_};
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  check_probability(p, "random_horizontal_flip");
}

Warp RandomHorizontalFlip::draw(std::int64_t height, std::int64_t width, Generator& random) const {
  Warp warp{{0, 0, height, width}, height, width};
  warp.mirrored = random.next_double() < p_;
  return warp;
}

RandomRotation::RandomRotation(double degrees) : RandomRotation(-degrees, degrees) {}

RandomRotation::RandomRotation(double low, double high) : low_(low), high_(high) {
  FERRITE_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, ValueError,
                "random_rotation", "expected low <= high in degrees, got {} and {}", low, high);
}

Warp RandomRotation::draw(std::int64_t height, std::int64_t width, Generator& random) const {
  Warp warp{{0, 0, height, width}, height, width};
  const double degrees = uniform(random, low_, high_);
  if (degrees != 0) warp.affine = inverse_affine({.radians = -degrees * std::numbers::pi / 180});
  return warp;
}

RandomErasing::RandomErasing(const RandomErasingOptions& options) : options_(options) {
  check_probability(options.p, "random_erasing");
  const auto& [low, high] = options.scale;
  FERRITE_CHECK(low >= 0 && low <= high && high <= 1, ValueError, "random_erasing",
                "expected a scale of 0 <= low <= high <= 1, got {} and {}", low, high);
  FERRITE_CHECK(options.ratio[0] > 0 && options.ratio[0] <= options.ratio[1], ValueError,
                "random_erasing", "expected a ratio of 0 < low <= high, got {} and {}",
                options.ratio[0], options.ratio[1]);
}

Tensor RandomErasing::apply(const Tensor& image, Generator& random) const {
  const Tensor in = dense_image(image, "random_erasing");
  if (random.next_double() >= options_.p) return in;
  const std::int64_t channels = in.size(0), height = in.size(1), width = in.size(2);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area =
        static_cast<double>(height * width) * uniform(random, options_.scale[0], options_.scale[1]);
    const double ratio =
        std::exp(uniform(random, std::log(options_.ratio[0]), std::log(options_.ratio[1])));
    const auto h = static_cast<std::int64_t>(std::lround(std::sqrt(area * ratio)));
    const auto w = static_cast<std::int64_t>(std::lround(std::sqrt(area / ratio)));
    if (h >= height || w >= width) continue;
    const std::int64_t top = up_to(random, height - h), left = up_to(random, width - w);
    Tensor out = empty(in.shape(), {.dtype = in.dtype(), .device = kCPU});
    std::memcpy(out.data_ptr(), in.data_ptr(), in.nbytes());
    dispatch_image(in, "random_erasing", [&]<class T>() {
      const double most = std::is_integral_v<T> ? 255 : std::numeric_limits<float>::max();
      const double least = std::is_integral_v<T> ? 0 : -most;
      const auto value = static_cast<T>(std::clamp(options_.value, least, most));
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t y = top; y < top + h; ++y)
          std::fill_n(out.data<T>() + (c * height + y) * width + left, w, value);
    });
    return out;
  }
  return in;
}

}  // namespace ferrite::data
