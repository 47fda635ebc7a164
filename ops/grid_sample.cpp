#include "ferrite/ops/grid_sample.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

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

/// Points in [-1, 1] as positions of pixels 0 to size - 1.
Tensor positions(T points, std::int64_t size, bool align_corners) {
  const double n = static_cast<double>(size);
  return align_corners ? (points + 1) * ((n - 1) / 2) : ((points + 1) * n - 1) / 2;
}

/// Positions moved into the image, and outside of it where there are zeros.
Tensor padded(T x, std::int64_t size, const GridSampleOptions& o) {
  const double n = static_cast<double>(size);
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

/// An image or volume. Lists of positions [N, (d,) h, w] have the order of its dimensions.
struct Image {
  Tensor pixels;  // [N, C, (D *) H * W]
  std::vector<std::int64_t> sizes;

  /// The pixels at whole numbers, with 0 outside: [N, C, (d,) h, w].
  Tensor at(const std::vector<Tensor>& whole) const {
    const auto [places, inside] = no_grad([&] {
      Tensor place, within;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        const double last = static_cast<double>(sizes[d] - 1);
        const Tensor near = clamp(whole[d], 0, last).to(kInt64);
        const Tensor here = logical_and(ge(whole[d], 0), le(whole[d], last));
        place = d == 0 ? near : place * sizes[d] + near;
        within = d == 0 ? here : logical_and(within, here);
      }
      return std::pair(place, within);
    });
    const std::int64_t n = pixels.size(0), c = pixels.size(1), count = places.numel();
    const Tensor ids = places.reshape({n, 1, n == 0 ? 0 : count / n});
    const Tensor values = pixels.gather(2, ids.expand({n, c, ids.size(2)}));
    Shape shape = places.shape();
    shape.insert(1, c);
    return where(inside.unsqueeze(1), values.reshape(shape), 0);
  }
};

/// The blend of the pixels around the positions `at`. Dimensions before `axis` are whole.
Tensor linear(const Image& image, std::vector<Tensor> at, std::size_t axis = 0) {
  if (axis == at.size()) return image.at(at);
  const Tensor x = at[axis], low = floor(x).detach(), part = (x - low).unsqueeze(1);
  at[axis] = low;
  const Tensor first = linear(image, at, axis + 1);
  at[axis] = low + 1;
  return first * (1 - part) + linear(image, at, axis + 1) * part;
}

/// The weights of the pixels at -1, 0, 1 and 2 for a point at `t` in [0, 1) (Keys, "Cubic
/// convolution interpolation for digital image processing", 1981).
std::array<Tensor, 4> cubic_weights(T t) {
  constexpr double a = -0.75;
  const auto near = [](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// The blend of the 4 x 4 pixels around the positions `at`, each of which is padded by itself.
Tensor bicubic(const Image& image, const std::vector<Tensor>& at, const GridSampleOptions& o) {
  const Tensor top = floor(at[0]).detach(), left = floor(at[1]).detach();
  const auto down = cubic_weights((at[0] - top).unsqueeze(1)),
             across = cubic_weights((at[1] - left).unsqueeze(1));
  Tensor out;
  for (int i = 0; i < 4; ++i) {
    const Tensor y = padded(top + (i - 1), image.sizes[0], o);
    Tensor row;
    for (int j = 0; j < 4; ++j) {
      const Tensor pixels = image.at({y, padded(left + (j - 1), image.sizes[1], o)});
      row = j == 0 ? pixels * across[j] : row + pixels * across[j];
    }
    out = i == 0 ? row * down[i] : out + row * down[i];
  }
  return out;
}

void check(T input, T grid, const GridSampleOptions& o) {
  FERRITE_CHECK(input.dtype() == grid.dtype(), DTypeError, "grid_sample",
                "the input is {}, the grid {}; convert one with to(dtype)", input.dtype(),
                grid.dtype());
  FERRITE_CHECK(input.device() == grid.device(), DeviceError, "grid_sample",
                "the input is on {}, the grid on {}; move one with to(device)", input.device(),
                grid.device());
  const int dims = input.dim() - 2;
  FERRITE_CHECK((dims == 2 || dims == 3) && grid.dim() == dims + 2 &&
                    grid.size(0) == input.size(0) && grid.size(-1) == dims,
                ShapeError, "grid_sample",
                "expected an input [N, C, H, W] and a grid [N, h, w, 2], or an input [N, C, D, H, "
                "W] and a grid [N, d, h, w, 3], got {} and {}",
                input.shape(), grid.shape());
  for (int d = 2; d < input.dim(); ++d)
    FERRITE_CHECK(input.size(d) > 0, ShapeError, "grid_sample",
                  "expected an input with pixels, got {}", input.shape());
  FERRITE_CHECK(o.mode != GridSampleMode::bicubic || dims == 2, ShapeError, "grid_sample",
                "the mode bicubic expects an input [N, C, H, W], got {}; use bilinear for volumes",
                input.shape());
}

Tensor sampled(T input, T grid, const GridSampleOptions& o) {
  check(input, grid, o);
  const DType wide = itemsize(input.dtype()) == 2 ? kFloat32 : input.dtype();
  const Tensor points = nan_to_num(grid.to(wide), -1);
  Image image{input.to(wide).flatten(2), {}};
  std::vector<Tensor> at;
  for (int d = 2; d < input.dim(); ++d) {
    image.sizes.push_back(input.size(d));
    // x, the last dimension, comes first in the grid.
    at.push_back(positions(points.select(-1, input.dim() - 1 - d), input.size(d), o.align_corners));
  }
  if (o.mode == GridSampleMode::bicubic) return bicubic(image, at, o).to(input.dtype());
  for (std::size_t d = 0; d < at.size(); ++d) at[d] = padded(at[d], image.sizes[d], o);
  if (o.mode == GridSampleMode::bilinear) return linear(image, at).to(input.dtype());
  for (Tensor& x : at) x = round(x);
  return image.at(at).to(input.dtype());
}

/// The centres of `size` pixels between -1 and 1.
Tensor centres(std::int64_t size, bool align_corners, T like) {
  const double n = static_cast<double>(size), end = align_corners ? 1 : (n - 1) / n;
  const TensorOptions options{.dtype = like.dtype(), .device = like.device()};
  return size > 1 ? linspace(-end, end, size, options) : zeros({size}, options);
}

/// The points of the centres, with a 1: [(D *) H * W, 3 or 4].
Tensor homogeneous(const Shape& size, bool align_corners, T like) {
  const Shape image(std::span(size.begin() + 2, size.end()));
  std::vector<Tensor> parts;
  for (int d = image.size() - 1; d >= 0; --d) {
    Shape line;
    for (int i = 0; i < image.size(); ++i) line.push_back(i == d ? image[d] : 1);
    parts.push_back(centres(image[d], align_corners, like).reshape(line).expand(image));
  }
  parts.push_back(ones_like(parts[0]));
  return stack(parts, -1).flatten(0, -2);
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
        const int dims = static_cast<int>(size.size()) - 2;
        const bool fits = (dims == 2 || dims == 3) && theta.dim() == 3 && theta.size(1) == dims &&
                          theta.size(2) == dims + 1 && size[0] == theta.size(0) &&
                          std::ranges::all_of(size, [](std::int64_t n) { return n >= 0; });
        FERRITE_CHECK(fits, ShapeError, "affine_grid",
                      "expected matrices [N, 2, 3] and a size (N, C, H, W), or matrices [N, 3, 4] "
                      "and a size (N, C, D, H, W), got {} and {}",
                      theta.shape(), size);
        Shape shape(std::span(size.begin() + 2, size.end()));
        shape.insert(0, size[0]);
        shape.push_back(dims);
        const Tensor base = homogeneous(size, align_corners, theta);
        return matmul(base.unsqueeze(0), theta.transpose(1, 2)).reshape(shape);
      },
      theta);
}

}  // namespace ferrite
