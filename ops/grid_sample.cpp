#include "ferrite/ops/grid_sample.h"

#include <array>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

namespace {

using T = const Tensor&;

/// x mirrored at `low` and `high` until it is between them.
Tensor reflected(T x, double low, double high) {
  if (low == high) return x * 0;
  const double span = high - low;
  const Tensor from_low = abs(x - low), turns = floor(from_low / span).detach();
  const Tensor rest = from_low - turns * span;
  return where(eq(remainder(turns, 2), 0), rest + low, (span - rest) + low);
}

/// Points in [-1, 1] as positions of pixels 0 to size - 1, and outside where there are zeros.
Tensor positions(T points, std::int64_t size, const GridSampleOptions& o) {
  const double n = static_cast<double>(size);
  const Tensor x = o.align_corners ? (points + 1) * ((n - 1) / 2) : ((points + 1) * n - 1) / 2;
  switch (o.padding_mode) {
    case GridSamplePadding::zeros:
      return x;
    case GridSamplePadding::border:
      return clamp(x, 0, n - 1);
    default:
      break;
  }
  const Tensor inside = o.align_corners ? reflected(x, 0, n - 1) : reflected(x, -0.5, n - 0.5);
  return clamp(inside, 0, n - 1);
}

struct Image {
  Tensor pixels;  // [N, C, H * W]
  std::int64_t h, w;

  /// The pixels at whole numbers y and x, [N, h, w], with 0 outside: [N, C, h, w].
  Tensor at(T y, T x) const {
    const auto [places, inside] = no_grad([&] {
      const auto within = [](T t, std::int64_t size) {
        return logical_and(ge(t, 0), le(t, static_cast<double>(size - 1)));
      };
      const auto near = [](T t, std::int64_t size) {
        return clamp(t, 0, static_cast<double>(size - 1)).to(kInt64);
      };
      return std::pair(near(y, h) * w + near(x, w), logical_and(within(y, h), within(x, w)));
    });
    const std::int64_t n = pixels.size(0), c = pixels.size(1), count = places.numel();
    const Tensor ids = places.reshape({n, 1, n == 0 ? 0 : count / n});
    const Tensor values = pixels.gather(2, ids.expand({n, c, ids.size(2)}));
    return where(inside.unsqueeze(1), values.reshape({n, c, places.size(1), places.size(2)}), 0);
  }
};

Tensor sampled(T input, T grid, const GridSampleOptions& o) {
  FERRITE_CHECK(input.dtype() == grid.dtype(), DTypeError, "grid_sample",
                "the input is {}, the grid {}; convert one with to(dtype)", input.dtype(),
                grid.dtype());
  FERRITE_CHECK(input.device() == grid.device(), DeviceError, "grid_sample",
                "the input is on {}, the grid on {}; move one with to(device)", input.device(),
                grid.device());
  FERRITE_CHECK(
      input.dim() == 4 && grid.dim() == 4 && grid.size(0) == input.size(0) && grid.size(3) == 2 &&
          input.size(2) * input.size(3) > 0,
      ShapeError, "grid_sample",
      "expected an input of [N, C, H, W], with pixels, and a grid of [N, h, w, 2], got {} "
      "and {}",
      input.shape(), grid.shape());
  const DType wide = itemsize(input.dtype()) == 2 ? kFloat32 : input.dtype();
  const Tensor points = nan_to_num(grid.to(wide), -1);
  const Image image{input.to(wide).flatten(2), input.size(2), input.size(3)};
  const Tensor x = positions(points.select(3, 0), image.w, o),
               y = positions(points.select(3, 1), image.h, o);
  if (o.mode == GridSampleMode::nearest) return image.at(round(y), round(x)).to(input.dtype());
  const Tensor left = floor(x).detach(), top = floor(y).detach();
  const Tensor right_part = (x - left).unsqueeze(1), bottom_part = (y - top).unsqueeze(1);
  const Tensor upper =
      image.at(top, left) * (1 - right_part) + image.at(top, left + 1) * right_part;
  const Tensor lower =
      image.at(top + 1, left) * (1 - right_part) + image.at(top + 1, left + 1) * right_part;
  return (upper * (1 - bottom_part) + lower * bottom_part).to(input.dtype());
}

/// The centres of `size` pixels between -1 and 1.
Tensor centres(std::int64_t size, bool align_corners, T like) {
  const double n = static_cast<double>(size), end = align_corners ? 1 : (n - 1) / n;
  const TensorOptions options{.dtype = like.dtype(), .device = like.device()};
  return size > 1 ? linspace(-end, end, size, options) : zeros({size}, options);
}

}  // namespace

Tensor grid_sample(T input, T grid, const GridSampleOptions& options) {
  if (const auto cast = ops::autocast(CastPolicy::promote, input, grid)) {
    const auto& [image, points] = *cast;
    return grid_sample(image, points, options);
  }
  return ops::composite(
      "grid_sample",
      [&] {
        ops::check_floating("grid_sample", input, grid);
        return sampled(input, grid, options);
      },
      input, grid);
}

Tensor affine_grid(T theta, const Shape& size, bool align_corners) {
  return ops::composite(
      "affine_grid",
      [&] {
        ops::check_floating("affine_grid", theta);
        FERRITE_CHECK(theta.dim() == 3 && theta.size(1) == 2 && theta.size(2) == 3 &&
                          size.size() == 4 && size[0] == theta.size(0) && size[2] >= 0 &&
                          size[3] >= 0,
                      ShapeError, "affine_grid",
                      "expected matrices [N, 2, 3] and a size (N, C, H, W), got {} and {}",
                      theta.shape(), size);
        const std::int64_t h = size[2], w = size[3];
        const Tensor x = centres(w, align_corners, theta).reshape({1, w}).expand({h, w}),
                     y = centres(h, align_corners, theta).reshape({h, 1}).expand({h, w});
        const Tensor base = stack({x, y, ones_like(x)}, -1).reshape({1, h * w, 3});
        return matmul(base, theta.transpose(1, 2)).reshape({size[0], h, w, 2});
      },
      theta);
}

}  // namespace ferrite
