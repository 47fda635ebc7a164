#include "kernels/cpu/copy.h"

#include <cstring>

#include "kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Elements by size alone: copies within a dtype need no arithmetic.
template <class Word>
void copy_words(const View& out, const View& in) {
  map<Word, Word>(out, in, [](Word w) { return w; });
}

/// Side of the squares that a transpose is cut into, so that both sides use whole cache lines.
constexpr std::int64_t kTile = 16;

/// At most kTile rows of a 2-dimensional transpose (NCHW to NHWC and the like).
template <class Word>
void copy_transposed(Word* out, const Word* in, std::int64_t rows, std::int64_t cols,
                     std::int64_t out_stride, std::int64_t in_stride) {
  for (std::int64_t c = 0; c < cols; c += kTile)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = c; j < std::min(c + kTile, cols); ++j)
        out[i * out_stride + j] = in[j * in_stride + i];
}

/// Whether the call was a batch of transposes, which it then did.
template <class Word>
bool try_transposed(const View& out, const View& in) {
  const LoopNest<2> nest({&out, &in});
  const int d = nest.ndim;
  if (d < 2 || d > 3) return false;
  const auto& inner = nest.strides[d - 1];
  const auto& outer = nest.strides[d - 2];
  if (inner[0] != 1 || outer[1] != 1 || inner[1] == 1) return false;
  const std::int64_t rows = nest.sizes[d - 2], cols = nest.sizes[d - 1];
  const std::int64_t batches = d == 3 ? nest.sizes[0] : 1;
  Word* o = out.as<Word>();
  const Word* x = in.as<Word>();
  // A unit of work is a band of rows, as high as a tile, of one transpose.
  const std::int64_t bands = (rows + kTile - 1) / kTile;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (kTile * cols));
  parallel_for(batches * bands, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t batch = unit / bands, row = unit % bands * kTile;
      const std::int64_t to = row * outer[0] + (d == 3 ? batch * nest.strides[0][0] : 0);
      const std::int64_t from = row + (d == 3 ? batch * nest.strides[0][1] : 0);
      copy_transposed(o + to, x + from, std::min(kTile, rows - row), cols, outer[0], inner[1]);
    }
  });
  return true;
}

template <class Word>
void copy_same(const View& out, const View& in) {
  if (out.is_contiguous() && in.is_contiguous()) {
    parallel_for(out.numel, 4 * kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(out.as<Word>() + begin, in.as<Word>() + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(Word));
    });
    return;
  }
  if (!try_transposed<Word>(out, in)) copy_words<Word>(out, in);
}

bool is_same(const View& out, const View& in) {
  if (out.data != in.data || out.dtype != in.dtype) return false;
  for (int d = 0; d < out.ndim; ++d)
    if (out.sizes[d] != 1 && out.strides[d] != in.strides[d]) return false;
  return true;
}

}  // namespace

void copy(const View& out, const View& in) {
  if (out.numel == 0 || is_same(out, in)) return;
  if (out.dtype == in.dtype) {
    switch (itemsize(out.dtype)) {
      case 1:
        return copy_same<std::uint8_t>(out, in);
      case 2:
        return copy_same<std::uint16_t>(out, in);
      case 4:
        return copy_same<std::uint32_t>(out, in);
      default:
        return copy_same<std::uint64_t>(out, in);
    }
  }
  dispatch_all(in.dtype, "copy", [&]<class A>() {
    dispatch_all(out.dtype, "copy", [&]<class Out>() {
      map<Out, A>(out, in, [](Compute<A> x) {
        if constexpr (std::is_same_v<Out, bool>)
          return x != Compute<A>(0);
        else if constexpr (is_half_type<Out>)
          return static_cast<float>(x);
        // Through int64 as PyTorch does: a negative float is defined as uint8 only that way.
        else if constexpr (std::is_floating_point_v<Compute<A>> && std::is_integral_v<Out>)
          return static_cast<Out>(static_cast<std::int64_t>(x));
        else
          return static_cast<Out>(x);
      });
    });
  });
}

void fill(const View& out, Scalar value) {
  if (out.numel == 0) return;
  dispatch_all(out.dtype, "fill", [&]<class T>() {
    const T v = value.to<T>();
    T* o = out.as<T>();
    for_each_run<1>({&out}, [=](const auto& at, const auto& step, std::int64_t n) {
      if (step[0] == 1)
        std::fill_n(o + at[0], n, v);
      else
        for (std::int64_t i = 0; i < n; ++i) o[at[0] + i * step[0]] = v;
    });
  });
}

}  // namespace ferrite::kernels::cpu
