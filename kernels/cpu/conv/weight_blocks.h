// The gradient of a convolution by its weights where channels are many: products of blocks of input
// channels with panels of output channels, both copied so that what one core works on lies side by
// side. Where they are, pixels lie powers of two apart, and a few of them already share all ways of
// the first cache.
#pragma once

#include "ferrite/kernels/cpu/conv/weight_sums.h"

namespace ferrite::kernels::cpu {

template <class T>
class BlockedWeightGradient {
 public:
  BlockedWeightGradient(const Images<const T>& in, const Images<const T>& grad,
                        std::int64_t kernel_rows, std::int64_t kernel_columns,
                        const ConvParams& params);

  /// As WeightGradient::run().
  void run(T* out, const std::int64_t* strides, T* bias, std::int64_t bias_step) const;

 private:
  static constexpr std::int64_t kBlockTiles = 8;
  static constexpr std::int64_t kTasks = 16;              // at least, where there is the work
  static constexpr std::int64_t kTaskWork = 1 << 22;      // multiplications
  static constexpr std::int64_t kPartialBytes = 8 << 20;  // of sums that wait to be added up
  static constexpr std::int64_t kFirstCache = 24 << 10;   // of a panel
  static constexpr std::int64_t kSecondCache = 384 << 10;

  std::int64_t window_size() const { return window_.height * window_.width; }
  std::int64_t pixels() const { return grad_.height * grad_.width; }
  std::int64_t rows_of(std::int64_t block) const {
    return std::min(block_, in_.channels - block * block_);
  }
  std::int64_t columns_of(std::int64_t panel) const {
    return std::min(panel_, columns_ - panel * panel_);
  }
  std::int64_t sums_size() const { return taps_ * block_ * panel_; }

  void copy(std::int64_t image, T* in, T* grad) const;
  void sum(std::int64_t block, std::int64_t panel, std::int64_t begin, std::int64_t end,
           const T* in, const T* grad, T* sums) const;
  void sum_tap(const Micro<T>& m, std::int64_t rows, T* c) const;
  void sum_bias(std::int64_t panel, std::int64_t begin, std::int64_t end, const T* grad,
                T* sums) const;
  void write(std::int64_t block, std::int64_t panel, const T* sums, T* out,
             const std::int64_t* strides) const;

  Images<const T> in_, grad_;
  std::int64_t kernel_rows_, kernel_columns_, taps_;
  ConvParams params_;
  Window window_;
  std::int64_t columns_;  // output channels, in whole vectors
  std::int64_t panel_, panels_, tile_, block_, blocks_;
  std::int64_t parts_;  // of the batch
};

template <class T>
BlockedWeightGradient<T>::BlockedWeightGradient(const Images<const T>& in,
                                                const Images<const T>& grad,
                                                std::int64_t kernel_rows,
                                                std::int64_t kernel_columns,
                                                const ConvParams& params)
    : in_(in),
      grad_(grad),
      kernel_rows_(kernel_rows),
      kernel_columns_(kernel_columns),
      taps_(kernel_rows * kernel_columns),
      params_(params),
      window_(window_of(grad, kernel_rows, kernel_columns, params)),
      columns_(whole_vectors<T>(grad.channels)) {
  const int vectors = panel_vectors<T>(columns_, in.channels, pixels());
  panel_ = vectors * kLanes<T>;
  panels_ = (columns_ + panel_ - 1) / panel_;
  tile_ = even_share(in.channels, max_rows(vectors));
  block_ = std::min(kBlockTiles * tile_, in.channels);
  blocks_ = (in.channels + block_ - 1) / block_;
  const std::int64_t work = sums_size() * pixels() * in.count;
  const std::int64_t most =
      kPartialBytes / (blocks_ * panels_ * sums_size() * static_cast<std::int64_t>(sizeof(T)));
  parts_ = std::clamp<std::int64_t>(
      std::min({(kTasks - 1) / (blocks_ * panels_) + 1, work / kTaskWork, most}), 1, in.count);
}

template <class T>
void BlockedWeightGradient<T>::run(T* out, const std::int64_t* strides, T* bias,
                                   std::int64_t bias_step) const {
  const std::int64_t images = in_.count;
  const Scratch<T> in(images * window_size() * in_.channels), grad(images * pixels() * columns_);
  parallel_for(images, 1 + (1 << 14) / (window_size() * in_.channels + pixels() * columns_),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) copy(i, in.data(), grad.data());
               });
  const std::int64_t tasks = blocks_ * panels_, size = sums_size();
  const Scratch<T> partial(parts_ > 1 ? parts_ * tasks * size : 0);
  const Scratch<T> bias_sums(bias ? parts_ * columns_ : 0);
  parallel_for(parts_ * tasks, 1, [&](std::int64_t at, std::int64_t) {
    const std::int64_t part = at / tasks, panel = at % tasks / blocks_, block = at % blocks_;
    const std::int64_t begin = images * part / parts_, end = images * (part + 1) / parts_;
    const Scratch<T> own(parts_ > 1 ? 0 : size);
    T* const sums = parts_ > 1 ? partial.data() + at * size : own.data();
    sum(block, panel, begin, end, in.data(), grad.data(), sums);
    if (bias && block == 0)
      sum_bias(panel, begin, end, grad.data(), bias_sums.data() + part * columns_);
    if (parts_ == 1) write(block, panel, sums, out, strides);
  });
  if (parts_ > 1)
    parallel_for(tasks, 1, [&](std::int64_t at, std::int64_t) {
      T* const sums = partial.data() + at * size;
      for (std::int64_t p = 1; p < parts_; ++p) add_run(sums, sums + p * tasks * size, size);
      write(at % blocks_, at / blocks_, sums, out, strides);
    });
  if (bias) write_bias(bias, bias_step, grad_.channels, bias_sums.data(), parts_, columns_);
}

/// One image: its blocks to [blocks, images, pixels of the window, channels of the block], the
/// gradient's panels to [panels, images, pixels, channels of the panel].
template <class T>
void BlockedWeightGradient<T>::copy(std::int64_t image, T* in, T* grad) const {
  const std::int64_t images = in_.count;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    Images<const T> block = in_;
    block.data += b * block_ * in_.channel_step;
    block.channels = rows_of(b);
    copy_window(in + window_size() * (images * b * block_ + image * block.channels), block, image,
                window_);
  }
  for (std::int64_t p = 0; p < panels_; ++p) {
    Images<const T> panel = grad_;
    panel.data += p * panel_ * grad_.channel_step;
    panel.channels = std::min(columns_of(p), grad_.channels - p * panel_);
    copy_pixels(grad + pixels() * (images * p * panel_ + image * columns_of(p)), columns_of(p),
                panel, image);
  }
}

/// sums[tap, row, column] of a block and a panel over images [begin, end).
template <class T>
void BlockedWeightGradient<T>::sum(std::int64_t block, std::int64_t panel, std::int64_t begin,
                                   std::int64_t end, const T* in, const T* grad, T* sums) const {
  const std::int64_t rows = rows_of(block), columns = columns_of(panel), images = in_.count;
  const std::int64_t in_size = window_size() * rows, grad_size = pixels() * columns;
  in += images * window_size() * block * block_;
  grad += images * pixels() * panel * panel_;
  // As many images as stay in the second cache over all taps.
  const std::int64_t bytes = (in_size + grad_size) * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t group =
      even_share(end - begin, std::max<std::int64_t>(1, kSecondCache / bytes));
  const std::int64_t row = window_.width * rows;
  for (std::int64_t image = begin; image < end; image += group)
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      const std::int64_t y = tap / kernel_columns_ * params_.dilation[0];
      const std::int64_t x = tap % kernel_columns_ * params_.dilation[1];
      const Inside down(grad_.height, params_.stride[0], y + window_.top, in_.height);
      const Inside across(grad_.width, params_.stride[1], x + window_.left, in_.width);
      sum_tap({.a = in + image * in_size + (y + down.first * params_.stride[0]) * row +
                    (x + across.first * params_.stride[1]) * rows,
               .a_step = params_.stride[1] * rows,
               .b = grad + image * grad_size + (down.first * grad_.width + across.first) * columns,
               .b_step = columns,
               .run = across.count(),
               .segments = {down.count(), std::min(group, end - image)},
               .a_segment = {params_.stride[0] * row, in_size},
               .b_segment = {grad_.width * columns, grad_size},
               .c_step = panel_,
               .columns = columns,
               .accumulate = image > begin},
              rows, sums + tap * block_ * panel_);
    }
}

/// The sums of one tap over the images and rows of `m`, a panel's share of the first cache at a
/// time.
template <class T>
void BlockedWeightGradient<T>::sum_tap(const Micro<T>& m, std::int64_t rows, T* c) const {
  const std::int64_t row_bytes = grad_.width * m.columns * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t lines = kFirstCache / row_bytes;
  const std::int64_t images = lines / std::max<std::int64_t>(1, m.segments[0]);
  sum_micro_in_parts(m, images, lines, [&](Micro<T>& part, std::int64_t offset) {
    for (std::int64_t r = 0; r < rows; r += tile_) {
      part.a = m.a + offset + r;
      part.c = c + r * panel_;
      run_micro(part, static_cast<int>(std::min(tile_, rows - r)),
                static_cast<int>(m.columns / kLanes<T>), Rows::adjacent);
    }
  });
}

template <class T>
void BlockedWeightGradient<T>::sum_bias(std::int64_t panel, std::int64_t begin, std::int64_t end,
                                        const T* grad, T* sums) const {
  const std::int64_t columns = columns_of(panel), n = (end - begin) * pixels();
  grad += in_.count * pixels() * panel * panel_ + begin * pixels() * columns;
  for (std::int64_t c = 0; c < columns; c += kLanes<T>) {
    Vector<T> chains[4] = {};  // so that an addition need not wait for the one before it
    for (std::int64_t i = 0; i < n; ++i) chains[i % 4] += load(grad + i * columns + c);
    store(sums + panel * panel_ + c, (chains[0] + chains[1]) + (chains[2] + chains[3]));
  }
}

template <class T>
void BlockedWeightGradient<T>::write(std::int64_t block, std::int64_t panel, const T* sums, T* out,
                                     const std::int64_t* strides) const {
  const std::int64_t rows = rows_of(block);
  const std::int64_t columns = std::min(panel_, grad_.channels - panel * panel_);
  out += panel * panel_ * strides[0] + block * block_ * strides[1];
  if (strides[1] == 1 || taps_ == 1) {
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      T* const to = out + tap / kernel_columns_ * strides[2] + tap % kernel_columns_ * strides[3];
      if (strides[1] == 1)
        copy_matrix(to, strides[0], sums + tap * block_ * panel_, 1, panel_, columns, rows);
      else
        for (std::int64_t o = 0; o < columns; ++o)
          for (std::int64_t r = 0; r < rows; ++r)
            to[o * strides[0] + r * strides[1]] = sums[r * panel_ + o];
    }
    return;
  }
  const Scratch<T> turned(columns * taps_ * rows);
  for (std::int64_t tap = 0; tap < taps_; ++tap)
    copy_matrix(turned.data() + tap * rows, taps_ * rows, sums + tap * block_ * panel_, 1, panel_,
                columns, rows);
  const bool by_planes = strides[1] == taps_ && strides[3] == 1 && strides[2] == kernel_columns_;
  for (std::int64_t o = 0; o < columns; ++o) {
    T* const to = out + o * strides[0];
    const T* from = turned.data() + o * taps_ * rows;
    if (by_planes) {
      copy_matrix(to, taps_, from, 1, rows, rows, taps_);
    } else {
      write_taps(to, strides, from, kernel_rows_, kernel_columns_, rows);
    }
  }
}

}  // namespace ferrite::kernels::cpu
