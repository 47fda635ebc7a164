#include "ferrite/kernels/cpu/conv/winograd/weight_gradient.h"

#include "ferrite/kernels/cpu/conv/weight_sums.h"
#include "ferrite/kernels/cpu/conv/winograd/transform.h"
#include "ferrite/kernels/cpu/conv/winograd/winograd.h"

namespace ferrite::kernels::cpu::winograd {

namespace {

constexpr std::int64_t kBlock = 64;              // channels whose sums a task makes
constexpr std::int64_t kBlockTiles = 49;         // transformed, then multiplied
constexpr std::int64_t kTasks = 16;              // wanted
constexpr std::int64_t kChunkTiles = 64;         // at least
constexpr std::int64_t kPartialBytes = 8 << 20;  // of sums that wait to be added up
constexpr std::int64_t kCall = 20000;            // cycles for what is once a call

/// How the work is cut, by the sizes alone. The channels of one operand are the lanes of vectors of
/// sums, those of the other one their rows: whichever way fills more lanes.
struct Cut {
  std::int64_t down, across, tiles;  // tiles of an image; of all images
  bool outs_are_lanes;
  struct Channels {
    std::int64_t count, block, blocks;
  } lanes, rows;               // blocks of lanes are whole vectors
  std::int64_t chunk, chunks;  // of tiles

  /// For tiles of `results` x `results` results of `taps` x `taps` taps.
  template <class S>
  Cut(const Images<const S>& in, const Images<const S>& grad, std::int64_t results,
      std::int64_t taps)
      : down((grad.height + results - 1) / results),
        across((grad.width + results - 1) / results),
        tiles(grad.count * down * across),
        outs_are_lanes(in.channels * whole_vectors<S>(grad.channels) <
                       grad.channels * whole_vectors<S>(in.channels)) {
    lanes.count = outs_are_lanes ? grad.channels : in.channels;
    rows.count = outs_are_lanes ? in.channels : grad.channels;
    lanes.block = whole_vectors<S>(even_share(lanes.count, kBlock));
    rows.block = even_share(rows.count, kBlock);
    for (Channels* c : {&lanes, &rows}) c->blocks = (c->count + c->block - 1) / c->block;
    const std::int64_t bytes = taps * taps * rows.count * whole_vectors<S>(lanes.count) *
                               static_cast<std::int64_t>(sizeof(S));
    const std::int64_t blocks = lanes.blocks * rows.blocks;
    const std::int64_t wanted =
        std::min({(kTasks + blocks - 1) / blocks, tiles / kChunkTiles, kPartialBytes / bytes});
    chunk = even_share(
        tiles, (tiles + std::max<std::int64_t>(1, wanted) - 1) / std::max<std::int64_t>(1, wanted));
    chunks = (tiles - 1) / chunk + 1;
  }
  const Channels& outs() const { return outs_are_lanes ? lanes : rows; }
  const Channels& ins() const { return outs_are_lanes ? rows : lanes; }
};

template <class T, class F>
class Gradient {
 public:
  Gradient(const Images<const T>& in, const Images<const T>& grad, const ConvParams& params, T* out,
           const std::int64_t* strides, T* bias, std::int64_t bias_step)
      : cut_(in, grad, kResults, F::kTaps),
        in_(in),
        grad_(grad),
        top_(-params.padding[0]),
        left_(-params.padding[1]),
        out_(out),
        row_stride_(strides[cut_.outs_are_lanes ? 1 : 0]),
        lane_stride_(strides[cut_.outs_are_lanes ? 0 : 1]),
        down_stride_(strides[2]),
        across_stride_(strides[3]),
        bias_(bias),
        bias_step_(bias_step),
        row_(kTaps * whole_vectors<T>(cut_.lanes.count)) {
    in_copy_ = by_pixels(in_);
    grad_copy_ = by_pixels(grad_);
  }

  void run() {
    const std::int64_t blocks = cut_.rows.blocks * cut_.lanes.blocks;
    if (cut_.chunks > 1) sums_ = Scratch<T>(cut_.chunks * cut_.rows.count * row_);
    if (bias_) bias_sums_ = Scratch<T>(cut_.chunks * grad_.channels);
    parallel_for(blocks * cut_.chunks, 1, [&](std::int64_t task, std::int64_t) {
      run_task(task / blocks, task % blocks / cut_.lanes.blocks, task % cut_.lanes.blocks);
    });
    if (cut_.chunks > 1) add_up();
    if (bias_)
      write_bias(bias_, bias_step_, grad_.channels, bias_sums_.data(), cut_.chunks, grad_.channels);
  }

 private:
  static constexpr std::int64_t kResults = F::kResults, kSide = F::kTaps, kTaps = kSide * kSide;

  /// The channels [first, first + count) of a task, and how far apart their transforms lie.
  struct Block {
    std::int64_t first, count, width, step;

    Block(std::int64_t number, const Cut::Channels& channels, std::int64_t tiles)
        : first(number * channels.block),
          count(std::min(channels.block, channels.count - first)),
          width(whole_vectors<T>(count)),
          // No power of two, at which points would fall into few sets of a cache.
          step(tiles * width + kLanes<T>) {}
  };

  /// Images whose channels do not lie side by side are copied so.
  static Scratch<T> by_pixels(Images<const T>& images) {
    if (images.channel_step == 1) return {};
    const std::int64_t size = images.height * images.width * images.channels;
    const Window all{0, 0, images.height, images.width};
    Scratch<T> copy(images.count * size);
    parallel_for(images.count, 1, [&](std::int64_t image, std::int64_t) {
      gather(copy.data() + image * size, images.channels, images, image, all);
    });
    images.data = copy.data();
    images.image_step = size;
    images.channel_step = 1;
    images.row_step = images.width * images.channels;
    images.pixel_step = images.channels;
    return copy;
  }

  /// Tile `number` of all, and the one of inputs that belongs to it.
  TilePixels<const T> gradients(std::int64_t number, const Block& outs) const {
    const std::int64_t x = number % cut_.across * kResults,
                       y = number / cut_.across % cut_.down * kResults;
    const std::int64_t image = number / cut_.across / cut_.down;
    return tile_at(grad_.data + image * grad_.image_step + outs.first, grad_.row_step,
                   grad_.pixel_step, y, x, grad_.height, grad_.width, kResults);
  }
  TilePixels<const T> inputs(std::int64_t number, const Block& ins) const {
    const std::int64_t x = number % cut_.across * kResults,
                       y = number / cut_.across % cut_.down * kResults;
    const std::int64_t image = number / cut_.across / cut_.down;
    return tile_at(in_.data + image * in_.image_step + ins.first, in_.row_step, in_.pixel_step,
                   y + top_, x + left_, in_.height, in_.width, F::kSide);
  }

  /// Has the pixels of a tile from column `left` on brought near: the machine does not foresee
  /// which follow.
  static void prefetch(const TilePixels<const T>& tile, int left, std::int64_t channels) {
    for (int i = tile.top; i < tile.bottom; ++i)
      for (int j = std::max(left, tile.left); j < tile.right; ++j)
        for (std::int64_t c = 0; c < channels; c += 64 / static_cast<std::int64_t>(sizeof(T)))
          __builtin_prefetch(tile.at(i, j) + c);
  }

  /// V and Q of tiles [begin, end).
  void transform(std::int64_t begin, std::int64_t end, const Block& ins, T* v, const Block& outs,
                 T* q, T* bias) const {
    for (std::int64_t tile = begin; tile < end; ++tile, v += ins.width) {
      // Its first columns are the last ones of this tile.
      if (tile + 1 < end) prefetch(inputs(tile + 1, ins), F::kSide - kResults, ins.count);
      map_pixels<InputMap<F>>(v, ins.step, inputs(tile, ins), ins.count);
    }
    for (std::int64_t tile = begin; tile < end; ++tile, q += outs.width) {
      if (tile + 1 < end) prefetch(gradients(tile + 1, outs), 0, outs.count);
      map_pixels<GradientMap<F>>(q, outs.step, gradients(tile, outs), outs.count);
      if (bias) add_pixels(bias, gradients(tile, outs), outs.count);
    }
  }

  static void add_pixels(T* sums, const TilePixels<const T>& tile, std::int64_t channels) {
    for (std::int64_t c = 0; c < channels; c += kLanes<T>) {
      const std::int64_t count = std::min<std::int64_t>(kLanes<T>, channels - c);
      Vector<T> sum{};
      for (int i = tile.top; i < tile.bottom; ++i)
        for (int j = tile.left; j < tile.right; ++j) sum += load_partial(tile.at(i, j) + c, count);
      store_partial(sums + c, load_partial(sums + c, count) + sum, count);
    }
  }

  /// dU of all points, [rows, lanes] each, from the transforms of `tiles` tiles.
  void multiply(std::int64_t tiles, const Block& rows, const T* a, const Block& lanes, const T* b,
                T* u, std::int64_t u_step, bool accumulate) const {
    const std::int64_t vectors = std::min<std::int64_t>(2, lanes.width / kLanes<T>);
    const std::int64_t panel = vectors * kLanes<T>;
    const std::int64_t tile = even_share(rows.count, max_rows(static_cast<int>(vectors)));
    Micro<T> m{.a_step = rows.width,
               .b_step = lanes.width,
               .run = tiles,
               .c_step = lanes.width,
               .accumulate = accumulate};
    for (int p = 0; p < F::kPoints; ++p)
      for (std::int64_t c = 0; c < lanes.width; c += panel) {
        m.b = b + p * lanes.step + c;
        m.columns = std::min(panel, lanes.width - c);
        for (std::int64_t r = 0; r < rows.count; r += tile) {
          m.a = a + p * rows.step + r;
          m.c = u + p * u_step + r * lanes.width + c;
          run_micro(m, static_cast<int>(std::min(tile, rows.count - r)),
                    static_cast<int>(m.columns / kLanes<T>), Rows::adjacent);
        }
      }
  }

  void run_task(std::int64_t chunk, std::int64_t row_block, std::int64_t lane_block) {
    const std::int64_t begin = chunk * cut_.chunk, end = std::min(cut_.tiles, begin + cut_.chunk);
    const std::int64_t share = even_share(end - begin, kBlockTiles);
    const Block rows(row_block, cut_.rows, share), lanes(lane_block, cut_.lanes, share);
    const Block &ins = cut_.outs_are_lanes ? rows : lanes,
                &outs = cut_.outs_are_lanes ? lanes : rows;
    const std::int64_t u_step = rows.count * lanes.width + kLanes<T>;
    const Scratch<T> v(F::kPoints * ins.step), q(F::kPoints * outs.step), u(F::kPoints * u_step);
    const bool first = (cut_.outs_are_lanes ? row_block : lane_block) == 0;
    T* const bias =
        bias_ && first ? bias_sums_.data() + chunk * grad_.channels + outs.first : nullptr;
    if (bias) std::fill_n(bias, outs.count, T(0));
    for (std::int64_t at = begin; at < end; at += share) {
      const std::int64_t tiles = std::min(share, end - at);
      transform(at, at + tiles, ins, v.data(), outs, q.data(), bias);
      multiply(tiles, rows, cut_.outs_are_lanes ? v.data() : q.data(), lanes,
               cut_.outs_are_lanes ? q.data() : v.data(), u.data(), u_step, at > begin);
    }
    put(chunk, rows, lanes, u.data(), u_step);
  }

  /// dW of a task's dU, to its place among the results or the sums.
  void put(std::int64_t chunk, const Block& rows, const Block& lanes, const T* u,
           std::int64_t u_step) const {
    const bool whole =
        lanes.count == lanes.width && lane_stride_ == 1 && down_stride_ == kSide * across_stride_;
    const Scratch<T> row(kTaps * lanes.width);
    for (std::int64_t r = 0; r < rows.count; ++r, u += lanes.width) {
      T* to = row.data();
      std::int64_t step = lanes.width;
      if (cut_.chunks > 1) {
        to = sums_.data() + (chunk * cut_.rows.count + rows.first + r) * row_ + lanes.first;
        step = row_ / kTaps;
      } else if (whole) {
        to = out_ + (rows.first + r) * row_stride_ + lanes.first;
        step = across_stride_;
      }
      map_vectors<FilterGradientMap<F>>(to, step, u, u_step, lanes.width);
      if (to == row.data()) write(rows.first + r, lanes.first, lanes.count, to, step);
    }
  }

  /// The sums of all chunks.
  void add_up() const {
    parallel_for(cut_.rows.count, std::max<std::int64_t>(1, 32768 / row_ / cut_.chunks),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t k = 1; k < cut_.chunks; ++k)
                     add_run(sums_.data() + begin * row_,
                             sums_.data() + (k * cut_.rows.count + begin) * row_,
                             (end - begin) * row_);
                   for (std::int64_t r = begin; r < end; ++r)
                     write(r, 0, cut_.lanes.count, sums_.data() + r * row_, row_ / kTaps);
                 });
  }

  /// Weights of `count` lanes from `first` on, taps `step` apart in `from`.
  void write(std::int64_t row, std::int64_t first, std::int64_t count, const T* from,
             std::int64_t step) const {
    T* to = out_ + row * row_stride_ + first * lane_stride_;
    if (lane_stride_ == kTaps && down_stride_ == kSide && across_stride_ == 1)
      return copy_matrix(to, kTaps, from, 1, step, count, kTaps);
    for (int tap = 0; tap < kTaps; ++tap, from += step) {
      T* at = to + tap / kSide * down_stride_ + tap % kSide * across_stride_;
      if (lane_stride_ == 1)
        copy_run(at, from, count);
      else
        for (std::int64_t c = 0; c < count; ++c) at[c * lane_stride_] = from[c];
    }
  }

  Cut cut_;
  Images<const T> in_, grad_;
  std::int64_t top_, left_;
  T* out_;
  std::int64_t row_stride_, lane_stride_, down_stride_, across_stride_;
  T* bias_;
  std::int64_t bias_step_;
  std::int64_t row_;  // sums of a row: [taps, lanes in whole vectors]
  Scratch<T> in_copy_, grad_copy_;
  Scratch<T> sums_;       // [chunks, rows, row_] where there are several
  Scratch<T> bias_sums_;  // [chunks, output channels]
};

}  // namespace

template <class S>
std::int64_t weight_gradient_cost(const Images<const S>& in, const Images<const S>& grad,
                                  int results, int taps) {
  const Cut cut(in, grad, results, taps);
  const std::int64_t ins = (in.channels + kLanes<S> - 1) / kLanes<S>;
  const std::int64_t outs = (grad.channels + kLanes<S> - 1) / kLanes<S>;
  const std::int64_t points = (results + taps - 1) * (results + taps - 1);
  const std::int64_t sums_of_point = cut.outs_are_lanes ? in.channels * outs : grad.channels * ins;
  const std::int64_t products = cut.tiles * points * sums_of_point;
  // Each block of channels transforms its tiles anew.
  const std::int64_t transforms =
      cut.tiles * (points * (6 * ins * cut.outs().blocks + 4 * outs * cut.ins().blocks) + 60);
  const std::int64_t sums = cut.chunks * sums_of_point * points * 4;
  return products + transforms + sums + kCall;
}

template <class S>
void weight_gradient(int results, int taps, const Images<const S>& in, const Images<const S>& grad,
                     const ConvParams& params, S* out, const std::int64_t* strides, S* bias,
                     std::int64_t bias_step) {
  with_form(results, taps, [&](auto form) {
    Gradient<S, decltype(form)>(in, grad, params, out, strides, bias, bias_step).run();
  });
}

#define FERRITE_INSTANTIATE(S)                                                                    \
  template std::int64_t weight_gradient_cost(const Images<const S>&, const Images<const S>&, int, \
                                             int);                                                \
  template void weight_gradient(int, int, const Images<const S>&, const Images<const S>&,         \
                                const ConvParams&, S*, const std::int64_t*, S*, std::int64_t);
FERRITE_INSTANTIATE(float)
FERRITE_INSTANTIATE(double)
#undef FERRITE_INSTANTIATE

}  // namespace ferrite::kernels::cpu::winograd
