// Images as convolutions see them, and their way into and out of the layout that the inner kernel
// wants: pixel after pixel, the channels of a pixel side by side.
#pragma once

#include <algorithm>
#include <utility>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/conv_axis.h"
#include "ferrite/kernels/cpu/micro.h"
#include "ferrite/kernels/cpu/pack.h"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cpu {

/// A batch of images (or of the channels of one group) of any strides, in elements.
template <class S>
struct Images {
  S* data;
  std::int64_t count, channels, height, width;
  std::int64_t image_step, channel_step, row_step, pixel_step;

  Images() = default;
  Images(const View& v, std::int64_t first_channel, std::int64_t channels)
      : data(v.as<S>() + first_channel * v.strides[1]),
        count(v.sizes[0]),
        channels(channels),
        height(v.sizes[2]),
        width(v.sizes[3]),
        image_step(v.strides[0]),
        channel_step(channels == 1 ? 1 : v.strides[1]),
        row_step(v.strides[2]),
        pixel_step(v.strides[3]) {}
};

/// Weights of any strides, from input to output channels.
template <class T>
struct Filter {
  const T* data;
  std::int64_t out_step, in_step, row_step, column_step;
};

/// One group of a forward pass: `out` is made of `in`. Of a gradient by the input, `out` is that.
/// Factors are of type A.
template <class T, class A = T>
struct Group {
  Images<T> out;
  Images<const A> in;
  Filter<A> filter;
  const T* bias = nullptr;
  std::int64_t bias_step = 0;

  T bias_of(std::int64_t channel) const { return bias ? bias[channel * bias_step] : T(0); }
};

/// Memory of one layout, of which the inner kernel reads or writes pixels.
template <class T>
struct Pixels {
  T* data = nullptr;
  std::int64_t image_step = 0, row_step = 0, pixel_step = 0;

  T* at(std::int64_t image, std::int64_t row, std::int64_t pixel) const {
    // The memory of an empty tensor has no address to count from.
    return data ? data + image * image_step + row * row_step + pixel * pixel_step : nullptr;
  }
};

/// Rows and columns of an image, some of which may lie outside it.
struct Window {
  std::int64_t top, left, height, width;

  template <class S>
  bool inside(const Images<S>& images) const {
    return top >= 0 && left >= 0 && top + height <= images.height && left + width <= images.width;
  }
  /// What of it lies inside the image; a height or width of 0 or less is nothing.
  template <class S>
  Window clipped(const Images<S>& images) const {
    const std::int64_t y = std::max<std::int64_t>(0, top), x = std::max<std::int64_t>(0, left);
    return {y, x, std::min(images.height, top + height) - y,
            std::min(images.width, left + width) - x};
  }
};

/// Along an axis, the results [first, last) of `count` whose input at i * stride + offset is inside
/// `size`: what a tap multiplies elsewhere is the zeros around the image.
struct Inside {
  std::int64_t first, last;

  Inside(std::int64_t count, std::int64_t stride, std::int64_t offset, std::int64_t size)
      : first(std::clamp<std::int64_t>((stride - 1 - offset) / stride, 0, count)),
        last(offset < size ? std::clamp((size - 1 - offset) / stride + 1, first, count) : first) {}
  std::int64_t count() const { return last - first; }
};

/// The taps [first, last) of a result whose input is inside `size`.
inline std::pair<std::int64_t, std::int64_t> taps_inside(const Axis& a, std::int64_t result,
                                                         std::int64_t size) {
  const std::int64_t at = result * a.stride + a.first;
  const std::int64_t first = at < 0 ? (-at + a.step - 1) / a.step : 0;
  const std::int64_t last = size - at > 0 ? (size - at - 1) / a.step + 1 : 0;
  return {std::min(first, a.taps), std::clamp(last, std::min(first, a.taps), a.taps)};
}

/// Whether the inner kernel reads `window` where it lies, without a copy. A copy reads memory in
/// order, which the processor prefetches, while the kernel would wait for scattered pixels. The
/// copy does not pay where it would move pixels that are never read (`sparse`), or where pixels are
/// so small that they lie close together.
template <class T>
bool reads_in_place(const Images<T>& images, const Window& window, bool sparse) {
  constexpr std::int64_t kSmallPixel = 128;  // bytes
  return images.data && images.channel_step == 1 && window.inside(images) &&
         (sparse || images.pixel_step * static_cast<std::int64_t>(sizeof(T)) <= kSmallPixel);
}

/// Copies `window` of one image to `to`, `pixel_step` elements a pixel. What lies outside the image
/// is left as it is.
template <class T, class S>
void gather(T* to, std::int64_t pixel_step, const Images<S>& from, std::int64_t image,
            const Window& window) {
  const auto [top, left, height, width] = window.clipped(from);
  if (width <= 0) return;
  for (std::int64_t y = top; y < top + height; ++y) {
    T* row = to + ((y - window.top) * window.width + left - window.left) * pixel_step;
    const S* source =
        from.data + image * from.image_step + y * from.row_step + left * from.pixel_step;
    if (from.channel_step == 1 && from.pixel_step == pixel_step && from.channels == pixel_step)
      copy_matrix(row, 0, source, 0, 1, 1, width * pixel_step);
    else
      copy_matrix(row, pixel_step, source, from.pixel_step, from.channel_step, width,
                  from.channels);
  }
}

/// Copies rows [top, top + rows) of whole images from `from`.
template <class T, class S>
void scatter(const Images<S>& to, std::int64_t image, std::int64_t top, std::int64_t rows,
             const T* from, std::int64_t row_step, std::int64_t pixel_step) {
  S* out = to.data + image * to.image_step + top * to.row_step;
  // Rows that follow one another are one long row.
  const bool plane = to.row_step == to.width * to.pixel_step && row_step == to.width * pixel_step;
  const std::int64_t lines = plane ? 1 : rows, pixels = plane ? rows * to.width : to.width;
  for (std::int64_t y = 0; y < lines; ++y, out += to.row_step, from += row_step) {
    if (to.channel_step == 1 && to.pixel_step == pixel_step && to.channels == pixel_step)
      copy_run(out, from, pixels * pixel_step);
    else if (to.channel_step == 1)
      copy_matrix(out, to.pixel_step, from, pixel_step, 1, pixels, to.channels);
    else if (to.pixel_step == 1)
      copy_matrix(out, to.channel_step, from, 1, pixel_step, to.channels, pixels);
    else
      for (std::int64_t x = 0; x < pixels; ++x)
        for (std::int64_t c = 0; c < to.channels; ++c)
          out[x * to.pixel_step + c * to.channel_step] = static_cast<S>(from[x * pixel_step + c]);
  }
}

/// Vectors a panel of the right operand should have where `columns` results a row are wanted, rows
/// come `rows` at a time and sums are `depth` long: the fewest cycles by the number of
/// multiplications, of loads, the latency of a sum, and the way of a panel out of the second cache.
template <class T>
int panel_vectors(std::int64_t columns, std::int64_t rows, std::int64_t depth) {
  const std::int64_t vectors = (columns + kLanes<T> - 1) / kLanes<T>;
  std::int64_t best = 1, best_cost = INT64_MAX;
  for (std::int64_t n = std::min<std::int64_t>(kMaxVectors, vectors); n >= 1; --n) {
    const std::int64_t tile = even_share(rows, max_rows(static_cast<int>(n)));
    const std::int64_t far = depth * n * kVectorBytes > (24 << 10) ? 5 : 0;
    const auto cost_of = [&](std::int64_t r, std::int64_t v) {
      return r > 0 && v > 0 ? std::max({r * v, r + v + 1, std::int64_t{8}, far * v}) : 0;
    };
    const auto cost_of_panel = [&](std::int64_t v) {
      return rows / tile * cost_of(tile, v) + cost_of(rows % tile, v);
    };
    const std::int64_t cost = vectors / n * cost_of_panel(n) + cost_of_panel(vectors % n);
    if (cost < best_cost) best_cost = cost, best = n;
  }
  return static_cast<int>(best);
}

}  // namespace ferrite::kernels::cpu
