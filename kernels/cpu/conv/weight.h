// The gradient of a convolution by its weights: for each tap and input channel (a row) the products
// with the gradient of every output channel (a column), summed over pixels.
#pragma once

#include "ferrite/kernels/cpu/conv/weight_sums.h"

namespace ferrite::kernels::cpu {

/// A is T (float or double), or Pair with T float: a Pair holds the same pixel of two images.
template <class T, class A = T>
class WeightGradient {
 public:
  WeightGradient(const Images<const A>& in, const Images<const A>& grad, std::int64_t kernel_rows,
                 std::int64_t kernel_columns, const ConvParams& params);

  /// Writes the gradient by the weights, with strides by (output channel, input channel, kernel
  /// row, kernel column), and the gradient by the bias unless `bias` is null. It must be null for
  /// Pairs.
  void run(T* out, const std::int64_t* strides, T* bias, std::int64_t bias_step) const;

 private:
  static constexpr std::int64_t kChunks = 16;             // of a batch
  static constexpr std::int64_t kPartialBytes = 8 << 20;  // of sums that wait to be added up
  static constexpr std::int64_t kGroupBytes = 256 << 10;  // of images summed up at once
  static constexpr std::int64_t kPanelBytes = 24 << 10;
  static constexpr std::int64_t kUnitTiles = 8;
  static constexpr std::int64_t kFewRows = 10;

  /// The pixels of `count` images.
  struct Operands {
    Pixels<const A> in, grad;
    std::int64_t count;

    Operands part(std::int64_t image, std::int64_t images) const {
      Operands o{in, grad, images};
      o.in.data = in.at(image, 0, 0);
      o.grad.data = grad.at(image, 0, 0);
      return o;
    }
  };

  std::int64_t in_size() const { return window_.height * window_.width * in_.channels; }
  std::int64_t grad_size() const { return grad_.height * grad_.width * columns_; }
  Scratch<A> in_copies(std::int64_t count) const {
    return copies_in_ ? Scratch<A>(count * in_size()) : Scratch<A>();
  }
  Scratch<A> grad_copies(std::int64_t count) const {
    return copies_grad_ ? Scratch<A>(count * grad_size()) : Scratch<A>();
  }
  void copy(std::int64_t image, A* in_copy, A* grad_copy) const;
  Operands operands(std::int64_t image, std::int64_t count, const Scratch<A>& in,
                    const Scratch<A>& grad) const;
  void run_batch(std::int64_t begin, std::int64_t end, T* sums, T* bias_sums) const;
  void run_split(T* sums, T* bias_sums) const;
  void run_unit(const Operands& o, std::int64_t unit, T* sums, bool accumulate) const;
  void sum_bias(const Operands& o, std::int64_t begin, std::int64_t end, T* sums) const;
  void write(T* out, const std::int64_t* strides, const T* sums) const;

  Images<const A> in_, grad_;
  std::int64_t kernel_rows_, kernel_columns_;
  ConvParams params_;
  Window window_;
  bool copies_in_, copies_grad_;
  std::int64_t columns_;  // output channels, in whole vectors
  std::int64_t size_;     // sums: [kernel rows, kernel columns, input channels, columns_]
  // A unit of work is a part of the rows of one group of taps: all taps (scattered_), a row of
  // them (where they lie side by side), or a single one.
  bool scattered_;
  std::int64_t group_rows_, group_columns_;
  std::int64_t rows_, panel_, panels_, tile_, blocks_, units_;
};

template <class T, class A>
WeightGradient<T, A>::WeightGradient(const Images<const A>& in, const Images<const A>& grad,
                                     std::int64_t kernel_rows, std::int64_t kernel_columns,
                                     const ConvParams& params)
    : in_(in),
      grad_(grad),
      kernel_rows_(kernel_rows),
      kernel_columns_(kernel_columns),
      params_(params),
      window_(window_of(grad, kernel_rows, kernel_columns, params)),
      copies_in_(!reads_in_place(
          in, window_, kernel_rows < params.stride[0] || kernel_columns < params.stride[1])),
      copies_grad_(grad.channel_step != 1 || grad.channels % kLanes<T> != 0),
      columns_(whole_vectors<T>(grad.channels)),
      size_(kernel_rows * kernel_columns * in.channels * columns_),
      scattered_(false),
      group_rows_(kernel_rows),
      group_columns_(kernel_columns),
      rows_(in.channels) {
  if (params.dilation[1] == 1 && (copies_in_ || in.pixel_step == in.channels)) {
    group_columns_ = 1;
    rows_ *= kernel_columns;
  }
  if (rows_ < kFewRows) {
    scattered_ = true;
    group_rows_ = group_columns_ = 1;
    rows_ = kernel_rows * kernel_columns * in.channels;
  }
  const int vectors = panel_vectors<T>(columns_, rows_, grad.height * grad.width);
  panel_ = vectors * kLanes<T>;
  panels_ = (columns_ + panel_ - 1) / panel_;
  tile_ = even_share(rows_, max_rows(vectors));
  blocks_ = (rows_ + kUnitTiles * tile_ - 1) / (kUnitTiles * tile_);
  units_ = panels_ * group_rows_ * group_columns_ * blocks_;
}

template <class T, class A>
void WeightGradient<T, A>::run(T* out, const std::int64_t* strides, T* bias,
                               std::int64_t bias_step) const {
  const std::int64_t bytes = size_ * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t most =
      std::clamp<std::int64_t>(kPartialBytes / std::max<std::int64_t>(1, bytes), 1, kChunks);
  const std::int64_t images = in_.count,
                     grain = (images + most - 1) / std::max<std::int64_t>(1, most);
  const std::int64_t chunks = images > 0 ? (images - 1) / grain + 1 : 0;
  const bool split = chunks < 8;
  const std::int64_t parts = split ? 1 : chunks;
  const Scratch<T> sums(parts * size_), bias_sums(parts * columns_);
  std::fill_n(bias_sums.data(), parts * columns_, T(0));
  // A transposed convolution has results where its input, `grad` here, has no rows or columns.
  if (images == 0 || grad_.height * grad_.width == 0) {
    std::fill_n(sums.data(), size_, T(0));
  } else if (split) {
    run_split(sums.data(), bias ? bias_sums.data() : nullptr);
  } else {
    parallel_for(images, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t part = begin / grain;
      run_batch(begin, end, sums.data() + part * size_,
                bias ? bias_sums.data() + part * columns_ : nullptr);
    });
    parallel_for(size_, 32768, [&](std::int64_t begin, std::int64_t end) {
      T* to = sums.data();
      for (std::int64_t p = 1; p < parts; ++p) {
        const T* from = sums.data() + p * size_;
        for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
      }
    });
  }
  write(out, strides, sums.data());
  if (bias) write_bias(bias, bias_step, grad_.channels, bias_sums.data(), parts, columns_);
}

/// Copies of one image and its gradient, where the inner kernel needs them.
template <class T, class A>
void WeightGradient<T, A>::copy(std::int64_t image, A* in_copy, A* grad_copy) const {
  if (copies_in_) copy_window(in_copy, in_, image, window_);
  if (copies_grad_) copy_pixels(grad_copy, columns_, grad_, image);
}

/// `count` images from `image` on, or their copies.
template <class T, class A>
typename WeightGradient<T, A>::Operands WeightGradient<T, A>::operands(
    std::int64_t image, std::int64_t count, const Scratch<A>& in, const Scratch<A>& grad) const {
  Operands o{{}, {}, count};
  if (copies_in_)
    o.in = {in.data(), in_size(), window_.width * in_.channels, in_.channels};
  else
    o.in = {in_.data + image * in_.image_step + window_.top * in_.row_step +
                window_.left * in_.pixel_step,
            in_.image_step, in_.row_step, in_.pixel_step};
  if (copies_grad_)
    o.grad = {grad.data(), grad_size(), grad_.width * columns_, columns_};
  else
    o.grad = {grad_.data + image * grad_.image_step, grad_.image_step, grad_.row_step,
              grad_.pixel_step};
  return o;
}

/// All sums over images [begin, end), by one thread.
template <class T, class A>
void WeightGradient<T, A>::run_batch(std::int64_t begin, std::int64_t end, T* sums,
                                     T* bias_sums) const {
  const std::int64_t bytes = (in_size() + grad_size()) * static_cast<std::int64_t>(sizeof(A));
  const std::int64_t group =
      std::clamp<std::int64_t>(kGroupBytes / std::max<std::int64_t>(1, bytes), 1, end - begin);
  const Scratch<A> in = in_copies(group), grad = grad_copies(group);
  for (std::int64_t image = begin; image < end; image += group) {
    const Operands o = operands(image, std::min(group, end - image), in, grad);
    for (std::int64_t i = 0; i < o.count; ++i)
      copy(image + i, in ? in.data() + i * in_size() : nullptr,
           grad ? grad.data() + i * grad_size() : nullptr);
    for (std::int64_t unit = 0; unit < units_; ++unit) run_unit(o, unit, sums, image > begin);
    if constexpr (std::is_same_v<T, A>)
      if (bias_sums) sum_bias(o, 0, columns_, bias_sums);
  }
}

/// Few images, or sums too large to have one for each chunk of the batch: each task makes a part of
/// the sums over all images.
template <class T, class A>
void WeightGradient<T, A>::run_split(T* sums, T* bias_sums) const {
  const Scratch<A> in = in_copies(in_.count), grad = grad_copies(in_.count);
  if (in || grad)
    parallel_for(in_.count, 1, [&](std::int64_t image, std::int64_t) {
      copy(image, in ? in.data() + image * in_size() : nullptr,
           grad ? grad.data() + image * grad_size() : nullptr);
    });
  const Operands o = operands(0, in_.count, in, grad);
  // So many that a panel of their gradients stays in the first cache.
  const std::int64_t group = std::max<std::int64_t>(
      1,
      kPanelBytes / (grad_.height * grad_.width * panel_ * static_cast<std::int64_t>(sizeof(A))));
  const std::int64_t work =
      in_.count * grad_.height * grad_.width * panel_ * std::min(rows_, kUnitTiles * tile_);
  parallel_for(units_, (1 << 18) / std::max<std::int64_t>(1, work) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   for (std::int64_t image = 0; image < o.count; image += group)
                     run_unit(o.part(image, std::min(group, o.count - image)), unit, sums,
                              image > 0);
                 }
               });
  if constexpr (std::is_same_v<T, A>)
    if (bias_sums)
      parallel_for(columns_, 4 * kLanes<T>, [&](std::int64_t begin, std::int64_t end) {
        sum_bias(o, begin, end, bias_sums);
      });
}

/// Some rows of the sums, over the images of `o`, for one panel of output channels.
template <class T, class A>
void WeightGradient<T, A>::run_unit(const Operands& o, std::int64_t unit, T* sums,
                                    bool accumulate) const {
  const std::int64_t block = unit % blocks_;
  unit /= blocks_;
  const std::int64_t tap = unit % group_columns_;
  unit /= group_columns_;
  const std::int64_t kernel_row = unit % group_rows_, panel = unit / group_rows_;
  const std::int64_t used = std::min(panel_, columns_ - panel * panel_);
  // A row of taps leaves out the rows that it multiplies by zeros alone.
  const std::int64_t top = kernel_row * params_.dilation[0] + window_.top;
  const Inside inside(grad_.height, params_.stride[0], scattered_ ? 0 : top,
                      scattered_ ? INT64_MAX : in_.height);
  Micro<A> m{.a_step = params_.stride[1] * o.in.pixel_step,
             .b = o.grad.at(0, inside.first, 0) + panel * panel_,
             .b_step = o.grad.pixel_step,
             .run = grad_.width,
             .segments = {inside.count(), o.count},
             .a_segment = {params_.stride[0] * o.in.row_step, o.in.image_step},
             .b_segment = {o.grad.row_step, o.grad.image_step},
             .c_step = columns_,
             .columns = used,
             .accumulate = accumulate};
  const A* a = o.in.at(0, kernel_row * params_.dilation[0] + inside.first * params_.stride[0],
                       tap * params_.dilation[1]);
  T* c = sums + (kernel_row * kernel_columns_ + tap) * in_.channels * columns_ + panel * panel_;
  const std::int64_t begin = block * kUnitTiles * tile_;
  const std::int64_t end = std::min(rows_, begin + kUnitTiles * tile_);
  const std::int64_t rows = kPartPixels / grad_.width;
  const std::int64_t images = rows / std::max<std::int64_t>(1, inside.count());
  sum_micro_in_parts(m, images, rows, [&](Micro<A>& part, std::int64_t offset) {
    for (std::int64_t r = begin; r < end; r += tile_) {
      const std::int64_t count = std::min(tile_, end - r);
      const A* a_rows[kMaxRows];
      T* c_rows[kMaxRows];
      if (scattered_) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t at = (r + i) / in_.channels;
          a_rows[i] = o.in.at(0, at / kernel_columns_ * params_.dilation[0],
                              at % kernel_columns_ * params_.dilation[1]) +
                      (r + i) % in_.channels + offset;
          c_rows[i] = c + (r + i) * columns_;
        }
        part.a_rows = a_rows;
        part.c_rows = c_rows;
      } else {
        part.a = a + offset + r;
        part.c = c + r * columns_;
      }
      run_micro(part, static_cast<int>(count), static_cast<int>(used / kLanes<T>),
                scattered_ ? Rows::scattered : Rows::adjacent);
    }
  });
}

/// Adds the gradient of output channels [begin, end), over the images of `o`, to `sums`.
template <class T, class A>
void WeightGradient<T, A>::sum_bias(const Operands& o, std::int64_t begin, std::int64_t end,
                                    T* sums) const {
  for (std::int64_t c = begin; c < end; c += kLanes<T>) {
    Vector<T> total{};
    for (std::int64_t image = 0; image < o.count; ++image) {
      Vector<T> of_image{};
      for (std::int64_t y = 0; y < grad_.height; ++y) {
        // Four sums, so that an addition need not wait for the one before it.
        Vector<T> of_row[4] = {};
        const T* from = o.grad.at(image, y, 0) + c;
        const std::int64_t step = o.grad.pixel_step;
        std::int64_t x = 0;
        for (; x + 4 <= grad_.width; x += 4, from += 4 * step)
          for (int u = 0; u < 4; ++u) of_row[u] += load(from + u * step);
        for (; x < grad_.width; ++x, from += step) of_row[0] += load(from);
        of_image += (of_row[0] + of_row[1]) + (of_row[2] + of_row[3]);
      }
      total += of_image;
    }
    store(sums + c, load(sums + c) + total);
  }
}

template <class T, class A>
void WeightGradient<T, A>::write(T* out, const std::int64_t* strides, const T* sums) const {
  const std::int64_t channels = in_.channels, taps = kernel_rows_ * kernel_columns_;
  const std::int64_t depth = taps * channels;
  const bool as_summed =
      strides[1] == 1 && strides[3] == channels && strides[2] == kernel_columns_ * channels;
  const bool by_planes = strides[1] == taps && strides[3] == 1 && strides[2] == kernel_columns_;
  parallel_for(grad_.channels, kLanes<T>, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin;
    if (as_summed)
      return copy_matrix(out + begin * strides[0], strides[0], sums + begin, 1, columns_, count,
                         depth);
    const Scratch<T> rows((count + 1) * depth);
    T* const planes = rows.data() + count * depth;
    copy_matrix(rows.data(), depth, sums + begin, 1, columns_, count, depth);
    for (std::int64_t i = 0; i < count; ++i) {
      T* to = out + (begin + i) * strides[0];
      const T* from = rows.data() + i * depth;
      if (by_planes) {
        copy_matrix(planes, taps, from, 1, channels, channels, taps);
        copy_run(to, planes, depth);
      } else {
        write_taps(to, strides, from, kernel_rows_, kernel_columns_, channels);
      }
    }
  });
}

}  // namespace ferrite::kernels::cpu
