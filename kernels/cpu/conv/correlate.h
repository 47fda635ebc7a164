// Convolution forward, and its gradient by the input, as one procedure: correlations of an image
// with taps, which the gradient by the input is for each phase of its stride.
//
// No column matrix is built: the pixels of an output row lie in equal steps in the input, so the
// inner kernel reads the rows of its left operand where they are. Input that is padded, or lies in
// another layout, is first copied, an image at a time.
#pragma once

#include <vector>

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/conv_axis.h"
#include "ferrite/kernels/cpu/conv/image.h"

namespace ferrite::kernels::cpu {

/// A is T (float or double), or Pair with T float: `in` and the filter then count pairs of
/// channels.
template <class T, class A = T>
class Correlation {
 public:
  Correlation(const Group<T, A>& group, std::vector<Axis> rows, std::vector<Axis> columns)
      : out_(group.out), in_(group.in), rows_(std::move(rows)), columns_(std::move(columns)) {
    // Short rows are worked off several at a time.
    const std::int64_t width = columns_[0].count;
    scattered_ = width < kShortRow && out_.channels > kLanes<T>;
    panel_ = panel_vectors<T>(out_.channels, scattered_ ? max_rows(2) : width,
                              rows_[0].taps * columns_[0].taps * in_.channels) *
             kLanes<T>;
    panels_ = (out_.channels + panel_ - 1) / panel_;
    pack_filter(group.filter);
    if (group.bias) {
      bias_ = Scratch<T>(panels_ * panel_);
      std::fill_n(bias_.data(), panels_ * panel_, T(0));
      for (std::int64_t c = 0; c < out_.channels; ++c) bias_.data()[c] = group.bias_of(c);
    }
  }

  void run() {
    if (scattered_ && out_.height < kShortRow && out_.count >= kManyImages &&
        weight_count_ * static_cast<std::int64_t>(sizeof(A)) > kManyWeights)
      return run_panels();
    // Chunks of whole images, or of rows where images are few. By size only.
    const std::int64_t images = out_.count, height = out_.height;
    const std::int64_t grain = images >= 8 ? (images + kChunks - 1) / kChunks * height
                                           : std::max<std::int64_t>(4, images * height / kChunks);
    parallel_for(images * height, grain, [&](std::int64_t begin, std::int64_t end) {
      if (begin % height == 0 && end % height == 0) return run_images(begin / height, end / height);
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t image = at / height, top = at % height;
        const std::int64_t bottom = std::min(height, top + end - at);
        run_rows(image, 1, top, bottom);
        at += bottom - top;
      }
    });
  }

 private:
  static constexpr std::int64_t kChunks = 32;
  static constexpr std::int64_t kCacheBytes = 384 << 10;  // of weights that stay near a core
  static constexpr std::int64_t kShortRow = 10;
  static constexpr std::int64_t kManyWeights = 1 << 20;  // bytes: a core's second cache
  static constexpr std::int64_t kManyImages = 8;
  static constexpr std::int64_t kImagesAtOnce = 64;

  struct Phase {
    const Axis *rows, *columns;
    const A* weights;  // panels, each [row taps, column taps, input channels, panel_]
    std::int64_t depth() const { return rows->taps * columns->taps; }
  };

  void pack_filter(const Filter<A>& filter);
  Window window(std::int64_t top, std::int64_t bottom) const;
  /// Results side by side that sum the same taps.
  struct Run {
    std::int64_t first, last, tap, taps;
  };

  void run_panels() const;
  void run_images(std::int64_t begin, std::int64_t end) const;
  void run_rows(std::int64_t image, std::int64_t count, std::int64_t top,
                std::int64_t bottom) const;
  Pixels<const A> pixels(std::int64_t image, std::int64_t count, const Window& window,
                         Scratch<A>& copied) const;
  Pixels<T> results(std::int64_t image, std::int64_t count, std::int64_t top, std::int64_t bottom,
                    Scratch<T>& result) const;
  void put(std::int64_t image, std::int64_t count, std::int64_t top, std::int64_t bottom,
           const Pixels<T>& from) const;
  void run_phase(const Phase& phase, std::int64_t panel, const Pixels<const A>& in,
                 const Window& window, const Pixels<T>& out, std::int64_t images, std::int64_t top,
                 std::int64_t bottom) const;
  std::vector<Run> runs(const Axis& axis, std::int64_t begin, std::int64_t end,
                        std::int64_t size) const;

  Images<T> out_;
  Images<const A> in_;
  std::vector<Axis> rows_, columns_;
  std::vector<Phase> phases_;
  bool scattered_;
  std::int64_t panel_, panels_;
  std::int64_t weight_count_ = 0;
  Scratch<A> weights_;
  Scratch<T> bias_;
};

template <class T, class A>
void Correlation<T, A>::pack_filter(const Filter<A>& filter) {
  const std::int64_t channels = in_.channels;
  for (const Axis& r : rows_)
    for (const Axis& c : columns_) weight_count_ += r.taps * c.taps * channels * panels_ * panel_;
  weights_ = Scratch<A>(weight_count_);
  A* to = weights_.data();
  for (const Axis& r : rows_)
    for (const Axis& c : columns_) {
      phases_.push_back({&r, &c, to});
      to += r.taps * c.taps * channels * panels_ * panel_;
    }
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 * panels_ / (weight_count_ + 1));
  parallel_for(panels_, grain, [&](std::int64_t begin, std::int64_t end) {
    for (const Phase& phase : phases_)
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t used = std::min(panel_, out_.channels - p * panel_);
        A* block = const_cast<A*>(phase.weights) + p * phase.depth() * channels * panel_;
        for (std::int64_t i = 0; i < phase.rows->taps; ++i)
          for (std::int64_t j = 0; j < phase.columns->taps; ++j, block += channels * panel_) {
            const A* from =
                filter.data + p * panel_ * filter.out_step +
                (phase.rows->kernel_first + i * phase.rows->kernel_step) * filter.row_step +
                (phase.columns->kernel_first + j * phase.columns->kernel_step) * filter.column_step;
            copy_matrix(block, panel_, from, filter.in_step, filter.out_step, channels, used);
            if (used < panel_)
              for (std::int64_t c = 0; c < channels; ++c)
                std::fill(block + c * panel_ + used, block + (c + 1) * panel_, A());
          }
      }
  });
}

/// The part of the input that rows [top, bottom) of the output are made of.
template <class T, class A>
Window Correlation<T, A>::window(std::int64_t top, std::int64_t bottom) const {
  const auto bounds = [](const std::vector<Axis>& axes, std::int64_t from, std::int64_t to) {
    std::int64_t low = INT64_MAX, high = INT64_MIN;
    for (const Axis& a : axes) {
      const std::int64_t begin = a.results_before(from), end = a.results_before(to);
      if (a.taps == 0 || begin == end) continue;
      low = std::min(low, begin * a.stride + a.first);
      high = std::max(high, (end - 1) * a.stride + a.first + (a.taps - 1) * a.step + 1);
    }
    return low < high ? std::pair{low, high} : std::pair{std::int64_t{0}, std::int64_t{0}};
  };
  const auto [y0, y1] = bounds(rows_, top, bottom);
  const auto [x0, x1] = bounds(columns_, 0, out_.width);
  return {y0, x0, y1 - y0, x1 - x0};
}

/// Whole images, in groups that share the weights while those are in cache.
template <class T, class A>
void Correlation<T, A>::run_images(std::int64_t begin, std::int64_t end) const {
  std::int64_t group = 1;
  if (weight_count_ * static_cast<std::int64_t>(sizeof(A)) > kCacheBytes) {
    const std::int64_t bytes =
        in_.height * in_.width * in_.channels * static_cast<std::int64_t>(sizeof(A)) +
        out_.height * out_.width * out_.channels * static_cast<std::int64_t>(sizeof(T));
    group = std::clamp<std::int64_t>((1 << 20) / std::max<std::int64_t>(1, bytes), 1, 8);
  }
  for (std::int64_t image = begin; image < end; image += group)
    run_rows(image, std::min(group, end - image), 0, out_.height);
}

/// `window` of `count` images from `image` on: where they lie, or their copies in `copied`, which
/// threads make together where they may.
template <class T, class A>
Pixels<const A> Correlation<T, A>::pixels(std::int64_t image, std::int64_t count,
                                          const Window& window, Scratch<A>& copied) const {
  const bool sparse = rows_.size() == 1 && columns_.size() == 1 &&
                      (rows_[0].taps < rows_[0].stride || columns_[0].taps < columns_[0].stride);
  if (reads_in_place(in_, window, sparse))
    return {in_.data + image * in_.image_step + window.top * in_.row_step +
                window.left * in_.pixel_step,
            in_.image_step, in_.row_step, in_.pixel_step};
  const std::int64_t size = window.height * window.width * in_.channels;
  copied = Scratch<A>(count * size);
  parallel_for(count, 1, [&](std::int64_t i, std::int64_t) {
    A* const to = copied.data() + i * size;
    if (!window.inside(in_)) std::fill_n(to, size, A());
    gather(to, in_.channels, in_, image + i, window);
  });
  return {copied.data(), size, window.width * in_.channels, in_.channels};
}

/// Rows [top, bottom) of `count` images from `image` on: where they are to lie, or in `result`,
/// from where put() brings them there.
template <class T, class A>
Pixels<T> Correlation<T, A>::results(std::int64_t image, std::int64_t count, std::int64_t top,
                                     std::int64_t bottom, Scratch<T>& result) const {
  if (out_.channel_step == 1)
    return {out_.data + image * out_.image_step + top * out_.row_step, out_.image_step,
            out_.row_step, out_.pixel_step};
  const std::int64_t pixel = panels_ * panel_, row = pixel * out_.width;
  result = Scratch<T>(count * row * (bottom - top));
  return {result.data(), row * (bottom - top), row, pixel};
}

template <class T, class A>
void Correlation<T, A>::put(std::int64_t image, std::int64_t count, std::int64_t top,
                            std::int64_t bottom, const Pixels<T>& from) const {
  parallel_for(count, 1, [&](std::int64_t i, std::int64_t) {
    scatter(out_, image + i, top, bottom - top, from.at(i, 0, 0), from.row_step, from.pixel_step);
  });
}

/// Rows [top, bottom) of `count` images from `image` on.
template <class T, class A>
void Correlation<T, A>::run_rows(std::int64_t image, std::int64_t count, std::int64_t top,
                                 std::int64_t bottom) const {
  const Window window = this->window(top, bottom);
  Scratch<A> copied;
  Scratch<T> result;
  const Pixels<const A> in = pixels(image, count, window, copied);
  const Pixels<T> out = results(image, count, top, bottom, result);
  for (const Phase& phase : phases_)
    for (std::int64_t p = 0; p < panels_; ++p)
      run_phase(phase, p, in, window, out, count, top, bottom);
  if (result) put(image, count, top, bottom, out);
}

/// Small images and more weights than a core's second cache holds: a task makes a panel of output
/// channels of many images.
template <class T, class A>
void Correlation<T, A>::run_panels() const {
  const Window window = this->window(0, out_.height);
  for (std::int64_t image = 0; image < out_.count; image += kImagesAtOnce) {
    const std::int64_t count = std::min(kImagesAtOnce, out_.count - image);
    Scratch<A> copied;
    Scratch<T> result;
    const Pixels<const A> in = pixels(image, count, window, copied);
    const Pixels<T> out = results(image, count, 0, out_.height, result);
    const std::int64_t group = std::max(kManyImages, (count * panels_ + kChunks - 1) / kChunks);
    const std::int64_t groups = (count + group - 1) / group;
    parallel_for(groups * panels_, 1, [&](std::int64_t task, std::int64_t) {
      const std::int64_t first = task % groups * group, last = std::min(count, first + group);
      Pixels<const A> in_group = in;
      Pixels<T> out_group = out;
      in_group.data = in.at(first, 0, 0);
      out_group.data = out.at(first, 0, 0);
      for (const Phase& phase : phases_)
        run_phase(phase, task / groups, in_group, window, out_group, last - first, 0, out_.height);
    });
    if (result) put(image, count, 0, out_.height, out);
  }
}

/// Results [begin, end) along an axis, by the taps that meet an image of `size`. Whatever the size
/// of the batch: what 0 times an infinite weight is must not depend on it.
template <class T, class A>
std::vector<typename Correlation<T, A>::Run> Correlation<T, A>::runs(const Axis& axis,
                                                                     std::int64_t begin,
                                                                     std::int64_t end,
                                                                     std::int64_t size) const {
  std::vector<Run> runs;
  for (std::int64_t i = begin; i < end; ++i) {
    const auto [first, last] = taps_inside(axis, i, size);
    if (runs.empty() || runs.back().tap != first || runs.back().taps != last - first)
      runs.push_back({i, i, first, last - first});
    runs.back().last = i + 1;
  }
  return runs;
}

template <class T, class A>
void Correlation<T, A>::run_phase(const Phase& phase, std::int64_t panel, const Pixels<const A>& in,
                                  const Window& window, const Pixels<T>& out, std::int64_t images,
                                  std::int64_t top, std::int64_t bottom) const {
  const Axis &rows = *phase.rows, &columns = *phase.columns;
  const std::int64_t channels = in_.channels;
  const std::int64_t begin = rows.results_before(top), end = rows.results_before(bottom);
  const std::int64_t used = std::min(panel_, out_.channels - panel * panel_);
  const int vectors = static_cast<int>((used + kLanes<T> - 1) / kLanes<T>);
  const std::int64_t tile = even_share(columns.count, max_rows(vectors));
  const bool merged = columns.step * in.pixel_step == channels;  // taps of a row side by side

  Micro<A> m{.a_step = columns.stride * in.pixel_step,
             .b_step = panel_,
             .c_step = columns.out_step * out.pixel_step,
             .columns = used};
  m.run = merged ? columns.taps * channels : channels;
  m.segments[0] = merged ? 1 : columns.taps;
  m.a_segment[0] = columns.step * in.pixel_step;
  m.b_segment[0] = channels * panel_;
  m.a_segment[1] = rows.step * in.row_step;
  m.b_segment[1] = columns.taps * channels * panel_;

  const A* weights = phase.weights + panel * phase.depth() * channels * panel_;
  const std::int64_t row_bytes = m.b_segment[1] * static_cast<std::int64_t>(sizeof(A));
  const std::int64_t taps = std::clamp<std::int64_t>(
      kCacheBytes / std::max<std::int64_t>(1, row_bytes), 1, std::max<std::int64_t>(1, rows.taps));
  for (std::int64_t tap = 0; tap == 0 || tap < rows.taps; tap += taps) {
    m.segments[1] = std::min(taps, rows.taps - tap);
    m.accumulate = tap > 0;
    m.bias = bias_ ? bias_.data() + panel * panel_ : nullptr;
    m.b = weights + tap * m.b_segment[1];
    const auto left = [&](std::int64_t image, std::int64_t i, std::int64_t j) {
      return in.at(image, i * rows.stride + rows.first + tap * rows.step - window.top,
                   j * columns.stride + columns.first - window.left);
    };
    const auto result = [&](std::int64_t image, std::int64_t i, std::int64_t j) {
      return out.at(image, rows.out_first + i * rows.out_step - top,
                    columns.out_first + j * columns.out_step) +
             panel * panel_;
    };
    if (scattered_) {
      for (const Run& row : runs(rows, begin, end, in_.height))
        for (const Run& column : runs(columns, 0, columns.count, in_.width)) {
          const std::int64_t first = std::max(tap, row.tap);
          const std::int64_t last = std::max(first, std::min(tap + taps, row.tap + row.taps));
          if (first == last && tap > 0) continue;  // else they start with the bias, or at 0
          Micro<A> part = m;
          part.segments[1] = last - first;
          (merged ? part.run : part.segments[0]) = column.taps * (merged ? channels : 1);
          part.b += (first - tap) * m.b_segment[1] + column.tap * channels * panel_;
          const std::int64_t to_tap =
              (first - tap) * rows.step * in.row_step + column.tap * columns.step * in.pixel_step;
          const A* a_rows[kMaxRows];
          T* c_rows[kMaxRows];
          part.a_rows = a_rows;
          part.c_rows = c_rows;
          part.a_step = 1;
          const std::int64_t all = images * (row.last - row.first) * (column.last - column.first);
          const std::int64_t most = even_share(all, max_rows(vectors));
          int count = 0;
          for (std::int64_t image = 0; image < images; ++image)
            for (std::int64_t i = row.first; i < row.last; ++i)
              for (std::int64_t j = column.first; j < column.last; ++j) {
                a_rows[count] = left(image, i, j) + to_tap;
                c_rows[count] = result(image, i, j);
                if (++count < most) continue;
                run_micro(part, count, vectors, Rows::scattered);
                count = 0;
              }
          if (count > 0) run_micro(part, count, vectors, Rows::scattered);
        }
      continue;
    }
    for (std::int64_t image = 0; image < images; ++image)
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t j = 0; j < columns.count; j += tile) {
          m.a = left(image, i, j);
          m.c = result(image, i, j);
          run_micro(m, static_cast<int>(std::min(tile, columns.count - j)), vectors, Rows::apart);
        }
  }
}

}  // namespace ferrite::kernels::cpu
