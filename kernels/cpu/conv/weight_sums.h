// What the engines of gradients by the weights share: which pixels they meet, copies of operands,
// and the way of their sums into the results.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cpu/conv/image.h"
#include "ferrite/kernels/cpu/micro.h"

namespace ferrite::kernels::cpu {

/// The pixels of an input that the taps of all results meet.
template <class T>
Window window_of(const Images<const T>& grad, std::int64_t kernel_rows, std::int64_t kernel_columns,
                 const ConvParams& p) {
  return {-p.padding[0], -p.padding[1],
          (grad.height - 1) * p.stride[0] + (kernel_rows - 1) * p.dilation[0] + 1,
          (grad.width - 1) * p.stride[1] + (kernel_columns - 1) * p.dilation[1] + 1};
}

/// Copies `window` of one image to `to`, pixel after pixel, with zeros around the image.
template <class T>
void copy_window(T* to, const Images<const T>& in, std::int64_t image, const Window& window) {
  if (!window.inside(in)) std::fill_n(to, window.height * window.width * in.channels, T());
  gather(to, in.channels, in, image, window);
}

/// Copies the pixels of one image to `to`, `columns` elements a pixel: zeros behind the channels.
template <class T>
void copy_pixels(T* to, std::int64_t columns, const Images<const T>& grad, std::int64_t image) {
  const bool plane = grad.row_step == grad.width * grad.pixel_step;
  const std::int64_t lines = plane ? 1 : grad.height;
  const std::int64_t pixels = grad.height * grad.width / std::max<std::int64_t>(1, lines);
  for (std::int64_t y = 0; y < lines; ++y)
    copy_matrix_padded(to + y * pixels * columns, columns,
                       grad.data + image * grad.image_step + y * grad.row_step, grad.pixel_step,
                       grad.channel_step, pixels, grad.channels);
}

/// Pixels whose products are added up one after the other; longer sums are added up in parts, so
/// that they round as short ones.
inline constexpr std::int64_t kPartPixels = 4096;

/// The sums of `m`, a Micro or Dots, in parts of at most so many images, rows of an image and
/// pixels of a row (or one), which are added up where its results go: part(m, image, row, pixel)
/// makes the one that begins there. Sums of nothing are one part.
template <class M, class F>
void sum_in_parts(M m, std::int64_t images, std::int64_t rows, std::int64_t pixels, const F& part) {
  const auto shares = [](std::int64_t count, std::int64_t most) {
    const std::int64_t one = 1;
    return std::pair(std::max(one, count), even_share(count, std::max(one, most)));
  };
  const auto [run, run_share] = shares(m.run, pixels);
  const auto [lines, lines_share] = shares(m.segments[0], rows);
  const auto [count, count_share] = shares(m.segments[1], images);
  const M whole = m;
  for (std::int64_t image = 0; image < count; image += count_share)
    for (std::int64_t y = 0; y < lines; y += lines_share)
      for (std::int64_t x = 0; x < run; x += run_share) {
        m.run = std::min(run_share, whole.run - x);
        m.segments[0] = std::min(lines_share, whole.segments[0] - y);
        m.segments[1] = std::min(count_share, whole.segments[1] - image);
        part(m, image, y, x);
        m.accumulate = true;
      }
}

/// Of a Micro: part(m, offset) makes a part, in which the rows on the left lie `offset` elements
/// behind those of the whole.
template <class T, class F>
void sum_micro_in_parts(const Micro<T>& m, std::int64_t images, std::int64_t rows, const F& part) {
  sum_in_parts(m, images, rows, kPartPixels,
               [&](Micro<T>& p, std::int64_t image, std::int64_t y, std::int64_t x) {
                 p.b = m.b + image * m.b_segment[1] + y * m.b_segment[0] + x * m.b_step;
                 part(p, image * m.a_segment[1] + y * m.a_segment[0] + x * m.a_step);
               });
}

/// Writes the sums of one output channel, [kernel rows, kernel columns, input channels], to `to`,
/// with strides by (anything, input channel, kernel row, kernel column).
template <class T>
void write_taps(T* to, const std::int64_t* strides, const T* sums, std::int64_t kernel_rows,
                std::int64_t kernel_columns, std::int64_t channels) {
  for (std::int64_t y = 0; y < kernel_rows; ++y)
    for (std::int64_t x = 0; x < kernel_columns; ++x)
      for (std::int64_t c = 0; c < channels; ++c)
        to[c * strides[1] + y * strides[2] + x * strides[3]] = *sums++;
}

/// Writes the gradient by the bias of `channels`, of which each part of the batch has sums, `step`
/// elements after those of the part before.
template <class T>
void write_bias(T* bias, std::int64_t bias_step, std::int64_t channels, const T* sums,
                std::int64_t parts, std::int64_t step) {
  for (std::int64_t c = 0; c < channels; ++c) {
    T sum = 0;
    for (std::int64_t p = 0; p < parts; ++p) sum += sums[p * step + c];
    bias[c * bias_step] = sum;
  }
}

}  // namespace ferrite::kernels::cpu
