#include "ferrite/data/auto_augment.h"

#include <array>
#include <cmath>
#include <numbers>

#include "ferrite/data/colour.h"
#include "ferrite/data/image_tensor.h"

namespace ferrite::data {

namespace {

constexpr std::size_t kOps = 14;

Tensor change_colours(const Tensor& image, AugmentOp op, double magnitude) {
  switch (op) {
    case AugmentOp::brightness:
      return adjust_brightness(image, 1 + magnitude);
    case AugmentOp::color:
      return adjust_saturation(image, 1 + magnitude);
    case AugmentOp::contrast:
      return adjust_contrast(image, 1 + magnitude);
    case AugmentOp::sharpness:
      return adjust_sharpness(image, 1 + magnitude);
    case AugmentOp::posterize:
      return posterize(image, static_cast<int>(magnitude));
    case AugmentOp::solarize:
      return solarize(image, image.dtype() == kUInt8 ? magnitude : magnitude / 255);
    case AugmentOp::autocontrast:
      return autocontrast(image);
    case AugmentOp::equalize:
      return equalize(image);
    default:
      return image;
  }
}

/// Shears about the upper left corner, and turns counter-clockwise about the centre.
AffineParameters moved(AugmentOp op, double magnitude, std::int64_t height, std::int64_t width) {
  AffineParameters p;
  if (op == AugmentOp::shear_x || op == AugmentOp::shear_y) {
    p.centre_x = -static_cast<double>(width) / 2;
    p.centre_y = -static_cast<double>(height) / 2;
    (op == AugmentOp::shear_x ? p.shear_x : p.shear_y) = std::atan(magnitude);
  }
  if (op == AugmentOp::translate_x) p.translate_x = std::trunc(magnitude);
  if (op == AugmentOp::translate_y) p.translate_y = std::trunc(magnitude);
  if (op == AugmentOp::rotate) p.radians = -magnitude * std::numbers::pi / 180;
  return p;
}

/// The strengths of a space: magnitudes run from 0 to these, or down to what is left of 8 bits, or
/// from 255 to 0. A sign may be drawn where there is one.
struct Space {
  double shear, translate_x, translate_y, degrees, factor, bits;
};

/// torch.linspace(from, to, bins)[bin]: in float32, with one rounding, from the nearer end, so that
/// magnitudes that are whole numbers stay such.
double on_line(double from, double to, std::int64_t bin, std::int64_t bins) {
  const auto first = static_cast<float>(from), last = static_cast<float>(to);
  if (bins == 1) return first;
  const float step = (last - first) / static_cast<float>(bins - 1);
  return bin < bins / 2 ? std::fma(step, static_cast<float>(bin), first)
                        : std::fma(-step, static_cast<float>(bins - 1 - bin), last);
}

double magnitude_of(AugmentOp op, const Space& s, std::int64_t bin, std::int64_t bins) {
  switch (op) {
    case AugmentOp::shear_x:
    case AugmentOp::shear_y:
      return on_line(0, s.shear, bin, bins);
    case AugmentOp::translate_x:
      return on_line(0, s.translate_x, bin, bins);
    case AugmentOp::translate_y:
      return on_line(0, s.translate_y, bin, bins);
    case AugmentOp::rotate:
      return on_line(0, s.degrees, bin, bins);
    case AugmentOp::brightness:
    case AugmentOp::color:
    case AugmentOp::contrast:
    case AugmentOp::sharpness:
      return on_line(0, s.factor, bin, bins);
    case AugmentOp::posterize:
      return bins == 1
                 ? 8
                 : 8 - std::nearbyint(static_cast<float>(bin) /
                                      static_cast<float>(static_cast<double>(bins - 1) / s.bits));
    case AugmentOp::solarize:
      return on_line(255, 0, bin, bins);
    default:
      return 0;
  }
}

bool is_signed(AugmentOp op) { return op >= AugmentOp::shear_x && op <= AugmentOp::sharpness; }

double with_sign(AugmentOp op, double magnitude, Generator& random) {
  return is_signed(op) && random.next_below(2) == 1 ? -magnitude : magnitude;
}

AugmentOp any_op(Generator& random) { return static_cast<AugmentOp>(random.next_below(kOps)); }

}  // namespace

Annotated apply_op(const Annotated& sample, AugmentOp op, double magnitude, double fill) {
  const Tensor image = dense_image(sample.image, "apply_op");
  if (op >= AugmentOp::shear_x && op <= AugmentOp::rotate) {
    Warp map = no_warp(image.size(1), image.size(2));
    map.affine = inverse_affine(moved(op, magnitude, image.size(1), image.size(2)));
    map.nearest = true;
    map.fill = fill;
    return warp(sample, map, "apply_op");
  }
  Annotated out = sample;
  out.image = change_colours(image, op, magnitude);
  return out;
}

RandomOps::RandomOps(std::int64_t num_ops, std::int64_t bins, double fill, std::string_view op)
    : num_ops_(num_ops), bins_(bins), fill_(fill) {
  FERRITE_CHECK(num_ops >= 0 && bins > 0, ValueError, op,
                "expected 0 or more operations and bins above 0, got {} and {}", num_ops, bins);
}

Tensor RandomOps::apply(const Tensor& image, Generator& random) const {
  return apply_all({.image = image}, random).image;
}

Annotated RandomOps::apply_all(const Annotated& sample, Generator& random) const {
  Annotated out = sample;
  const Tensor image = dense_image(sample.image, "apply_op");
  const std::int64_t height = image.size(1), width = image.size(2);
  for (std::int64_t i = 0; i < num_ops_; ++i) {
    const Choice choice = choose(random, height, width);
    out = apply_op(out, choice.op, choice.magnitude, fill_);
  }
  return out;
}

RandAugment::RandAugment(const RandAugmentOptions& o)
    : RandomOps(o.num_ops, o.num_magnitude_bins, o.fill, "rand_augment"), magnitude_(o.magnitude) {
  FERRITE_CHECK(o.magnitude >= 0 && o.magnitude < o.num_magnitude_bins, ValueError, "rand_augment",
                "expected a magnitude of 0 to {}, got {}", o.num_magnitude_bins - 1, o.magnitude);
}

RandomOps::Choice RandAugment::choose(Generator& random, std::int64_t height,
                                      std::int64_t width) const {
  const Space space{.shear = 0.3,
                    .translate_x = 150.0 / 331 * static_cast<double>(width),
                    .translate_y = 150.0 / 331 * static_cast<double>(height),
                    .degrees = 30,
                    .factor = 0.9,
                    .bits = 4};
  const AugmentOp op = any_op(random);
  return {op, with_sign(op, magnitude_of(op, space, magnitude_, bins_), random)};
}

RandomOps::Choice TrivialAugmentWide::choose(Generator& random, std::int64_t, std::int64_t) const {
  constexpr Space space{.shear = 0.99,
                        .translate_x = 32,
                        .translate_y = 32,
                        .degrees = 135,
                        .factor = 0.99,
                        .bits = 6};
  const AugmentOp op = any_op(random);
  const std::int64_t bin = up_to(random, bins_ - 1);
  return {op, with_sign(op, magnitude_of(op, space, bin, bins_), random)};
}

}  // namespace ferrite::data
