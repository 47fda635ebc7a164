// Kernels that keep some elements and replace the others.
#include <algorithm>
#include <cstring>

#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

namespace {

template <class Word>
struct Replace {
  Word value;
  __device__ Word operator()(Word x, bool masked) const { return masked ? value : x; }
};

/// A piece of a batch of matrices, row-major: `count` packs.
struct TrianglePiece {
  std::uint32_t count, first_row;  // the index, in its matrix, of the piece's first row
  Divisor packs_a_row, rows;
  std::int64_t pitch, first_col;
  std::int64_t shift;  // row r keeps the columns before (or from) r + shift
  bool lower;
};

constexpr int kMaskUnroll = 4;

template <int V, class Word>
__global__ void __launch_bounds__(kMapThreads)
    triangle_kernel(const __grid_constant__ TrianglePiece t, Word* out, const Word* x) {
  const std::uint32_t first = blockIdx.x * (kMapThreads * kMaskUnroll) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kMaskUnroll; ++u) {
    std::uint32_t row = first + u * kMapThreads;
    if (row >= t.count) break;
    const std::int64_t col = t.first_col + static_cast<std::int64_t>(t.packs_a_row.split(row)) * V;
    const std::int64_t at = row * t.pitch + col;
    std::uint32_t matrices = row + t.first_row;
    const std::int64_t edge = t.rows.split(matrices) + t.shift;
    // Replaced elements need not be read.
    const bool wanted = t.lower ? col < edge : col + V > edge;
    Pack<Word, V> pack{};
    if (wanted) pack = load_pack<V>(x + at);
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (t.lower != (col + i < edge)) pack.v[i] = 0;
    store_pack<V>(out + at, pack);
  }
}

}  // namespace

void masked_fill(const Stream& stream, const View& out, const View& x, const View& mask,
                 Scalar value) {
  std::uint64_t bits = 0;
  dispatch_all(out.dtype, "masked_fill", [&]<class T>() {
    const T v = value.cast<T>();
    std::memcpy(&bits, &v, sizeof v);
  });
  dispatch_words(out.dtype, [&]<class Word>() {
    map<Word, Word, bool>(stream, "masked_fill", Replace<Word>{static_cast<Word>(bits)}, out, x,
                          mask);
  });
}

void triangle(const Stream& stream, const View& out, const View& x, Triangle part,
              std::int64_t diagonal) {
  if (out.numel == 0) return;
  const std::int64_t rows = x.sizes[x.ndim - 2], cols = x.sizes[x.ndim - 1];
  const bool lower = part == Triangle::lower;
  dispatch_words(out.dtype, [&]<class Word>() {
    const auto run = [&]<int V>() {
      // Pieces of whole rows, or of parts of one.
      const std::int64_t most_cols = std::min(cols, kMaxLoopElements / V * V);
      const std::int64_t most_rows = std::max<std::int64_t>(
          1, std::min(kMaxLoopElements - rows, kMaxLoopElements / (most_cols / V)));
      for (std::int64_t row = 0; row < x.numel / cols; row += most_rows)
        for (std::int64_t col = 0; col < cols; col += most_cols) {
          const std::int64_t height = std::min(most_rows, x.numel / cols - row);
          const std::int64_t width = std::min(most_cols, cols - col) / V;
          TrianglePiece t;
          t.count = static_cast<std::uint32_t>(height * width);
          t.first_row = static_cast<std::uint32_t>(row % rows);
          t.packs_a_row = Divisor(static_cast<std::uint32_t>(width));
          t.rows = Divisor(static_cast<std::uint32_t>(rows));
          t.pitch = cols, t.first_col = col;
          t.shift = std::clamp(diagonal, -rows - 1, cols + 1) + (lower ? 1 : 0);
          t.lower = lower;
          launch({"triangle", stream, blocks_for(t.count, kMapThreads * kMaskUnroll), kMapThreads},
                 triangle_kernel<V, Word>, t, out.as<Word>() + row * cols,
                 static_cast<const Word*>(x.as<Word>() + row * cols));
        }
    };
    constexpr int kMaskPack = pack_size<Word>();
    if (cols % kMaskPack == 0 && is_aligned(out.as<Word>(), kMaskPack) &&
        is_aligned(x.as<Word>(), kMaskPack))
      run.template operator()<kMaskPack>();
    else
      run.template operator()<1>();
  });
}

}  // namespace ferrite::kernels::cuda
