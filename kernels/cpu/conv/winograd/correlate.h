// The stages of a Winograd convolution, arranged for the caches. Each point of the transformed
// tiles is a product of matrices, [tiles, channels] by [channels, output channels]; in both orders
// of work here what is transformed is used at once, and the cut into tasks follows from the sizes
// alone, so that the bits do not depend on the number of threads.
#pragma once

#include "ferrite/kernels/cpu/conv/winograd/transform.h"
#include "ferrite/kernels/cpu/conv/winograd/winograd.h"

namespace ferrite::kernels::cpu::winograd {

template <class T, class F>
class Correlation {
 public:
  explicit Correlation(const Problem<T>& problem);

  void run() const {
    if (filter_bytes() <= kFilterBytes)
      run_by_tiles();
    else
      run_by_channels();
  }

 private:
  /// The part of a core's second-level cache (1 MiB) that a block of tiles may take, transformed
  /// and multiplied.
  static constexpr std::int64_t kBlockBytes = 800 << 10;
  /// Up to here the transformed filter is written once and read by every block; it should leave
  /// most of a shared third cache (32 MiB) alone.
  static constexpr std::int64_t kFilterBytes = 3 << 20;
  /// Vectors of a panel of the filter: the shape of the inner kernel that reads the fewest bytes of
  /// what is not in the first cache.
  static constexpr std::int64_t kPanel = 2;
  static constexpr std::int64_t kDepth = 128;  // channels at a time: a panel of the first cache
  /// Channels that are added up before they are added to the others, so that what the maps of six
  /// points enlarge is the rounding of short sums (winograd.h).
  static constexpr std::int64_t kSum = F::kSide == 6 ? 32 : kDepth;
  static constexpr std::int64_t kGroup = 64;       // output channels at a time
  static constexpr std::int64_t kManyTiles = 128;  // for which a part of the filter is transformed
  static constexpr std::int64_t kTasks = 8;        // at least, where there is work for them
  static constexpr std::int64_t kSize = sizeof(T);
  static constexpr std::int64_t kResults = F::kResults, kTaps = F::kTaps;
  /// Channels ahead of which weights are fetched: few images wait for them more than for products.
  static constexpr std::int64_t kAhead = 8;

  struct Tiles {
    std::int64_t first, count;
  };
  /// The tiles that form a rectangle of one image, and the number of tiles before them.
  struct Part {
    std::int64_t image, row, rows, column, columns, before;
  };

  /// Points so far apart that no two fall into the same set of a cache.
  static std::int64_t point_step(std::int64_t values) {
    return values / kLanes<T> % 2 == 0 ? values + kLanes<T> : values;
  }
  std::int64_t filter_bytes() const { return F::kPoints * in_.channels * columns_ * kSize; }
  std::int64_t width(std::int64_t panel) const {
    return std::min(panel_, columns_ - panel * panel_);
  }
  std::int64_t block_tiles(std::int64_t group) const;
  template <class Visit>
  void for_each_part(Tiles tiles, Visit visit) const;
  void run_by_tiles() const;
  void run_by_channels() const;

  void map_input(T* to, std::int64_t step, Tiles tiles) const;
  void map_filter(T* to, std::int64_t step, std::int64_t panel, std::int64_t channel,
                  std::int64_t count) const;
  void map_output(const T* from, std::int64_t step, std::int64_t row, std::int64_t column,
                  std::int64_t count, Tiles tiles) const;
  void multiply(T* c, std::int64_t c_step, const T* a, const T* b, std::int64_t panel,
                std::int64_t rows, std::int64_t depth, bool accumulate,
                const T* next_a = nullptr) const;

  Images<T> out_;
  Images<const T> in_;
  Filter<T> filter_;
  std::int64_t top_, left_;
  bool relu_;
  std::int64_t down_, across_, tiles_;  // of an image; of all
  std::int64_t columns_, panel_, panels_, depth_, row_;
  Scratch<T> bias_;
};

template <class T, class F>
Correlation<T, F>::Correlation(const Problem<T>& p)
    : out_(p.out),
      in_(p.in),
      filter_(p.filter),
      top_(p.top),
      left_(p.left),
      relu_(p.relu),
      down_((p.out.height + kResults - 1) / kResults),
      across_((p.out.width + kResults - 1) / kResults),
      tiles_(p.out.count * down_ * across_),
      columns_(whole_vectors<T>(p.out.channels)),
      panel_(std::min<std::int64_t>(columns_, kPanel * kLanes<T>)),
      panels_((columns_ + panel_ - 1) / panel_),
      depth_(even_share(p.in.channels, kDepth)),
      row_(whole_vectors<T>(p.in.channels)) {
  if (!p.bias) return;
  bias_ = Scratch<T>(columns_);
  std::fill_n(bias_.data(), columns_, T(0));
  for (std::int64_t c = 0; c < out_.channels; ++c) bias_.data()[c] = p.bias[c * p.bias_step];
}

template <class T, class F>
template <class Visit>
void Correlation<T, F>::for_each_part(Tiles tiles, Visit visit) const {
  for (std::int64_t done = 0; done < tiles.count;) {
    const std::int64_t at = tiles.first + done, left = tiles.count - done;
    const std::int64_t line = at / across_, column = at % across_, row = line % down_;
    Part part{line / down_, row, 1, column, std::min(across_ - column, left), done};
    if (column == 0 && left >= across_) part.rows = std::min(left / across_, down_ - row);
    visit(part);
    done += part.rows * part.columns;
  }
}

/// V = B^T d B of `tiles`, [points, tiles, row_], points `step` apart. Images of
/// another layout are brought into this one a part at a time, on the way.
template <class T, class F>
void Correlation<T, F>::map_input(T* to, std::int64_t step, Tiles tiles) const {
  Scratch<T> copied;
  for_each_part(tiles, [&](const Part& part) {
    Images<const T> in = in_;
    const std::int64_t y = part.row * kResults - top_, x = part.column * kResults - left_;
    // What exists of the pixels that these tiles read.
    Window window{std::clamp<std::int64_t>(y, 0, in.height),
                  std::clamp<std::int64_t>(x, 0, in.width), 0, 0};
    window.height =
        std::clamp(y + part.rows * kResults + kTaps - 1, window.top, in.height) - window.top;
    window.width =
        std::clamp(x + part.columns * kResults + kTaps - 1, window.left, in.width) - window.left;
    const T* corner = in.data + part.image * in.image_step + window.top * in.row_step +
                      window.left * in.pixel_step;
    if (in.channel_step != 1) {
      // As large as any part's; the first is not always the largest.
      if (!copied)
        copied = Scratch<T>(std::min(in.height, tiles.count / across_ * kResults + F::kSide) *
                            std::min(in.width, tiles.count * kResults + kTaps - 1) * in.channels);
      if (window.width == in.width && in.row_step == in.width * in.pixel_step)
        copy_matrix(copied.data(), in.channels, corner, in.pixel_step, in.channel_step,
                    window.height * window.width, in.channels);
      else
        gather(copied.data(), in.channels, in, part.image, window);
      corner = copied.data();
      in.pixel_step = in.channels;
      in.row_step = window.width * in.channels;
    }
    T* tile = to + part.before * row_;
    for (std::int64_t r = 0; r < part.rows; ++r)
      for (std::int64_t c = 0; c < part.columns; ++c, tile += row_)
        map_pixels<InputMap<F>>(
            tile, step,
            tile_at<const T>(corner, in.row_step, in.pixel_step, y + r * kResults - window.top,
                             x + c * kResults - window.left, window.height, window.width, F::kSide),
            in.channels);
  });
}

/// U = G g G^T of one panel of output channels and `count` channels from `channel` on,
/// [points, count, width(panel)].
template <class T, class F>
void Correlation<T, F>::map_filter(T* to, std::int64_t step, std::int64_t panel,
                                   std::int64_t channel, std::int64_t count) const {
  const std::int64_t width = this->width(panel), size = count * width;
  const std::int64_t used = std::min(width, out_.channels - panel * panel_);
  // Output channels side by side, as optimize_for_inference() lays weights: read where they lie.
  if (filter_.out_step == 1 && used == width && filter_.row_step == kTaps * filter_.column_step) {
    const T* from = filter_.data + panel * panel_ + channel * filter_.in_step;
    for (std::int64_t c = 0; c < count; ++c, from += filter_.in_step) {
      for (int tap = 0; tap < kTaps * kTaps; ++tap)
        for (std::int64_t line = 0; line < width; line += 64 / kSize)
          __builtin_prefetch(from + kAhead * filter_.in_step + tap * filter_.column_step + line);
      map_vectors<FilterMap<F>>(to + c * width, step, from, filter_.column_step, width);
    }
    return;
  }
  const Scratch<T> taps(kTaps * kTaps * size);
  for (int i = 0; i < kTaps; ++i)
    for (int j = 0; j < kTaps; ++j) {
      T* const tap = taps.data() + (kTaps * i + j) * size;
      const T* const from = filter_.data + panel * panel_ * filter_.out_step +
                            channel * filter_.in_step + i * filter_.row_step +
                            j * filter_.column_step;
      if (used == width)
        copy_matrix(tap, width, from, filter_.in_step, filter_.out_step, count, width);
      else
        copy_matrix_padded(tap, width, from, filter_.in_step, filter_.out_step, count, used);
    }
  map_vectors<FilterMap<F>>(to, step, taps.data(), size, size);
}

/// Results of `tiles` and `count` output channels from `column` on, from rows of products `row`
/// apart.
template <class T, class F>
void Correlation<T, F>::map_output(const T* from, std::int64_t step, std::int64_t row,
                                   std::int64_t column, std::int64_t count, Tiles tiles) const {
  const T* bias = bias_ ? bias_.data() + column : nullptr;
  Scratch<T> copied;
  for_each_part(tiles, [&](const Part& part) {
    Images<T> out = out_;
    out.data += column * out.channel_step;
    out.channels = count;
    const std::int64_t y = part.row * kResults, x = part.column * kResults;
    const std::int64_t height = std::min(part.rows * kResults, out.height - y);
    const std::int64_t width = std::min(part.columns * kResults, out.width - x);
    T* corner = out.data + part.image * out.image_step + y * out.row_step + x * out.pixel_step;
    std::int64_t row_step = out.row_step, pixel_step = out.pixel_step;
    if (out.channel_step != 1) {
      if (!copied)
        copied = Scratch<T>(std::min(out.height, tiles.count / across_ * kResults + kResults) *
                            std::min(out.width, tiles.count * kResults) * count);
      pixel_step = count;
      row_step = width * count;
    }
    T* const to = copied ? copied.data() : corner;
    const T* products = from + part.before * row;
    for (std::int64_t r = 0; r < part.rows; ++r)
      for (std::int64_t c = 0; c < part.columns; ++c, products += row) {
        const auto tile = tile_at<T>(to, row_step, pixel_step, r * kResults, c * kResults, height,
                                     width, kResults);
        if (relu_)
          map_products<F, true>(tile, products, step, bias, count);
        else
          map_products<F, false>(tile, products, step, bias, count);
      }
    if (copied) {
      out.data = corner - part.image * out.image_step - y * out.row_step;
      out.width = width;
      scatter(out, part.image, y, height, to, row_step, pixel_step);
    }
  });
}

/// c (+)= a b for one point: `rows` tiles by one panel. `next_a`, where it is given, is the operand
/// of the call after this one, and as `a` not in a near cache.
template <class T, class F>
void Correlation<T, F>::multiply(T* c, std::int64_t c_step, const T* a, const T* b,
                                 std::int64_t panel, std::int64_t rows, std::int64_t depth,
                                 bool accumulate, const T* next_a) const {
  const std::int64_t width = this->width(panel);
  const int vectors = static_cast<int>(width / kLanes<T>);
  const std::int64_t most = even_share(rows, max_rows(vectors));
  const std::int64_t share = even_share(depth, kSum);
  Micro<T> m{.a_step = row_, .b_step = width, .c_step = c_step, .columns = width};
  for (std::int64_t r = 0; r < rows; r += most) {
    m.c = c + r * c_step;
    for (std::int64_t k = 0; k < depth; k += share) {
      m.a = a + r * row_ + k;
      m.b = b + k * width;
      m.run = std::min(share, depth - k);
      m.accumulate = accumulate || k > 0;
      if (next_a)
        m.next_a = k + share < depth ? m.a + share
                   : r + most < rows ? a + (r + most) * row_
                                     : next_a;
      run_micro(m, static_cast<int>(std::min(most, rows - r)), vectors, Rows::apart);
    }
  }
}

/// Tiles whose transforms and products with `group` output channels the second cache holds.
template <class T, class F>
std::int64_t Correlation<T, F>::block_tiles(std::int64_t group) const {
  const std::int64_t rows = max_rows(static_cast<int>(panel_ / kLanes<T>));
  const std::int64_t bytes = F::kPoints * (row_ + group) * kSize;
  const std::int64_t most = std::min(kBlockBytes / bytes, tiles_ / kTasks) / rows * rows;
  return even_share(tiles_, std::max(rows, most));
}

/// Small filters and many tiles: the filter is transformed once, then each task takes a block of
/// tiles through all stages.
template <class T, class F>
void Correlation<T, F>::run_by_tiles() const {
  const std::int64_t group = panel_ * std::clamp<std::int64_t>(kGroup / panel_, 1, panels_);
  const std::int64_t tiles = block_tiles(group), channels = in_.channels;
  const std::int64_t in_step = point_step(tiles * row_), out_step = point_step(tiles * group),
                     filter_step = point_step(channels * columns_);
  const Scratch<T> filter(F::kPoints * filter_step);
  const auto filter_at = [&](std::int64_t panel, std::int64_t channel) {
    return filter.data() + panel * panel_ * channels + channel * width(panel);
  };
  const std::int64_t parts = (channels + depth_ - 1) / depth_;
  parallel_for(panels_ * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t panel = task / parts, channel = task % parts * depth_;
      map_filter(filter_at(panel, channel), filter_step, panel, channel,
                 std::min(depth_, channels - channel));
    }
  });
  parallel_for(tiles_, tiles, [&](std::int64_t begin, std::int64_t end) {
    const Tiles block{begin, end - begin};
    const Scratch<T> in(F::kPoints * in_step), out(F::kPoints * out_step);
    map_input(in.data(), in_step, block);
    for (std::int64_t column = 0; column < columns_; column += group) {
      const std::int64_t first = column / panel_;
      const std::int64_t last = std::min(panels_, first + group / panel_);
      for (std::int64_t p = 0; p < F::kPoints; ++p)
        for (std::int64_t panel = first; panel < last; ++panel)
          for (std::int64_t c = 0; c < channels; c += depth_)
            multiply(out.data() + p * out_step + (panel - first) * panel_, group,
                     in.data() + p * in_step + c, filter_at(panel, c) + p * filter_step, panel,
                     block.count, std::min(depth_, channels - c), c > 0);
      map_output(out.data(), out_step, group, column, std::min(group, out_.channels - column),
                 block);
    }
  });
}

/// Large filters: each task takes a panel of output channels, transforms a part of its filter and
/// uses it at once for all tiles. The transformed filter as a whole never exists.
template <class T, class F>
void Correlation<T, F>::run_by_channels() const {
  const std::int64_t channels = in_.channels, tiles = even_share(tiles_, kManyTiles);
  const std::int64_t in_step = point_step(tiles * row_), out_step = point_step(tiles * panel_);
  const Scratch<T> in(F::kPoints * in_step);
  const std::int64_t filter_step = point_step(depth_ * panel_);
  for (std::int64_t first = 0; first < tiles_; first += tiles) {
    const Tiles block{first, std::min(tiles, tiles_ - first)};
    parallel_for(block.count, 4, [&](std::int64_t begin, std::int64_t end) {
      map_input(in.data() + begin * row_, in_step, {block.first + begin, end - begin});
    });
    parallel_for(panels_, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<T> filter(F::kPoints * filter_step), out(F::kPoints * out_step);
      for (std::int64_t panel = begin; panel < end; ++panel) {
        for (std::int64_t c = 0; c < channels; c += depth_) {
          const std::int64_t depth = std::min(depth_, channels - c);
          map_filter(filter.data(), filter_step, panel, c, depth);
          for (std::int64_t p = 0; p < F::kPoints; ++p) {
            const T* const a = in.data() + p * in_step + c;
            multiply(out.data() + p * out_step, panel_, a, filter.data() + p * filter_step, panel,
                     block.count, depth, c > 0, p + 1 < F::kPoints ? a + in_step : a);
          }
        }
        map_output(out.data(), out_step, panel_, panel * panel_,
                   std::min(panel_, out_.channels - panel * panel_), block);
      }
    });
  }
}

template <class T>
void correlate(const Problem<T>& problem, int results, int taps) {
  with_form(results, taps, [&](auto form) { Correlation<T, decltype(form)>(problem).run(); });
}

}  // namespace ferrite::kernels::cpu::winograd
