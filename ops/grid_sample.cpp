#include "ferrite/ops/grid_sample.h"

#include <algorithm>
#include <span>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/grid_sample.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::Saved;

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

/// Along one axis, the pixels that the points are made of: at whole numbers, inside of the image or
/// not, and with weights; [N, pixels, points].
struct Taps {
  Tensor whole, weights;
};

/// The weight is 1; its gradient is 0, as PyTorch's.
Taps nearest_taps(T x) {
  return {round(x).detach().unsqueeze(1), where(eq(x, x), 1, x).unsqueeze(1)};
}

Taps linear_taps(T x) {
  const Tensor low = floor(x).detach(), part = x - low;
  return {stack({low, low + 1}, 1), stack({1 - part, part}, 1)};
}

/// Keys, "Cubic convolution interpolation for digital image processing", 1981. Each pixel is padded
/// by itself.
Taps cubic_taps(T x, std::int64_t size, const GridSampleOptions& o) {
  constexpr double a = -0.75;
  const auto near = [](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const Tensor low = floor(x).detach(), t = x - low;
  std::vector<Tensor> whole;
  for (int i = -1; i <= 2; ++i) whole.push_back(padded(low + i, size, o));
  return {stack(whole, 1), stack({far(t + 1), near(t), near(1 - t), far(2 - t)}, 1)};
}

/// Combines a value of [N, a, points] with each of [N, b, points]: [N, a * b, points].
template <class F>
Tensor each_with_each(T a, T b, F&& f) {
  return f(a.unsqueeze(2), b.unsqueeze(1)).flatten(1, 2);
}

/// The places of all combinations of taps in an image of these sizes, -1 outside, by ops.
Tensor traced_places(const std::vector<Taps>& axes, const std::vector<std::int64_t>& sizes) {
  Tensor places, inside;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const double last = static_cast<double>(sizes[d] - 1);
    T whole = axes[d].whole;
    const Tensor near = clamp(whole, 0, last).to(kInt64);
    const Tensor here = logical_and(ge(whole, 0), le(whole, last));
    places =
        d == 0 ? near : each_with_each(places * sizes[d], near, [](T a, T b) { return a + b; });
    inside =
        d == 0 ? here : each_with_each(inside, here, [](T a, T b) { return logical_and(a, b); });
  }
  return where(inside, places, -1);
}

Tensor places_of(const std::vector<Taps>& axes, const std::vector<std::int64_t>& sizes) {
  const NoGradGuard guard;
  if (tracing::on()) return traced_places(axes, sizes);
  kernels::SampleAxes lines{.count = static_cast<int>(axes.size())};
  std::vector<Tensor> whole;
  std::int64_t each = 1;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    whole.push_back(axes[d].whole.contiguous());
    lines.whole[d] = whole[d];
    lines.sizes[d] = sizes[d];
    lines.taps[d] = whole[d].size(1);
    each *= lines.taps[d];
  }
  const Tensor places = empty({whole[0].size(0), each, whole[0].size(2)},
                              {.dtype = kInt64, .device = whole[0].device()});
  kernels::sample_places(current_stream(places.device()), places, lines);
  return places;
}

Tensor weights_of(const std::vector<Taps>& axes) {
  Tensor weights = axes[0].weights;
  for (std::size_t d = 1; d < axes.size(); ++d)
    weights = each_with_each(weights, axes[d].weights, [](T a, T b) { return a * b; });
  return weights;
}

// ---- Weighted sums of pixels (kernels/grid_sample.h), of an image [N, C, pixels] and places and
// weights [N, K, points]

/// The places of all channels, those outside of the image at its first pixel: [N, C, K * points].
Tensor places_inside(T places, std::int64_t channels) {
  const Tensor near = clamp_min(places, 0).flatten(1).unsqueeze(1);
  return near.expand({near.size(0), channels, near.size(2)});
}

/// [N, C, K, points], 0 outside.
Tensor pixels_at(T image, T places) {
  const Tensor values = image.gather(2, places_inside(places, image.size(1)));
  return where(ge(places, 0).unsqueeze(1),
               values.reshape({image.size(0), image.size(1), places.size(1), places.size(2)}), 0);
}

/// The gradients of image and weights made of differentiable ops.
Gradients differentiable_gradients(T grad, T image, T places, T weights, Needs needs) {
  Gradients g(2);
  const Tensor dy = grad.unsqueeze(2);
  if (needs[0]) {
    const Tensor terms = where(ge(places, 0).unsqueeze(1), dy * weights.unsqueeze(1), 0);
    g[0] =
        scatter_add(zeros_like(image), 2, places_inside(places, image.size(1)), terms.flatten(2));
  }
  if (needs[1]) g[1] = sum(dy * pixels_at(image, places), 1);
  return g;
}

Gradients sum_gradients(T grad, T image, T places, T weights, Needs needs) {
  const Stream stream = current_stream(image.device());
  const Tensor dy = grad.contiguous();
  Gradients g{needs[0] ? zeros_like(image) : Tensor(), needs[1] ? empty_like(weights) : Tensor()};
  if (needs[0]) kernels::sample_image_gradient(stream, g[0], dy, places, weights);
  if (needs[1]) kernels::sample_weight_gradient(stream, g[1], dy, image, places);
  return g;
}

Tensor weighted_sum(T image, T places, T weights) {
  if (tracing::on()) return sum(pixels_at(image, places) * weights.unsqueeze(1), 2);
  const Tensor out = empty({image.size(0), image.size(1), places.size(2)}, image.options());
  kernels::sample_pixels(current_stream(image.device()), out, image, places, weights);
  if (autograd::recording(image, weights))
    autograd::record(
        out, "grid_sample", {image, weights},
        [image = Saved(image), places, weights = Saved(weights)](T grad, Needs needs) -> Gradients {
          const auto gradients =
              autograd::creating_graph() ? differentiable_gradients : sum_gradients;
          return gradients(grad, image.get(), places, weights.get(), needs);
        });
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
  const Tensor points = nan_to_num(grid.to(wide), -1).flatten(1, -2);
  std::vector<std::int64_t> sizes;
  std::vector<Taps> axes;
  for (int d = 2; d < input.dim(); ++d) {
    const std::int64_t size = input.size(d);
    sizes.push_back(size);
    // x, the last dimension, comes first in the grid.
    const Tensor x = positions(points.select(-1, input.dim() - 1 - d), size, o.align_corners);
    if (o.mode == GridSampleMode::bicubic)
      axes.push_back(cubic_taps(x, size, o));
    else if (o.mode == GridSampleMode::bilinear)
      axes.push_back(linear_taps(padded(x, size, o)));
    else
      axes.push_back(nearest_taps(padded(x, size, o)));
  }
  const Tensor out =
      weighted_sum(input.to(wide).flatten(2).contiguous(), places_of(axes, sizes).contiguous(),
                   weights_of(axes).contiguous());
  Shape shape{input.size(0), input.size(1)};
  for (int d = 1; d < grid.dim() - 1; ++d) shape.push_back(grid.size(d));
  return out.reshape(shape).to(input.dtype());
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
