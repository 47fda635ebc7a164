// Convolutions of images that lie plane by plane (NCHW) and have few channels, as a network's first
// layer has: vectors run along the rows of the image, so that no plane changes its layout. For
// strides of 1 along rows, in float and double.
#pragma once

#include "ferrite/kernels/cpu/conv/correlate.h"
#include "ferrite/kernels/cpu/conv/weight_sums.h"

namespace ferrite::kernels::cpu {

namespace planes {

/// `window` of each of an image's planes, one after another, with zeros outside the image.
template <class T>
void copy(T* to, const Images<const T>& from, std::int64_t image, const Window& window) {
  for (std::int64_t c = 0; c < from.channels; ++c) {
    Images<const T> plane = from;
    plane.data += c * from.channel_step;
    plane.channels = plane.channel_step = 1;
    gather(to + c * window.height * window.width, 1, plane, image, window);
  }
}

}  // namespace planes

template <class T>
class PlaneCorrelation {
 public:
  PlaneCorrelation(const Group<T>& group, const Axis& rows, const Axis& columns)
      : out_(group.out),
        in_(group.in),
        rows_(rows),
        columns_(columns),
        taps_(rows.taps * columns.taps),
        depth_(taps_ * in_.channels),
        vectors_(std::min<std::int64_t>(2, (out_.width + kLanes<T> - 1) / kLanes<T>)),
        tile_(even_share(out_.channels, max_rows(static_cast<int>(vectors_)))),
        weights_(depth_ * out_.channels),
        bias_(out_.channels) {
    const Filter<T>& filter = group.filter;
    for (std::int64_t o = 0; o < out_.channels; ++o) {
      bias_.data()[o] = group.bias_of(o);
      const std::int64_t first = o / tile_ * tile_, width = std::min(tile_, out_.channels - first);
      T* to = weights_.data() + first * depth_ + o - first;
      for (std::int64_t c = 0; c < in_.channels; ++c)
        for (std::int64_t i = 0; i < rows.taps; ++i)
          for (std::int64_t j = 0; j < columns.taps; ++j, to += width)
            *to =
                filter.data[o * filter.out_step + c * filter.in_step +
                            (rows.kernel_first + i * rows.kernel_step) * filter.row_step +
                            (columns.kernel_first + j * columns.kernel_step) * filter.column_step];
    }
  }

  void run() const {
    const std::int64_t height = out_.height;
    const std::int64_t grain = out_.count >= 8
                                   ? (out_.count + kChunks - 1) / kChunks * height
                                   : std::max<std::int64_t>(4, out_.count * height / kChunks);
    parallel_for(out_.count * height, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t top = at % height, bottom = std::min(height, top + end - at);
        run_rows(at / height, top, bottom);
        at += bottom - top;
      }
    });
  }

 private:
  static constexpr std::int64_t kChunks = 32;

  void run_rows(std::int64_t image, std::int64_t top, std::int64_t bottom) const {
    const Window window{top * rows_.stride + rows_.first, columns_.first,
                        (bottom - top - 1) * rows_.stride + (rows_.taps - 1) * rows_.step + 1,
                        out_.width + (columns_.taps - 1) * columns_.step};
    const std::int64_t plane = window.height * window.width;
    // The last vector of a row may reach past the end.
    const std::int64_t size = in_.channels * plane + kLanes<T>;
    const Scratch<T> copied(size);
    if (!window.inside(in_)) std::fill_n(copied.data(), size, T(0));
    std::fill_n(copied.data() + size - kLanes<T>, kLanes<T>, T(0));
    planes::copy(copied.data(), in_, image, window);

    Micro<T> m{.b_step = columns_.step, .run = columns_.taps, .c_step = out_.channel_step};
    m.segments[0] = rows_.taps;
    m.segments[1] = in_.channels;
    m.b_segment[0] = rows_.step * window.width;
    m.b_segment[1] = plane;
    for (std::int64_t o = 0; o < out_.channels; o += tile_) {
      const std::int64_t count = std::min(tile_, out_.channels - o);
      m.a = weights_.data() + o * depth_;
      m.a_step = count;
      m.a_segment[0] = columns_.taps * count;
      m.a_segment[1] = taps_ * count;
      m.row_bias = bias_.data() + o;
      T* to = out_.data + image * out_.image_step + o * out_.channel_step;
      for (std::int64_t y = top; y < bottom; ++y)
        for (std::int64_t x = 0; x < out_.width; x += vectors_ * kLanes<T>) {
          m.b = copied.data() + (y - top) * rows_.stride * window.width + x;
          m.c = to + y * out_.row_step + x;
          m.columns = std::min(vectors_ * kLanes<T>, out_.width - x);
          run_micro(m, static_cast<int>(count),
                    static_cast<int>((m.columns + kLanes<T> - 1) / kLanes<T>), Rows::adjacent);
        }
    }
  }

  Images<T> out_;
  Images<const T> in_;
  Axis rows_, columns_;
  std::int64_t taps_, depth_, vectors_, tile_;
  Scratch<T> weights_;  // tiles of output channels, each [channels, taps, tile]
  Scratch<T> bias_;
};

template <class T>
class PlaneWeightGradient {
 public:
  PlaneWeightGradient(const Images<const T>& in, const Images<const T>& grad,
                      std::int64_t kernel_rows, std::int64_t kernel_columns, const ConvParams& p)
      : in_(in),
        grad_(grad),
        kernel_rows_(kernel_rows),
        kernel_columns_(kernel_columns),
        params_(p),
        taps_(kernel_rows * kernel_columns),
        depth_(taps_ * in.channels),
        window_(window_of(grad, kernel_rows, kernel_columns, p)) {}

  void run(T* out, const std::int64_t* strides, T* bias, std::int64_t bias_step) const {
    const std::int64_t images = in_.count, grain = (images + kChunks - 1) / kChunks;
    const std::int64_t parts = (images - 1) / grain + 1, size = (depth_ + 1) * grad_.channels;
    const Scratch<T> sums(parts * size);
    parallel_for(images, grain, [&](std::int64_t begin, std::int64_t end) {
      run_batch(begin, end, sums.data() + begin / grain * size, bias != nullptr);
    });
    for (std::int64_t p = 1; p < parts; ++p) add_run(sums.data(), sums.data() + p * size, size);
    const T* from = sums.data();
    for (std::int64_t o = 0; o < grad_.channels; ++o, ++from) {
      for (std::int64_t c = 0; c < in_.channels; ++c)
        for (std::int64_t i = 0; i < kernel_rows_; ++i)
          for (std::int64_t j = 0; j < kernel_columns_; ++j)
            out[o * strides[0] + c * strides[1] + i * strides[2] + j * strides[3]] = *from++;
      if (bias) bias[o * bias_step] = *from;
    }
  }

 private:
  static constexpr std::int64_t kChunks = 16;
  static constexpr std::int64_t kGroupBytes = 256 << 10;

  /// `sums` is [output channels, depth and bias].
  void run_batch(std::int64_t begin, std::int64_t end, T* sums, bool with_bias) const {
    const std::int64_t plane = window_.height * window_.width, size = plane * in_.channels;
    const std::int64_t bytes =
        (size + grad_.height * grad_.width * grad_.channels) * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t group = depth_ <= kDotColumns
                                   ? end - begin
                                   : std::clamp<std::int64_t>(kGroupBytes / bytes, 1, end - begin);
    const Scratch<T> copied(group * size);
    if (!window_.inside(in_)) std::fill_n(copied.data(), group * size, T(0));
    for (std::int64_t image = begin; image < end; image += group) {
      const std::int64_t count = std::min(group, end - image);
      for (std::int64_t i = 0; i < count; ++i)
        planes::copy(copied.data() + i * size, in_, image + i, window_);
      const T* columns[kDotColumns];
      const Dots<T> d{.a_step = grad_.channel_step,
                      .b = columns,
                      .run = grad_.width,
                      .segments = {grad_.height, count},
                      .a_segment = {grad_.row_step, grad_.image_step},
                      .b_segment = {params_.stride[0] * window_.width, size},
                      .c_row = depth_ + 1,
                      .c_column = 1,
                      .accumulate = image > begin};
      const std::int64_t share = even_share(depth_, kDotColumns);
      // Registers for the sums of rows beside the last share's products.
      const std::int64_t tile = with_bias && share == depth_ ? 2 : kDotRows;
      const T* const grad = grad_.data + image * grad_.image_step;
      const std::int64_t rows_of_part =
          kPartPixels * kLanes<T> / std::max<std::int64_t>(1, grad_.width);
      sum_in_parts(
          d, rows_of_part / std::max<std::int64_t>(1, grad_.height), rows_of_part,
          kPartPixels * kLanes<T>,
          [&](Dots<T>& part, std::int64_t n, std::int64_t y, std::int64_t x) {
            const T* const right = copied.data() + n * d.b_segment[1] + y * d.b_segment[0] + x;
            for (std::int64_t o = 0; o < grad_.channels; o += tile) {
              const std::int64_t rows = std::min(tile, grad_.channels - o);
              part.a = grad + n * d.a_segment[1] + y * d.a_segment[0] + x + o * d.a_step;
              for (std::int64_t q = 0; q < depth_; q += share) {
                const std::int64_t used = std::min(share, depth_ - q);
                for (std::int64_t j = 0; j < used; ++j) columns[j] = right + tap(q + j);
                part.c = sums + o * (depth_ + 1) + q;
                part.row_sums =
                    with_bias && q + used == depth_ ? sums + o * (depth_ + 1) + depth_ : nullptr;
                run_dots(part, static_cast<int>(rows), static_cast<int>(used));
              }
            }
          });
    }
  }

  /// Where the input that tap `q` meets starts in the copied planes.
  std::int64_t tap(std::int64_t q) const {
    const std::int64_t at = q % taps_;
    return (q / taps_ * window_.height + at / kernel_columns_ * params_.dilation[0]) *
               window_.width +
           at % kernel_columns_ * params_.dilation[1];
  }

  Images<const T> in_, grad_;
  std::int64_t kernel_rows_, kernel_columns_;
  ConvParams params_;
  std::int64_t taps_, depth_;
  Window window_;
};

}  // namespace ferrite::kernels::cpu
