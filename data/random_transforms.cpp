#include "ferrite/data/random_transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ferrite/data/image_tensor.h"

namespace ferrite::data {

namespace {

constexpr double kRadians = std::numbers::pi / 180;

/// Pixels are seen once in their mirror, as in torchvision's transforms of tensors.
void check_reflection(PaddingMode mode, std::int64_t padding, std::int64_t size) {
  if (mode == PaddingMode::constant) return;
  const std::int64_t most = mode == PaddingMode::reflect ? size - 1 : size;
  FERRITE_CHECK(size > 0 && (mode == PaddingMode::edge || padding <= most), ShapeError, "pad",
                "there are {} pixels to pad a side of {} by {}", std::max<std::int64_t>(0, most),
                size, padding);
}

}  // namespace

RandomVerticalFlip::RandomVerticalFlip(double p) : p_(p) {
  check_probability(p, "random_vertical_flip");
}

Warp RandomVerticalFlip::draw(std::int64_t height, std::int64_t width, Generator& random) const {
  Warp warp = no_warp(height, width);
  warp.upside_down = random.next_double() < p_;
  return warp;
}

Warp Pad::draw(std::int64_t height, std::int64_t width, Generator&) const {
  const auto& [left, top, right, bottom] = padding_;
  const std::int64_t h = height + top + bottom, w = width + left + right;
  FERRITE_CHECK(h > 0 && w > 0, ShapeError, op(),
                "nothing is left of an image of {} x {} padded by {}, {}, {}, {}", height, width,
                left, top, right, bottom);
  Warp warp{{-top, -left, h, w}, h, w};
  warp.fill = fill_;
  warp.padding = mode_;
  check_reflection(mode_, std::max(top, bottom), height);
  check_reflection(mode_, std::max(left, right), width);
  return warp;
}

RandomAffine::RandomAffine(double degrees, const RandomAffineOptions& options)
    : degrees_(degrees), options_(options) {
  for (const double fraction : options.translate) check_probability(fraction, "random_affine");
  const auto& [low, high] = options.scale;
  const auto& [x0, x1, y0, y1] = options.shear;
  FERRITE_CHECK(degrees >= 0 && low > 0 && low <= high && x0 <= x1 && y0 <= y1, ValueError,
                "random_affine",
                "expected degrees of 0 or more and ranges that rise, of scales above 0; got {}, "
                "scale {} to {}, shear {} to {} and {} to {}",
                degrees, low, high, x0, x1, y0, y1);
}

Warp RandomAffine::draw(std::int64_t height, std::int64_t width, Generator& random) const {
  const auto pixels = [&](double fraction, std::int64_t size) {
    const double most = fraction * static_cast<double>(size);
    return std::nearbyint(uniform(random, -most, most));
  };
  Warp warp = no_warp(height, width);
  AffineParameters p;
  p.radians = uniform(random, -degrees_, degrees_) * kRadians;
  p.translate_x = pixels(options_.translate[0], width);
  p.translate_y = pixels(options_.translate[1], height);
  p.scale = uniform(random, options_.scale[0], options_.scale[1]);
  p.shear_x = uniform(random, options_.shear[0], options_.shear[1]) * kRadians;
  p.shear_y = uniform(random, options_.shear[2], options_.shear[3]) * kRadians;
  warp.affine = inverse_affine(p);
  warp.nearest = options_.nearest;
  warp.fill = options_.fill;
  return warp;
}

Tensor TransformOfTransforms::apply(const Tensor& image, Generator& random) const {
  Tensor current = image;
  for (const std::size_t i : choose(random)) current = transforms_[i](current, random);
  return current;
}

Annotated TransformOfTransforms::apply_all(const Annotated& sample, Generator& random) const {
  Annotated current = sample;
  for (const std::size_t i : choose(random)) current = transforms_[i](current, random);
  return current;
}

RandomApply::RandomApply(std::vector<Transform> transforms, double p)
    : TransformOfTransforms(std::move(transforms)), p_(p) {
  check_probability(p, "random_apply");
}

std::vector<std::size_t> RandomApply::choose(Generator& random) const {
  if (random.next_double() >= p_) return {};
  std::vector<std::size_t> all(transforms_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

RandomChoice::RandomChoice(std::vector<Transform> transforms, std::vector<double> p)
    : TransformOfTransforms(std::move(transforms)), p_(std::move(p)) {
  if (p_.empty()) p_.assign(transforms_.size(), 1);
  const bool fine = std::ranges::all_of(p_, [](double v) { return v >= 0 && std::isfinite(v); });
  FERRITE_CHECK(!transforms_.empty() && p_.size() == transforms_.size() && fine &&
                    std::accumulate(p_.begin(), p_.end(), 0.0) > 0,
                ValueError, "random_choice",
                "expected transforms and as many probabilities of 0 or more, not all 0; got {} "
                "and {}",
                transforms_.size(), p_.size());
}

std::vector<std::size_t> RandomChoice::choose(Generator& random) const {
  double left = random.next_double() * std::accumulate(p_.begin(), p_.end(), 0.0);
  std::size_t last = 0;  // the last that is possible, should rounding leave something
  for (std::size_t i = 0; i < p_.size(); ++i) {
    if (p_[i] == 0) continue;
    last = i;
    if ((left -= p_[i]) < 0) break;
  }
  return {last};
}

std::vector<std::size_t> RandomOrder::choose(Generator& random) const {
  const auto order = random.permutation(static_cast<std::int64_t>(transforms_.size()));
  return {order.begin(), order.end()};
}

ConvertImageDtype::ConvertImageDtype(DType dtype) : dtype_(dtype) {
  FERRITE_CHECK(dtype == kFloat32 || dtype == kUInt8, DTypeError, "convert_image_dtype",
                "expected float32 or uint8, got {}", dtype);
}

Tensor ConvertImageDtype::apply(const Tensor& image, Generator& random) const {
  const Tensor in = dense_image(image, "convert_image_dtype");
  if (in.dtype() == dtype_) return in;
  if (dtype_ == kFloat32) return ToTensor().apply(in, random);
  Tensor out = empty(in.shape(), {.dtype = kUInt8, .device = kCPU});
  // As torchvision: 256 intervals of equal length.
  std::transform(
      in.data<float>(), in.data<float>() + in.numel(), out.data<std::uint8_t>(),
      [](float v) { return static_cast<std::uint8_t>(std::clamp(v * 255.999f, 0.0f, 255.0f)); });
  return out;
}

}  // namespace ferrite::data
