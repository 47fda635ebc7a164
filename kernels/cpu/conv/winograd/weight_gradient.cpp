#include "ferrite/kernels/cpu/conv/winograd/weight_gradient.h"

#include "ferrite/kernels/cpu/conv/weight_sums.h"
#include "ferrite/kernels/cpu/conv/winograd/transform.h"
#include "ferrite/kernels/cpu/conv/winograd/winograd.h"

namespace ferrite::kernels::cpu::winograd {

namespace {

constexpr int kTaps = 9;
constexpr std::int64_t kBlock = 64;              // channels whose sums a task makes
constexpr std::int64_t kBlockTiles = 49;         // transformed, then multiplied
constexpr std::int64_t kTasks = 16;              // wanted
constexpr std::int64_t kChunkTiles = 64;         // at least
constexpr std::int64_t kPartialBytes = 8 << 20;  // of sums that wait to be added up
constexpr std::int64_t kCall = 20000;            // cycles for what is once a call

/// How the work is cut, by the sizes alone.
struct Cut {
  std::int64_t rows, columns, tiles;   // tiles of an image down and across; of all images
  std::int64_t out_block, out_blocks;  // output channels
  std::int64_t in_block, in_blocks;    // input channels, in whole vectors
  std::int64_t chunk, chunks;          // of tiles

  /// For tiles of `side` x `side` results.
  template <class S>
  Cut(const Images<const S>& in, const Images<const S>& grad, std::int64_t side)
      : rows((grad.height + side - 1) / side),
        columns((grad.width + side - 1) / side),
        tiles(grad.count * rows * columns),
        out_block(even_share(grad.channels, kBlock)),
        out_blocks((grad.channels + out_block - 1) / out_block),
        in_block(whole_vectors<S>(even_share(in.channels, kBlock))),
        in_blocks((in.channels + in_block - 1) / in_block) {
    const std::int64_t bytes = kTaps * grad.channels * whole_vectors<S>(in.channels) *
                               static_cast<std::int64_t>(sizeof(S));
    const std::int64_t blocks = out_blocks * in_blocks;
    const std::int64_t wanted =
        std::min({(kTasks + blocks - 1) / blocks, tiles / kChunkTiles, kPartialBytes / bytes});
    chunk = even_share(
        tiles, (tiles + std::max<std::int64_t>(1, wanted) - 1) / std::max<std::int64_t>(1, wanted));
    chunks = (tiles - 1) / chunk + 1;
  }
};

template <class T, int M>
class Gradient {
 public:
  Gradient(const Images<const T>& in, const Images<const T>& grad, const ConvParams& params, T* out,
           const std::int64_t* strides, T* bias, std::int64_t bias_step)
      : in_(in),
        grad_(grad),
        top_(-params.padding[0]),
        left_(-params.padding[1]),
        out_(out),
        strides_(strides),
        bias_(bias),
        bias_step_(bias_step),
        cut_(in, grad, M),
        row_(kTaps * whole_vectors<T>(in.channels)) {
    in_copy_ = by_pixels(in_);
    grad_copy_ = by_pixels(grad_);
  }

  void run() {
    const std::int64_t blocks = cut_.out_blocks * cut_.in_blocks;
    if (cut_.chunks > 1) sums_ = Scratch<T>(cut_.chunks * grad_.channels * row_);
    if (bias_) bias_sums_ = Scratch<T>(cut_.chunks * grad_.channels);
    parallel_for(blocks * cut_.chunks, 1, [&](std::int64_t task, std::int64_t) {
      run_task(task / blocks, task % blocks / cut_.in_blocks, task % cut_.in_blocks);
    });
    if (cut_.chunks > 1) add_up();
    if (bias_)
      write_bias(bias_, bias_step_, grad_.channels, bias_sums_.data(), cut_.chunks, grad_.channels);
  }

 private:
  /// The channels [first, first + count) of a task, and how far apart their transforms lie.
  struct Block {
    std::int64_t first, count, width, step;

    Block(std::int64_t number, std::int64_t size, std::int64_t channels, std::int64_t rows)
        : first(number * size),
          count(std::min(size, channels - first)),
          width(whole_vectors<T>(count)),
          // No power of two, at which points would fall into few sets of a cache.
          step(rows * width + kLanes<T>) {}
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
    const std::int64_t x = number % cut_.columns * M, y = number / cut_.columns % cut_.rows * M;
    const std::int64_t image = number / cut_.columns / cut_.rows;
    return tile_at(grad_.data + image * grad_.image_step + outs.first, grad_.row_step,
                   grad_.pixel_step, y, x, grad_.height, grad_.width, M);
  }
  TilePixels<const T> inputs(std::int64_t number, const Block& ins) const {
    const std::int64_t x = number % cut_.columns * M, y = number / cut_.columns % cut_.rows * M;
    const std::int64_t image = number / cut_.columns / cut_.rows;
    return tile_at(in_.data + image * in_.image_step + ins.first, in_.row_step, in_.pixel_step,
                   y + top_, x + left_, in_.height, in_.width, kSide<M>);
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
      if (tile + 1 < end) prefetch(inputs(tile + 1, ins), kSide<M> - M, ins.count);
      map_pixels<InputMap<M>>(v, ins.step, inputs(tile, ins), ins.count);
    }
    for (std::int64_t tile = begin; tile < end; ++tile, q += outs.width) {
      if (tile + 1 < end) prefetch(gradients(tile + 1, outs), 0, outs.count);
      map_pixels<GradientMap<M>>(q, outs.step, gradients(tile, outs), outs.count);
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

  /// dU of all points, [output channels, input channels] each, from `tiles` tiles.
  void multiply(std::int64_t tiles, const Block& ins, const T* v, const Block& outs, const T* q,
                T* u, std::int64_t u_step, bool accumulate) const {
    const std::int64_t vectors = std::min<std::int64_t>(2, ins.width / kLanes<T>);
    const std::int64_t panel = vectors * kLanes<T>;
    const std::int64_t tile = even_share(outs.count, max_rows(static_cast<int>(vectors)));
    Micro<T> m{.a_step = outs.width,
               .b_step = ins.width,
               .run = tiles,
               .c_step = ins.width,
               .accumulate = accumulate};
    for (int p = 0; p < kPoints<M>; ++p)
      for (std::int64_t c = 0; c < ins.width; c += panel) {
        m.b = v + p * ins.step + c;
        m.columns = std::min(panel, ins.width - c);
        for (std::int64_t o = 0; o < outs.count; o += tile) {
          m.a = q + p * outs.step + o;
          m.c = u + p * u_step + o * ins.width + c;
          run_micro(m, static_cast<int>(std::min(tile, outs.count - o)),
                    static_cast<int>(m.columns / kLanes<T>), Rows::adjacent);
        }
      }
  }

  void run_task(std::int64_t chunk, std::int64_t out_block, std::int64_t in_block) {
    const std::int64_t begin = chunk * cut_.chunk, end = std::min(cut_.tiles, begin + cut_.chunk);
    const std::int64_t share = even_share(end - begin, kBlockTiles);
    const Block ins(in_block, cut_.in_block, in_.channels, share);
    const Block outs(out_block, cut_.out_block, grad_.channels, share);
    const std::int64_t u_step = outs.count * ins.width + kLanes<T>;
    const Scratch<T> v(kPoints<M> * ins.step), q(kPoints<M> * outs.step), u(kPoints<M> * u_step);
    T* const bias =
        bias_ && in_block == 0 ? bias_sums_.data() + chunk * grad_.channels + outs.first : nullptr;
    if (bias) std::fill_n(bias, outs.count, T(0));
    for (std::int64_t at = begin; at < end; at += share) {
      const std::int64_t tiles = std::min(share, end - at);
      transform(at, at + tiles, ins, v.data(), outs, q.data(), bias);
      multiply(tiles, ins, v.data(), outs, q.data(), u.data(), u_step, at > begin);
    }
    put(chunk, ins, outs, u.data(), u_step);
  }

  /// dW of a task's dU, to its place among the results or the sums.
  void put(std::int64_t chunk, const Block& ins, const Block& outs, const T* u,
           std::int64_t u_step) const {
    const bool whole = ins.count == ins.width && strides_[1] == 1 && strides_[2] == 3 * strides_[3];
    const Scratch<T> row(kTaps * ins.width);
    for (std::int64_t o = 0; o < outs.count; ++o, u += ins.width) {
      T* to = row.data();
      std::int64_t step = ins.width;
      if (cut_.chunks > 1) {
        to = sums_.data() + (chunk * grad_.channels + outs.first + o) * row_ + ins.first;
        step = row_ / kTaps;
      } else if (whole) {
        to = out_ + (outs.first + o) * strides_[0] + ins.first;
        step = strides_[3];
      }
      map_vectors<FilterGradientMap<M>>(to, step, u, u_step, ins.width);
      if (to == row.data()) write(outs.first + o, ins.first, ins.count, to, step);
    }
  }

  /// The sums of all chunks.
  void add_up() const {
    parallel_for(grad_.channels, std::max<std::int64_t>(1, 32768 / row_ / cut_.chunks),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t k = 1; k < cut_.chunks; ++k)
                     add_run(sums_.data() + begin * row_,
                             sums_.data() + (k * grad_.channels + begin) * row_,
                             (end - begin) * row_);
                   for (std::int64_t o = begin; o < end; ++o)
                     write(o, 0, in_.channels, sums_.data() + o * row_, row_ / kTaps);
                 });
  }

  /// Weights of input channels [first, first + count), taps `step` apart in `from`.
  void write(std::int64_t out, std::int64_t first, std::int64_t count, const T* from,
             std::int64_t step) const {
    T* to = out_ + out * strides_[0] + first * strides_[1];
    if (strides_[1] == kTaps && strides_[2] == 3 && strides_[3] == 1)
      return copy_matrix(to, kTaps, from, 1, step, count, kTaps);
    for (int tap = 0; tap < kTaps; ++tap, from += step) {
      T* at = to + tap / 3 * strides_[2] + tap % 3 * strides_[3];
      if (strides_[1] == 1)
        copy_run(at, from, count);
      else
        for (std::int64_t c = 0; c < count; ++c) at[c * strides_[1]] = from[c];
    }
  }

  Images<const T> in_, grad_;
  std::int64_t top_, left_;
  T* out_;
  const std::int64_t* strides_;
  T* bias_;
  std::int64_t bias_step_;
  Cut cut_;
  std::int64_t row_;  // sums of an output channel: [taps, input channels in whole vectors]
  Scratch<T> in_copy_, grad_copy_;
  Scratch<T> sums_;       // [chunks, output channels, row_] where there are several
  Scratch<T> bias_sums_;  // [chunks, output channels]
};

}  // namespace

template <class S>
std::int64_t weight_gradient_cost(const Images<const S>& in, const Images<const S>& grad,
                                  int side) {
  const Cut cut(in, grad, side);
  const std::int64_t ins = (in.channels + kLanes<S> - 1) / kLanes<S>;
  const std::int64_t outs = (grad.channels + kLanes<S> - 1) / kLanes<S>;
  const std::int64_t points = (side + 2) * (side + 2);
  const std::int64_t products = cut.tiles * points * grad.channels * ins;
  // Each block of channels transforms its tiles anew.
  const std::int64_t transforms =
      cut.tiles * (points * (6 * ins * cut.out_blocks + 4 * outs * cut.in_blocks) + 60);
  const std::int64_t sums = cut.chunks * grad.channels * ins * points * 4;
  return products + transforms + sums + kCall;
}

template <class S>
void weight_gradient(int side, const Images<const S>& in, const Images<const S>& grad,
                     const ConvParams& params, S* out, const std::int64_t* strides, S* bias,
                     std::int64_t bias_step) {
  if (side == 4)
    Gradient<S, 4>(in, grad, params, out, strides, bias, bias_step).run();
  else
    Gradient<S, 2>(in, grad, params, out, strides, bias, bias_step).run();
}

#define FERRITE_INSTANTIATE(S)                                                                     \
  template std::int64_t weight_gradient_cost(const Images<const S>&, const Images<const S>&, int); \
  template void weight_gradient(int, const Images<const S>&, const Images<const S>&,               \
                                const ConvParams&, S*, const std::int64_t*, S*, std::int64_t);
FERRITE_INSTANTIATE(float)
FERRITE_INSTANTIATE(double)
#undef FERRITE_INSTANTIATE

}  // namespace ferrite::kernels::cpu::winograd
