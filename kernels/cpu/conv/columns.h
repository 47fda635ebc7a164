// The gradient of a convolution by its input where input channels are few: one product gives what
// every pixel of the output sends to all taps and channels (a row of a column matrix), which is
// then added where it belongs. Unlike a correlation (correlate.h) it multiplies neither the
// zeros around the image nor the lanes that few channels leave empty.
#pragma once

#include "ferrite/kernels/cpu/conv/correlate.h"

namespace ferrite::kernels::cpu {

template <class T>
class ColumnGradient {
 public:
  ColumnGradient(const Group<T>& group, std::int64_t kernel_rows, std::int64_t kernel_columns,
                 const ConvParams& params);

  void run() const {
    const std::int64_t grain = (out_.count + kChunks - 1) / kChunks;
    parallel_for(out_.count, grain, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<T> image(height_ * row_), strip(strip_ * columns_);
      const Scratch<T> copied =
          copies_ ? Scratch<T>(grad_.height * grad_.width * grad_.channels) : Scratch<T>();
      for (std::int64_t i = begin; i < end; ++i)
        run_image(i, image.data(), strip.data(), copied ? copied.data() : nullptr);
    });
  }

 private:
  static constexpr std::int64_t kChunks = 32;
  static constexpr std::int64_t kStripBytes = 32 << 10;

  void run_image(std::int64_t index, T* image, T* strip, T* copied) const;
  void add_pixel(std::int64_t pixel, const T* from, T* image) const;

  Images<T> out_;
  Images<const T> grad_;
  ConvParams params_;
  std::int64_t kernel_rows_, kernel_columns_;
  std::int64_t columns_;       // taps and channels, in whole vectors
  std::int64_t height_, row_;  // of the padded image: rows, elements of a row
  std::int64_t strip_;         // pixels at a time
  bool copies_;
  Scratch<T> weights_;  // panels of up to two vectors, each [output channels, vectors]
  Scratch<T> bias_;     // [input channels]
};

template <class T>
ColumnGradient<T>::ColumnGradient(const Group<T>& group, std::int64_t kernel_rows,
                                  std::int64_t kernel_columns, const ConvParams& params)
    : out_(group.out),
      grad_(group.in),
      params_(params),
      kernel_rows_(kernel_rows),
      kernel_columns_(kernel_columns),
      columns_(whole_vectors<T>(kernel_rows * kernel_columns * out_.channels)),
      // Room for all that taps reach, and for what they do not.
      height_(std::max(
          (grad_.height - 1) * params.stride[0] + (kernel_rows - 1) * params.dilation[0] + 1,
          out_.height + params.padding[0])),
      row_(std::max(
               (grad_.width - 1) * params.stride[1] + (kernel_columns - 1) * params.dilation[1] + 1,
               out_.width + params.padding[1]) *
           out_.channels),
      copies_(!reads_in_place(grad_, Window{0, 0, grad_.height, grad_.width}, false) ||
              grad_.row_step != grad_.width * grad_.pixel_step) {
  constexpr std::int64_t tile = max_rows(2);
  const std::int64_t fits = kStripBytes / (columns_ * static_cast<std::int64_t>(sizeof(T)));
  strip_ = std::min(std::max<std::int64_t>(1, fits / tile) * tile, grad_.height * grad_.width);
  const Filter<T>& filter = group.filter;
  weights_ = Scratch<T>(grad_.channels * columns_);
  const std::int64_t taps = kernel_rows * kernel_columns;
  for (std::int64_t q = 0; q < columns_; ++q) {
    constexpr std::int64_t panel = 2 * kLanes<T>;
    const std::int64_t first = q / panel * panel, width = std::min(panel, columns_ - first);
    T* to = weights_.data() + first * grad_.channels + q - first;
    const std::int64_t tap = q / out_.channels, c = q % out_.channels;
    const T* from = filter.data + c * filter.out_step + tap / kernel_columns * filter.row_step +
                    tap % kernel_columns * filter.column_step;
    for (std::int64_t o = 0; o < grad_.channels; ++o)
      to[o * width] = tap < taps ? from[o * filter.in_step] : T(0);
  }
  if (group.bias) {
    bias_ = Scratch<T>(out_.channels);
    for (std::int64_t c = 0; c < out_.channels; ++c) bias_.data()[c] = group.bias_of(c);
  }
}

/// Adds what one pixel of the gradient sends to all taps.
template <class T>
void ColumnGradient<T>::add_pixel(std::int64_t pixel, const T* from, T* image) const {
  const std::int64_t channels = out_.channels, run = kernel_columns_ * channels;
  T* to = image + pixel / grad_.width * params_.stride[0] * row_ +
          pixel % grad_.width * params_.stride[1] * channels;
  for (std::int64_t y = 0; y < kernel_rows_; ++y, to += params_.dilation[0] * row_, from += run) {
    if (params_.dilation[1] == 1)
      add_run(to, from, run);
    else
      for (std::int64_t x = 0; x < kernel_columns_; ++x)
        add_run(to + x * params_.dilation[1] * channels, from + x * channels, channels);
  }
}

template <class T>
void ColumnGradient<T>::run_image(std::int64_t index, T* image, T* strip, T* copied) const {
  const std::int64_t channels = out_.channels, pixels = grad_.height * grad_.width;
  if (bias_)
    for (std::int64_t i = 0; i < height_ * row_; i += channels)
      std::copy_n(bias_.data(), channels, image + i);
  else
    std::fill_n(image, height_ * row_, T(0));
  const T* left = grad_.data + index * grad_.image_step;
  if (copies_) {
    gather(copied, grad_.channels, grad_, index, Window{0, 0, grad_.height, grad_.width});
    left = copied;
  }
  const std::int64_t left_step = copies_ ? grad_.channels : grad_.pixel_step;
  constexpr std::int64_t panel = 2 * kLanes<T>;
  const std::int64_t tile = even_share(std::min(strip_, pixels), max_rows(2));
  for (std::int64_t first = 0; first < pixels; first += strip_) {
    const std::int64_t count = std::min(strip_, pixels - first);
    for (std::int64_t q = 0; q < columns_; q += panel) {
      const std::int64_t width = std::min(panel, columns_ - q);
      Micro<T> m{.a_step = left_step,
                 .b = weights_.data() + q * grad_.channels,
                 .b_step = width,
                 .run = grad_.channels,
                 .c_step = columns_,
                 .columns = width};
      for (std::int64_t p = 0; p < count; p += tile) {
        m.a = left + (first + p) * left_step;
        m.c = strip + p * columns_ + q;
        run_micro(m, static_cast<int>(std::min(tile, count - p)),
                  static_cast<int>(width / kLanes<T>), Rows::apart);
      }
    }
    for (std::int64_t p = 0; p < count; ++p) add_pixel(first + p, strip + p * columns_, image);
  }
  scatter(out_, index, 0, out_.height,
          image + params_.padding[0] * row_ + params_.padding[1] * channels, row_, channels);
}

}  // namespace ferrite::kernels::cpu
