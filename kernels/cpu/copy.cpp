#include "ferrite/kernels/copy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ferrite/core/truncate.h"
#include "ferrite/kernels/complex.h"
#include "ferrite/kernels/cpu/convert.h"
#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/cpu/pack.h"

namespace ferrite::kernels::cpu {

namespace {

/// Elements by size alone: copies within a dtype need no arithmetic.
template <class Word>
void copy_words(const View& out, const View& in) {
  Word* o = out.as<Word>();
  const Word* x = in.as<Word>();
  for_each_run<2>({&out, &in}, [=](const auto& at, const auto& step, std::int64_t n) {
    Word* to = o + at[0];
    const Word* from = x + at[1];
    if (step[0] == 1 && step[1] == 1) {
      std::copy_n(from, n, to);
    } else if (step[0] == 1 && step[1] == -1) {  // of flip(): a loop that GCC vectorizes
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[-i];
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i * step[0]] = from[i * step[1]];
    }
  });
}

/// Rows of a transpose that are a unit of work.
constexpr std::int64_t kTile = 16;

/// At most kTile rows of a 2-dimensional transpose (NCHW to NHWC and the like), in squares.
template <class Word>
void copy_transposed(Word* out, const Word* in, std::int64_t rows, std::int64_t cols,
                     std::int64_t out_stride, std::int64_t in_stride) {
  if constexpr (sizeof(Word) >= 4) {
    using T = std::conditional_t<sizeof(Word) == 4, float, double>;
    copy_matrix(reinterpret_cast<T*>(out), out_stride, reinterpret_cast<const T*>(in), 1, in_stride,
                rows, cols);
  } else {
    constexpr int kSide = std::min(16, kVectorBytes / static_cast<int>(sizeof(Word)));
    using V = Lanes<Word, kSide>;
    for (std::int64_t c = 0; c < cols; c += kSide)
      for (std::int64_t r = 0; r < rows; r += kSide) {
        const Word* const from = in + c * in_stride + r;
        Word* const to = out + r * out_stride + c;
        const std::int64_t height = std::min<std::int64_t>(kSide, rows - r);
        const std::int64_t width = std::min<std::int64_t>(kSide, cols - c);
        if (height == kSide && width == kSide) {
          V block[kSide];
#pragma GCC unroll 16
          for (int j = 0; j < kSide; ++j) std::memcpy(&block[j], from + j * in_stride, sizeof(V));
          transpose_lanes(block);
#pragma GCC unroll 16
          for (int i = 0; i < kSide; ++i) std::memcpy(to + i * out_stride, &block[i], sizeof(V));
        } else {
          for (std::int64_t i = 0; i < height; ++i)
            for (std::int64_t j = 0; j < width; ++j)
              to[i * out_stride + j] = from[j * in_stride + i];
        }
      }
  }
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

/// Elements that are converted at a time, so that they stay in the first-level cache.
constexpr std::int64_t kCopyBlock = 512;

/// out = in, through E, the Wide type of `in`.
template <class E>
void convert(const View& out, const View& in) {
  const RunReader<E> reader(in.data, in.dtype);
  const auto size = static_cast<std::int64_t>(itemsize(out.dtype));
  const auto in_size = static_cast<std::int64_t>(itemsize(in.dtype));
  for_each_run<2>({&out, &in}, [&](const auto& at, const auto& step, std::int64_t n) {
    char* to = out.as<char>() + at[0] * size;
    if (out.dtype == dtype_of<E> && step[0] == 1)
      return load_run(reinterpret_cast<E*>(to), in.as<char>() + at[1] * in_size, in.dtype, step[1],
                      n);
    E buffer[kCopyBlock];
    for (std::int64_t i = 0; i < n; i += kCopyBlock) {
      const std::int64_t m = std::min(kCopyBlock, n - i);
      const E* x = reader.read(at[1] + i * step[1], step[1], m, buffer);
      if constexpr (std::is_floating_point_v<E>) {
        // Through int64 as PyTorch does: a negative float is defined as uint8 only that way.
        if (!is_floating(out.dtype) && out.dtype != kBool) {
          std::int64_t whole[kCopyBlock];
          for (std::int64_t j = 0; j < m; ++j) whole[j] = truncate_to_int64(x[j]);
          store_run(to + i * step[0] * size, out.dtype, step[0], whole, m);
          continue;
        }
      }
      store_run(to + i * step[0] * size, out.dtype, step[0], x, m);
    }
  });
}

template <class Word>
void fill_words(const View& out, Word word) {
  Word* o = out.as<Word>();
  for_each_run<1>({&out}, [=](const auto& at, const auto& step, std::int64_t n) {
    if (step[0] == 1)
      std::fill_n(o + at[0], n, word);
    else
      for (std::int64_t i = 0; i < n; ++i) o[at[0] + i * step[0]] = word;
  });
}

/// Elements of what the first bytes of `bits` are.
void fill_bits(const View& out, std::uint64_t bits) {
  switch (itemsize(out.dtype)) {
    case 1:
      return fill_words<std::uint8_t>(out, static_cast<std::uint8_t>(bits));
    case 2:
      return fill_words<std::uint16_t>(out, static_cast<std::uint16_t>(bits));
    case 4:
      return fill_words<std::uint32_t>(out, static_cast<std::uint32_t>(bits));
    default:
      return fill_words<std::uint64_t>(out, bits);
  }
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
  dispatch_wide(in.dtype, [&]<class E>() { convert<E>(out, in); });
}

void fill(const View& out, Scalar value) {
  if (out.numel == 0) return;
  dispatch_all(out.dtype, "fill", [&]<class T>() {
    const T v = value.cast<T>();
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    fill_bits(out, bits);
  });
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void copy(const Stream& stream, const View& out, const View& in) {
  constexpr auto run = launch<cpu::copy, cuda::copy, View, View>;
  const bool to_complex = is_complex(out.dtype), from_complex = is_complex(in.dtype);
  if (!to_complex && !from_complex) [[likely]]
    return run(stream, "copy", out, in);
  const auto is_of_words = [](const View& v) {
    return v.dtype == kComplex64 &&
           reinterpret_cast<std::uintptr_t>(v.data) % sizeof(std::int64_t) == 0;
  };
  if (is_of_words(out) && is_of_words(in)) {  // complex numbers need the alignment of their parts
    View to = out, from = in;
    to.dtype = from.dtype = kInt64;
    run(stream, "copy", to, from);
  } else if (to_complex && from_complex) {
    run(stream, "copy", as_real(out), as_real(in));
  } else if (to_complex) {
    run(stream, "copy", complex_part(out, 0), in);
    fill(stream, complex_part(out, 1), 0);
  } else {
    FERRITE_CHECK(out.dtype != kBool, DTypeError, "copy",
                  "{} is not copied to bool; compare it with 0 by ne(), or use to(kBool)",
                  in.dtype);
    run(stream, "copy", out, complex_part(in, 0));
  }
}

void fill(const Stream& stream, const View& out, Scalar value) {
  constexpr auto run = launch<cpu::fill, cuda::fill, View, Scalar>;
  if (!is_complex(out.dtype)) [[likely]]
    return run(stream, "fill", out, value);
  const auto z = value.to<std::complex<double>>();
  if (z.real() == z.imag() && std::signbit(z.real()) == std::signbit(z.imag()))
    return run(stream, "fill", as_real(out), z.real());
  run(stream, "fill", complex_part(out, 0), z.real());
  run(stream, "fill", complex_part(out, 1), z.imag());
}

}  // namespace ferrite::kernels
