// What the CPU kernels of attention are made of: operands as matrices that the inner kernel of
// products reads, and blocks of weights.
#pragma once

#include <algorithm>

#include "ferrite/kernels/cpu/micro.h"
#include "ferrite/kernels/cpu/pack.h"
#include "ferrite/kernels/cpu/simd_math.h"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cpu::attention_parts {

// Blocks of weights stay in the second-level cache. They lie transposed, [keys][queries]: softmax
// then works on vectors of queries, and no product needs a transposed copy of keys or weights.
inline constexpr std::int64_t kMostQueries = 96, kMostKeys = 192;
/// Columns of a call of the inner kernel.
template <class C>
constexpr std::int64_t kPanel = 2 * kLanes<C>;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// Matrices [rows, width] of a [B, H, rows, width] view.
template <class T>
struct Heads {
  explicit Heads(const View& v)
      : data(v.as<T>()),
        width(v.sizes[3]),
        row_step(v.strides[2]),
        steps{v.strides[0], v.strides[1]} {}
  T* at(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return data + b * steps[0] + h * steps[1] + row * row_step;
  }

  T* data;
  std::int64_t width, row_step, steps[2];
};

/// A matrix that the inner kernel reads.
template <class C>
struct Matrix {
  const C* data;
  std::int64_t step;
};

/// Rows as C, of whole vectors: where they lie if they are that already, else in `buffer`.
template <class C, class T>
Matrix<C> whole_rows(const T* rows, std::int64_t step, std::int64_t count, std::int64_t width,
                     C* buffer) {
  constexpr std::int64_t n = kLanes<C>;
  if constexpr (std::is_same_v<C, T>) {
    if (width % n == 0) return {rows, step};
    copy_matrix_padded(buffer, round_up(width, n), rows, step, 1, count, width);
  } else {
    for (std::int64_t r = 0; r < count; ++r) {
      C* to = buffer + r * round_up(width, n);
      std::int64_t i = 0;
      for (; i + n <= width; i += n) store(to + i, load<kLanes<C>>(rows + r * step + i));
      for (; i < width; ++i) to[i] = static_cast<C>(rows[r * step + i]);
      for (; i < round_up(width, n); ++i) to[i] = 0;
    }
  }
  return {buffer, round_up(width, n)};
}

/// The transpose of `count` rows, times `scale`, in panels of [width][kPanel].
template <class C>
void transposed_panels(C* to, Matrix<C> rows, std::int64_t count, std::int64_t width, C scale) {
  for (std::int64_t i = 0; i < count; i += kPanel<C>, to += width * kPanel<C>) {
    copy_matrix_padded(to, kPanel<C>, rows.data + i * rows.step, 1, rows.step, width,
                       std::min(kPanel<C>, count - i));
    if (scale != 1)
      for (std::int64_t j = 0; j < width * kPanel<C>; j += kLanes<C>)
        store(to + j, load(to + j) * scale);
  }
}

/// c (+)= a b with a's rows apart, or adjacent; panels of b are `b_panel` apart.
template <class C>
void multiply(C* c, std::int64_t c_step, std::int64_t rows, std::int64_t columns,
              std::int64_t depth, Rows layout, Matrix<C> a, Matrix<C> b, std::int64_t b_panel,
              bool accumulate) {
  for (std::int64_t j = 0; j < columns; j += kPanel<C>) {
    const std::int64_t width = std::min(kPanel<C>, columns - j);
    const int vectors = width > kLanes<C> ? 2 : 1;
    const std::int64_t share = even_share(rows, max_rows(vectors));
    Micro<C> m;
    m.a_step = a.step;
    m.b = b.data + j / kPanel<C> * b_panel;
    m.b_step = b.step;
    m.run = depth;
    m.c_step = c_step;
    m.columns = width;
    m.accumulate = accumulate;
    for (std::int64_t i = 0; i < rows; i += share) {
      m.a = a.data + i * (layout == Rows::adjacent ? 1 : a.step);
      m.c = c + i * c_step + j;
      run_micro(m, static_cast<int>(std::min(share, rows - i)), vectors, layout);
    }
  }
}

/// exp(x) of what is not above 0, but for rounding; NaN of NaN. In float with fewer instructions
/// than a function for all numbers: 2^n by the exponent's bits, times Cephes' polynomial of the
/// rest.
template <class V>
[[gnu::always_inline]] inline V weight_of(const V& x) {
  if constexpr (sizeof(simd::Lane<V>) == 8) {
    return x < -708.39641853226408 ? V{} : simd::of_array(x, [](const auto& a) { return a.exp(); });
  } else {
    using Bits = Lanes<std::uint32_t, sizeof(V) / 4>;
    constexpr float kRound = 12582912;  // 1.5 * 2^23: adding it rounds to whole numbers
    const V shifted = x * 1.44269504088896341f + kRound, n = shifted - kRound;
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    const V y = bits_as<V>(bits_as<Bits>(p) + (bits_as<Bits>(shifted) << 23));
    const V weight = x < -87.33654f ? V{} : y;
    // The sum of bits makes numbers of some NaNs.
    return x == x ? weight : x;
  }
}

/// A block of weights: queries [query, query + queries) by keys [key, key + keys) of a head.
struct Block {
  std::int64_t b, h, query, queries, key, keys;
};

}  // namespace ferrite::kernels::cpu::attention_parts
