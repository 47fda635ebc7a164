#include "ferrite/ops/mixup.h"

#include <algorithm>
#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/rearrange.h"

namespace ferrite {

namespace {

/// Gamma(shape, 1); below 1 by Gamma(shape + 1) U^(1 / shape).
double sample_gamma(double shape, Generator& random) {
  if (shape < 1) {
    const double u = 1 - random.next_double();
    return sample_gamma(shape + 1, random) * std::pow(u, 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.next_normal(), v = std::pow(1 + c * x, 3);
    const double u = 1 - random.next_double();
    if (v > 0 && std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

void check_mix(const MixOptions& o, std::string_view op) {
  FERRITE_CHECK(o.num_classes > 0 && o.alpha > 0, ValueError, op,
                "expected num_classes and alpha above 0, got {} and {}", o.num_classes, o.alpha);
}

/// The factor and the box are drawn in the host: replays of a graph would repeat them.
void check_not_captured(const Tensor& images, const char* op) {
  FERRITE_CHECK(!images.defined() || images.device().is_host() ||
                    !ferrite::detail::cuda::is_capturing(current_stream(images.device())),
                CudaError, op,
                "draws numbers in the host, which a captured step would repeat in each replay; mix "
                "the batch before the step");
}

Tensor of_sample_before(const Tensor& x) { return roll(x, {1}, {0}); }

Tensor mixed_labels(const Tensor& images, const Tensor& labels, double lam, std::int64_t classes,
                    std::string_view op) {
  FERRITE_CHECK(labels.defined() && (is_floating(labels.dtype()) || labels.dtype() == kInt64),
                DTypeError, op, "expected labels int64 [N] or probabilities, got {}",
                labels.describe());
  const Tensor p =
      is_floating(labels.dtype())
          ? labels
          : one_hot(labels, classes).to(is_floating(images.dtype()) ? images.dtype() : kFloat32);
  FERRITE_CHECK(p.dim() == 2 && p.size(1) == classes && p.size(0) == images.size(0), ShapeError, op,
                "expected labels [{}] or [{}, {}], got {}", images.size(0), images.size(0), classes,
                labels.describe());
  return p * lam + of_sample_before(p) * (1 - lam);
}

}  // namespace

double sample_beta(double a, double b, Generator& random) {
  FERRITE_CHECK(a > 0 && b > 0, ValueError, "sample_beta",
                "expected parameters above 0, got {} and {}", a, b);
  const double x = sample_gamma(a, random), y = sample_gamma(b, random);
  // Both underflow where the parameters are tiny, and the distribution is then at the ends.
  return x + y > 0 ? x / (x + y) : static_cast<double>(random.next_below(2));
}

MixUp::MixUp(const MixOptions& options) : options_(options) { check_mix(options, "mixup"); }

MixedBatch MixUp::operator()(const Tensor& images, const Tensor& labels, Generator& random) const {
  check_not_captured(images, "mixup");
  return mix(images, labels, sample_beta(options_.alpha, options_.alpha, random));
}

MixedBatch MixUp::mix(const Tensor& images, const Tensor& labels, double lam) const {
  const NoGradGuard guard;
  FERRITE_CHECK(images.defined() && is_floating(images.dtype()), DTypeError, "mixup",
                "expected floating inputs, got {}", images.describe());
  return {images * lam + of_sample_before(images) * (1 - lam),
          mixed_labels(images, labels, lam, options_.num_classes, "mixup")};
}

CutMix::CutMix(const MixOptions& options) : options_(options) { check_mix(options, "cutmix"); }

MixedBatch CutMix::operator()(const Tensor& images, const Tensor& labels, Generator& random) const {
  FERRITE_CHECK(images.defined() && images.dim() == 4, ShapeError, "cutmix",
                "expected images [N, C, H, W], got {}", images.describe());
  check_not_captured(images, "cutmix");
  const double lam = sample_beta(options_.alpha, options_.alpha, random);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(
        random.next_below(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n))));
  };
  const std::int64_t x = below(images.size(3)), y = below(images.size(2));
  return cut(images, labels, lam, x, y);
}

MixedBatch CutMix::cut(const Tensor& images, const Tensor& labels, double lam, std::int64_t x,
                       std::int64_t y) const {
  const NoGradGuard guard;
  FERRITE_CHECK(images.defined() && images.dim() == 4, ShapeError, "cutmix",
                "expected images [N, C, H, W], got {}", images.describe());
  const std::int64_t height = images.size(2), width = images.size(3);
  const auto half = [&](std::int64_t size) {
    return static_cast<std::int64_t>(0.5 * std::sqrt(1 - lam) * static_cast<double>(size));
  };
  const auto inside = [](std::int64_t v, std::int64_t size) {
    return std::clamp<std::int64_t>(v, 0, size);
  };
  const std::int64_t x1 = inside(x - half(width), width), x2 = inside(x + half(width), width);
  const std::int64_t y1 = inside(y - half(height), height), y2 = inside(y + half(height), height);
  const Tensor result = images.clone();
  const auto part = [&](const Tensor& t) {
    return t.narrow(2, y1, y2 - y1).narrow(3, x1, x2 - x1);
  };
  part(result).copy_(part(of_sample_before(images)));
  const double share = static_cast<double>((x2 - x1) * (y2 - y1)) /
                       static_cast<double>(std::max<std::int64_t>(1, height * width));
  return {result, mixed_labels(images, labels, 1 - share, options_.num_classes, "cutmix")};
}

}  // namespace ferrite
