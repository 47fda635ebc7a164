#include "ferrite/data/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ferrite/data/host.h"
#include "ferrite/data/image_tensor.h"
#include "ferrite/data/resample.h"

namespace ferrite::data {

namespace {

/// `fill` as a pixel.
template <class T>
T pixel(double fill) {
  return static_cast<T>(std::is_integral_v<T> ? std::clamp(fill, 0.0, 255.0) : fill);
}

template <class T>
void copy_window(const Tensor& image, const Window& window, T fill, const Tensor& out) {
  const std::int64_t channels = image.size(0), height = image.size(1), width = image.size(2);
  // Columns [first, last) of the window are inside the image.
  const std::int64_t first = std::clamp<std::int64_t>(-window.left, 0, window.width);
  const std::int64_t last = std::clamp<std::int64_t>(width - window.left, first, window.width);
  const T* p = image.data<T>();
  T* q = out.data<T>();
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < window.height; ++y, q += window.width) {
      const std::int64_t source = y + window.top;
      const bool inside = source >= 0 && source < height && last > first;
      if (!inside || last - first < window.width) std::fill_n(q, window.width, fill);
      if (inside)
        std::copy_n(p + (c * height + source) * width + window.left + first, last - first,
                    q + first);
    }
}

/// The place in an image of `size` that is seen at place `at`; -1 outside with constant padding.
std::int64_t padded_from(std::int64_t at, std::int64_t size, PaddingMode mode) {
  if (at >= 0 && at < size) return at;
  if (mode == PaddingMode::constant) return -1;
  if (mode == PaddingMode::edge) return at < 0 ? 0 : size - 1;
  const std::int64_t repeated = mode == PaddingMode::symmetric ? 1 : 0;  // the edge itself
  return at < 0 ? -at - repeated : 2 * (size - 1) - at + repeated;
}

/// The source of each of `to` places when `from` pixels beginning at `start` are scaled to them. In
/// float32, as in PyTorch, because the rounding decides which of two pixels is nearer.
std::vector<std::int64_t> nearest(std::int64_t start, std::int64_t from, std::int64_t to,
                                  std::int64_t size, PaddingMode mode) {
  std::vector<std::int64_t> sources(static_cast<std::size_t>(to));
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const auto nearest = static_cast<std::int64_t>(static_cast<float>(i) * scale);
    sources[static_cast<std::size_t>(i)] =
        padded_from(start + std::min(nearest, from - 1), size, mode);
  }
  return sources;
}

template <class T>
void copy_padded(const Tensor& image, const Window& window, PaddingMode mode, const Tensor& out) {
  const std::int64_t channels = image.size(0), height = image.size(1), width = image.size(2);
  const auto ys = nearest(window.top, window.height, window.height, height, mode);
  const auto xs = nearest(window.left, window.width, window.width, width, mode);
  T* q = out.data<T>();
  for (std::int64_t c = 0; c < channels; ++c)
    for (const std::int64_t y : ys) {
      const T* row = image.data<T>() + (c * height + y) * width;
      for (const std::int64_t x : xs) *q++ = row[x];
    }
}

Tensor window_of(const Tensor& image, const Warp& warp, std::string_view op) {
  Tensor out = empty({image.size(0), warp.window.height, warp.window.width},
                     {.dtype = image.dtype(), .device = kCPU});
  dispatch_image(image, op, [&]<class T>() {
    if (warp.padding == PaddingMode::constant)
      copy_window<T>(image, warp.window, pixel<T>(warp.fill), out);
    else
      copy_padded<T>(image, warp.window, warp.padding, out);
  });
  return out;
}

Tensor mirrored(const Tensor& image) {
  Tensor out = empty(image.shape(), {.dtype = image.dtype(), .device = kCPU});
  const std::int64_t rows = image.size(0) * image.size(1), width = image.size(2);
  dispatch_image(image, "mirror", [&]<class T>() {
    for (std::int64_t y = 0; y < rows; ++y)
      std::reverse_copy(image.data<T>() + y * width, image.data<T>() + (y + 1) * width,
                        out.data<T>() + y * width);
  });
  return out;
}

Tensor upside_down(const Tensor& image) {
  Tensor out = empty(image.shape(), {.dtype = image.dtype(), .device = kCPU});
  const std::int64_t height = image.size(1), width = image.size(2);
  dispatch_image(image, "flip", [&]<class T>() {
    for (std::int64_t row = 0; row < image.size(0) * height; ++row) {
      const std::int64_t plane = row / height * height;
      std::copy_n(image.data<T>() + row * width, width,
                  out.data<T>() + (plane + height - 1 - (row - plane)) * width);
    }
  });
  return out;
}

/// Where a moved image takes its values from, and where it puts those of a place.
struct Map {
  Map(const Affine& affine, std::int64_t height, std::int64_t width)
      : m(affine), cy(static_cast<double>(height) / 2), cx(static_cast<double>(width) / 2) {}

  /// The pixel, counted from the centre of the first, that belongs at pixel (y, x) of the result.
  std::pair<double, double> source(std::int64_t y, std::int64_t x) const {
    const double dy = static_cast<double>(y) + 0.5 - cy, dx = static_cast<double>(x) + 0.5 - cx;
    return {cy - 0.5 + m.yx * dx + m.yy * dy + m.y0, cx - 0.5 + m.xx * dx + m.xy * dy + m.x0};
  }
  /// A point of the image in the result.
  void move(double& x, double& y) const {
    const double dx = x - cx - m.x0, dy = y - cy - m.y0, det = m.xx * m.yy - m.xy * m.yx;
    x = cx + (m.yy * dx - m.xy * dy) / det;
    y = cy + (m.xx * dy - m.yx * dx) / det;
  }

  Affine m;
  double cy, cx;
};

/// The image moved by the affine map, computed in T.
template <class T>
void move_image(const Tensor& in, const Tensor& out, const Warp& warp) {
  const std::int64_t channels = in.size(0), height = in.size(1), width = in.size(2);
  const Map map(*warp.affine, height, width);
  const T fill = pixel<T>(warp.fill);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const auto [sy, sx] = map.source(y, x);
      const auto y0 = static_cast<std::int64_t>(warp.nearest ? std::nearbyint(sy) : std::floor(sy));
      const auto x0 = static_cast<std::int64_t>(warp.nearest ? std::nearbyint(sx) : std::floor(sx));
      const auto fy = static_cast<float>(sy - std::floor(sy));
      const auto fx = static_cast<float>(sx - std::floor(sx));
      for (std::int64_t c = 0; c < channels; ++c) {
        const T* plane = in.data<T>() + c * height * width;
        T& to = out.data<T>()[(c * height + y) * width + x];
        const auto at = [&](std::int64_t yy, std::int64_t xx) {
          const bool inside = yy >= 0 && yy < height && xx >= 0 && xx < width;
          return inside ? plane[yy * width + xx] : fill;
        };
        if (warp.nearest) {
          to = at(y0, x0);
          continue;
        }
        const auto number = [&](std::int64_t yy, std::int64_t xx) {
          return static_cast<float>(at(yy, xx));
        };
        const float top = number(y0, x0) * (1 - fx) + number(y0, x0 + 1) * fx;
        const float bottom = number(y0 + 1, x0) * (1 - fx) + number(y0 + 1, x0 + 1) * fx;
        const float value = top * (1 - fy) + bottom * fy;
        to = static_cast<T>(std::is_integral_v<T> ? value + 0.5f : value);
      }
    }
}

bool keeps_all(const Warp& warp, std::int64_t height, std::int64_t width) {
  const Window& w = warp.window;
  return w.top == 0 && w.left == 0 && w.height == height && w.width == width &&
         warp.height == height && warp.width == width;
}

/// For each value of the result, the index in a plane of the mask; -1 outside.
std::vector<std::int64_t> mask_sources(std::int64_t height, std::int64_t width, const Warp& warp) {
  auto ys = nearest(warp.window.top, warp.window.height, warp.height, height, warp.padding);
  auto xs = nearest(warp.window.left, warp.window.width, warp.width, width, warp.padding);
  if (warp.mirrored) std::ranges::reverse(xs);
  if (warp.upside_down) std::ranges::reverse(ys);
  std::vector<std::int64_t> all;
  all.reserve(ys.size() * xs.size());
  const Map map(warp.affine.value_or(Affine()), warp.height, warp.width);
  for (std::int64_t i = 0; i < warp.height; ++i)
    for (std::int64_t j = 0; j < warp.width; ++j) {
      std::int64_t y = i, x = j;
      if (warp.affine) {
        const auto [sy, sx] = map.source(i, j);
        y = std::llrint(sy), x = std::llrint(sx);
      }
      const bool inside = y >= 0 && y < warp.height && x >= 0 && x < warp.width;
      const std::int64_t row = inside ? ys[static_cast<std::size_t>(y)] : -1;
      const std::int64_t column = inside ? xs[static_cast<std::size_t>(x)] : -1;
      all.push_back(row < 0 || column < 0 ? -1 : row * width + column);
    }
  return all;
}

/// Copies values of `Size` bytes, zeros where there is no source.
template <std::size_t Size>
void gather_values(const char* in, std::span<const std::int64_t> sources, char* out) {
  for (const std::int64_t source : sources) {
    if (source < 0)
      std::memset(out, 0, Size);
    else
      std::memcpy(out, in + static_cast<std::size_t>(source) * Size, Size);
    out += Size;
  }
}

void check_coordinates(const Tensor& t, std::int64_t columns, std::string_view what,
                       std::string_view op) {
  FERRITE_CHECK(t.dim() == 2 && t.size(1) == columns, ShapeError, op, "expected {} [N, {}], got {}",
                what, columns, t.describe());
  FERRITE_CHECK(t.dtype() == kFloat32, DTypeError, op, "expected {} of float32, got {}", what,
                t.describe());
}

/// Moves a point into the result.
void move(double& x, double& y, const Warp& warp) {
  const Window& w = warp.window;
  x = (x - static_cast<double>(w.left)) * static_cast<double>(warp.width) /
      static_cast<double>(w.width);
  y = (y - static_cast<double>(w.top)) * static_cast<double>(warp.height) /
      static_cast<double>(w.height);
  if (warp.mirrored) x = static_cast<double>(warp.width) - x;
  if (warp.upside_down) y = static_cast<double>(warp.height) - y;
  if (warp.affine) Map(*warp.affine, warp.height, warp.width).move(x, y);
}

}  // namespace

Affine inverse_affine(const AffineParameters& p) {
  const double turn = p.radians - p.shear_y, level = std::cos(p.shear_y);
  const double a = std::cos(turn) / level, c = std::sin(turn) / level;
  const double b = -a * std::tan(p.shear_x) - std::sin(p.radians);
  const double d = -c * std::tan(p.shear_x) + std::cos(p.radians);
  Affine m{.xx = d / p.scale, .xy = -b / p.scale, .yx = -c / p.scale, .yy = a / p.scale};
  const double x = p.centre_x + p.translate_x, y = p.centre_y + p.translate_y;
  m.x0 = p.centre_x - m.xx * x - m.xy * y;
  m.y0 = p.centre_y - m.yx * x - m.yy * y;
  return m;
}

Tensor warp_image(const Tensor& image, const Warp& warp, std::string_view op) {
  Tensor out = image;
  if (!keeps_all(warp, image.size(1), image.size(2))) {
    if (warp.window.height == warp.height && warp.window.width == warp.width) {
      out = window_of(image, warp, op);
    } else {
      FERRITE_CHECK(image.size(1) > 0 && image.size(2) > 0, ShapeError, op,
                    "expected an image with pixels, got {}", image.describe());
      out =
          empty({image.size(0), warp.height, warp.width}, {.dtype = image.dtype(), .device = kCPU});
      resample(image, warp.window, out);
    }
  }
  if (warp.mirrored) out = mirrored(out);
  if (warp.upside_down) out = upside_down(out);
  if (warp.affine) {
    const Tensor moved = empty(out.shape(), {.dtype = out.dtype(), .device = kCPU});
    dispatch_image(out, op, [&]<class T>() { move_image<T>(out, moved, warp); });
    out = moved;
  }
  return out;
}

Tensor warp_mask(const Tensor& mask, std::int64_t height, std::int64_t width, const Warp& warp,
                 std::string_view op) {
  FERRITE_CHECK(
      (mask.dim() == 2 || mask.dim() == 3) && mask.size(-2) == height && mask.size(-1) == width,
      ShapeError, op, "expected a mask [{0}, {1}] or [K, {0}, {1}], got {2}", height, width,
      mask.describe());
  const Tensor in = host_contiguous(mask, op);
  Shape shape = in.shape();
  shape[in.dim() - 2] = warp.height;
  shape[in.dim() - 1] = warp.width;
  Tensor out = empty(shape, {.dtype = in.dtype(), .device = kCPU});
  const std::vector<std::int64_t> sources = mask_sources(height, width, warp);
  const std::size_t item = in.itemsize();
  const auto* from = static_cast<const char*>(in.data_ptr());
  auto* to = static_cast<char*>(out.data_ptr());
  const std::int64_t planes = in.dim() == 3 ? in.size(0) : 1;
  const auto area = static_cast<std::size_t>(height * width);
  for (std::int64_t k = 0; k < planes; ++k, from += area * item, to += sources.size() * item) {
    if (item == 1)
      gather_values<1>(from, sources, to);
    else if (item == 2)
      gather_values<2>(from, sources, to);
    else if (item == 4)
      gather_values<4>(from, sources, to);
    else if (item == 8)
      gather_values<8>(from, sources, to);
    else
      gather_values<16>(from, sources, to);
  }
  return out;
}

Tensor warp_boxes(const Tensor& boxes, const Warp& warp, std::string_view op) {
  check_coordinates(boxes, 4, "boxes", op);
  const Tensor in = host_contiguous(boxes, op);
  Tensor out = empty(in.shape(), {.dtype = kFloat32, .device = kCPU});
  const auto width = static_cast<double>(warp.width), height = static_cast<double>(warp.height);
  for (std::int64_t i = 0; i < in.size(0); ++i) {
    const float* from = in.data<float>() + 4 * i;
    double xs[4] = {from[0], from[2], from[0], from[2]},
           ys[4] = {from[1], from[1], from[3], from[3]};
    for (int corner = 0; corner < 4; ++corner) move(xs[corner], ys[corner], warp);
    const auto [left, right] = std::ranges::minmax(xs);
    const auto [top, bottom] = std::ranges::minmax(ys);
    float* to = out.data<float>() + 4 * i;
    to[0] = static_cast<float>(std::clamp(left, 0.0, width));
    to[1] = static_cast<float>(std::clamp(top, 0.0, height));
    to[2] = static_cast<float>(std::clamp(right, 0.0, width));
    to[3] = static_cast<float>(std::clamp(bottom, 0.0, height));
  }
  return out;
}

Tensor warp_points(const Tensor& points, const Warp& warp, std::string_view op) {
  check_coordinates(points, 2, "points", op);
  const Tensor in = host_contiguous(points, op);
  Tensor out = empty(in.shape(), {.dtype = kFloat32, .device = kCPU});
  for (std::int64_t i = 0; i < in.size(0); ++i) {
    double x = in.data<float>()[2 * i], y = in.data<float>()[2 * i + 1];
    move(x, y, warp);
    out.data<float>()[2 * i] = static_cast<float>(x);
    out.data<float>()[2 * i + 1] = static_cast<float>(y);
  }
  return out;
}

Annotated warp(const Annotated& sample, const Warp& warp, std::string_view op) {
  const Tensor in = dense_image(sample.image, op);
  const std::int64_t height = in.size(1), width = in.size(2);
  Annotated out = sample;
  out.image = warp_image(in, warp, op);
  if (sample.mask.defined()) out.mask = warp_mask(sample.mask, height, width, warp, op);
  if (sample.boxes.defined()) out.boxes = warp_boxes(sample.boxes, warp, op);
  if (sample.points.defined()) out.points = warp_points(sample.points, warp, op);
  return out;
}

}  // namespace ferrite::data
