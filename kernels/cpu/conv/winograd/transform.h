// The linear maps of Winograd's convolutions F(m x m, r x r): Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks" (2015), section 4. A tile of m x m results is
//   Y = A^T [(G g G^T) * (B^T d B)] A,
// with the (m + r - 1) x (m + r - 1) pixels d that they are made of, the filter g of r x r taps,
// and one product in each of (m + r - 1)^2 points where the direct sum has (m r)^2. The gradients
// follow by transposition:
//   dg = G^T [(A dy A^T) * (B^T d B)] G.
//
// F(2 x 2, 3 x 3) evaluates polynomials at 0, 1, -1 and infinity. F(4 x 4, 3 x 3) and
// F(2 x 2, 5 x 5), whose six points are the same, at 0, 5/8, -5/8, 3/2, -3/2 and infinity: of all
// pairs of points with their negatives (which share half of their arithmetic) these round least
// among those whose constants float holds exactly, 2.5 times less than the usual 1 and 2 at the
// same cost.
//
// Everything works on vectors of neighbouring channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu::winograd {

/// F(M x M, R x R): what the maps and the stages need to know of an algorithm.
template <int M, int R>
struct Form {
  static constexpr int kResults = M, kTaps = R;  // a side
  /// Pixels a side of the tile of input that M x M results are made of.
  static constexpr int kSide = M + R - 1;
  /// Products of a tile.
  static constexpr int kPoints = kSide * kSide;
  static_assert(kSide == 4 || kSide == 6);
};

/// Calls `take` with the form that has tiles of `results` x `results` results and `taps` x `taps`
/// taps.
template <class Take>
void with_form(int results, int taps, Take take) {
  if (taps == 5)
    take(Form<2, 5>{});
  else if (results == 4)
    take(Form<4, 3>{});
  else
    take(Form<2, 3>{});
}

namespace detail {
// The six points: 0, +-kA, +-kB and infinity.
inline constexpr double kA = 0.625, kA2 = kA * kA;
inline constexpr double kB = 1.5, kB2 = kB * kB;
/// Factors of the filter at the finite points: 1 / product of the distances to the other ones.
inline constexpr double kScale0 = 1 / (kA2 * kB2);
inline constexpr double kScaleA = 1 / (2 * kA2 * (kA2 - kB2));
inline constexpr double kScaleB = 1 / (2 * kB2 * (kB2 - kA2));

constexpr double power(double base, int exponent) {
  double result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

/// The values of a polynomial with N coefficients at the six points, with the factors where
/// `kScaled`.
template <int N, bool kScaled, class T, class V>
[[gnu::always_inline]] inline void evaluate(const V (&c)[N], V (&out)[6]) {
  constexpr double a = kScaled ? kScaleA : 1, b = kScaled ? kScaleB : 1;
  V even_a = T(a) * c[0], odd_a = T(a * kA) * c[1];
  V even_b = T(b) * c[0], odd_b = T(b * kB) * c[1];
#pragma GCC unroll 4
  for (int j = 2; j < N; ++j) {
    V &to_a = j % 2 == 0 ? even_a : odd_a, &to_b = j % 2 == 0 ? even_b : odd_b;
    to_a = to_a + T(a * power(kA, j)) * c[j];
    to_b = to_b + T(b * power(kB, j)) * c[j];
  }
  out[0] = T(kScaled ? kScale0 : 1) * c[0];
  out[1] = even_a + odd_a;
  out[2] = even_a - odd_a;
  out[3] = even_b + odd_b;
  out[4] = even_b - odd_b;
  out[5] = c[N - 1];
}

/// The transpose of evaluate().
template <int N, bool kScaled, class T, class V>
[[gnu::always_inline]] inline void sum_points(const V (&m)[6], V (&out)[N]) {
  constexpr double a = kScaled ? kScaleA : 1, b = kScaled ? kScaleB : 1;
  const V even_a = m[1] + m[2], odd_a = m[1] - m[2];
  const V even_b = m[3] + m[4], odd_b = m[3] - m[4];
  out[0] = T(kScaled ? kScale0 : 1) * m[0] + (T(a) * even_a + T(b) * even_b);
#pragma GCC unroll 4
  for (int j = 1; j < N; ++j) {
    const V of_a = j % 2 == 0 ? even_a : odd_a, of_b = j % 2 == 0 ? even_b : odd_b;
    if (j < N - 1)
      out[j] = T(a * power(kA, j)) * of_a + T(b * power(kB, j)) * of_b;
    else
      out[j] = (m[5] + T(a * power(kA, j)) * of_a) + T(b * power(kB, j)) * of_b;
  }
}
}  // namespace detail

// The maps in one dimension. apply<T>(in, out): kIn values (T, or vectors of T) become kOut.

/// B^T d: pixels to points.
template <class F>
struct InputMap {
  static constexpr int kIn = F::kSide, kOut = F::kSide;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&d)[kIn], V (&out)[kOut]) {
    using namespace detail;
    if constexpr (F::kSide == 4) {
      out[0] = d[0] - d[2];
      out[1] = d[1] + d[2];
      out[2] = d[2] - d[1];
      out[3] = d[1] - d[3];
    } else {
      constexpr T sum = T(kA2 + kB2), product = T(kA2 * kB2);
      const V even_a = d[4] - T(kB2) * d[2], odd_a = d[3] - T(kB2) * d[1];
      const V even_b = d[4] - T(kA2) * d[2], odd_b = d[3] - T(kA2) * d[1];
      out[0] = (d[4] - sum * d[2]) + product * d[0];
      out[1] = even_a + T(kA) * odd_a;
      out[2] = even_a - T(kA) * odd_a;
      out[3] = even_b + T(kB) * odd_b;
      out[4] = even_b - T(kB) * odd_b;
      out[5] = (d[5] - sum * d[3]) + product * d[1];
    }
  }
};

/// A^T m: products at the points to results.
template <class F>
struct OutputMap {
  static constexpr int kIn = F::kSide, kOut = F::kResults;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&m)[kIn], V (&out)[kOut]) {
    if constexpr (F::kSide == 4) {
      out[0] = m[0] + (m[1] + m[2]);
      out[1] = (m[1] - m[2]) - m[3];
    } else {
      detail::sum_points<kOut, false, T>(m, out);
    }
  }
};

/// A dy: gradients of results to points, the transpose of OutputMap.
template <class F>
struct GradientMap {
  static constexpr int kIn = F::kResults, kOut = F::kSide;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&y)[kIn], V (&out)[kOut]) {
    if constexpr (F::kSide == 4) {
      out[0] = y[0];
      out[1] = y[0] + y[1];
      out[2] = y[0] - y[1];
      out[3] = -y[1];
    } else {
      detail::evaluate<kIn, false, T>(y, out);
    }
  }
};

/// G g: taps of a filter to points.
template <class F>
struct FilterMap {
  static constexpr int kIn = F::kTaps, kOut = F::kSide;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&g)[kIn], V (&out)[kOut]) {
    if constexpr (F::kSide == 4) {
      const V even = T(0.5) * (g[0] + g[2]), odd = T(0.5) * g[1];
      out[0] = g[0];
      out[1] = even + odd;
      out[2] = even - odd;
      out[3] = g[2];
    } else {
      detail::evaluate<kIn, true, T>(g, out);
    }
  }
};

/// G^T u: gradients at the points to those of the taps, the transpose of FilterMap.
template <class F>
struct FilterGradientMap {
  static constexpr int kIn = F::kSide, kOut = F::kTaps;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&u)[kIn], V (&out)[kOut]) {
    if constexpr (F::kSide == 4) {
      const V even = T(0.5) * (u[1] + u[2]);
      out[0] = u[0] + even;
      out[1] = T(0.5) * (u[1] - u[2]);
      out[2] = even + u[3];
    } else {
      detail::sum_points<kOut, true, T>(u, out);
    }
  }
};

/// Map in two dimensions: load(i, j) gives the value in row i and column j, store(i, j, value)
/// takes the results.
template <class T, class Map, class Load, class Store>
[[gnu::always_inline]] inline void map_tile(Load load, Store store) {
  Vector<T> half[Map::kIn][Map::kOut];
#pragma GCC unroll 6
  for (int j = 0; j < Map::kIn; ++j) {
    Vector<T> column[Map::kIn], mapped[Map::kOut];
#pragma GCC unroll 6
    for (int i = 0; i < Map::kIn; ++i) column[i] = load(i, j);
    Map::template apply<T>(column, mapped);
#pragma GCC unroll 6
    for (int i = 0; i < Map::kOut; ++i) half[j][i] = mapped[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Map::kOut; ++i) {
    Vector<T> row[Map::kIn], mapped[Map::kOut];
#pragma GCC unroll 6
    for (int j = 0; j < Map::kIn; ++j) row[j] = half[j][i];
    Map::template apply<T>(row, mapped);
#pragma GCC unroll 6
    for (int j = 0; j < Map::kOut; ++j) store(i, j, mapped[j]);
  }
}

/// The pixels of a tile, of images whose channels are side by side: pixel (i, j) is at
/// image + offset + i * row_step + j * pixel_step. Only rows [top, bottom) and columns
/// [left, right) of the tile exist; the others are read as zeros, and not written.
template <class T>
struct TilePixels {
  T* image = nullptr;
  std::int64_t offset = 0, row_step = 0, pixel_step = 0;
  int top = 0, bottom = 0, left = 0, right = 0;

  T* at(int i, int j) const { return image + (offset + i * row_step + j * pixel_step); }
  bool has(int i, int j) const { return i >= top && i < bottom && j >= left && j < right; }
  bool whole(int side) const { return top <= 0 && left <= 0 && bottom >= side && right >= side; }
};

/// The tile whose pixel (0, 0) is (y, x) of an image of height x width at `image`.
template <class T>
TilePixels<T> tile_at(T* image, std::int64_t row_step, std::int64_t pixel_step, std::int64_t y,
                      std::int64_t x, std::int64_t height, std::int64_t width, int side) {
  const auto clip = [side](std::int64_t at) {
    return static_cast<int>(std::clamp<std::int64_t>(at, 0, side));
  };
  return {image,    y * row_step + x * pixel_step,
          row_step, pixel_step,
          clip(-y), clip(height - y),
          clip(-x), clip(width - x)};
}

namespace detail {
/// What lies outside of an image.
template <class T>
alignas(kVectorBytes) inline constexpr T kZeros[kLanes<T>] = {};

template <class Map, bool kWhole, class T>
void map_pixels(T* to, std::int64_t point_step, const TilePixels<const T>& tile,
                std::int64_t channels) {
  // A choice of addresses rather than of values, so that no load waits for a branch.
  const T* pixels[Map::kIn][Map::kIn];
  std::int64_t moves[Map::kIn][Map::kIn];
  if constexpr (!kWhole)
    for (int i = 0; i < Map::kIn; ++i)
      for (int j = 0; j < Map::kIn; ++j) {
        pixels[i][j] = tile.has(i, j) ? tile.at(i, j) : kZeros<T>;
        moves[i][j] = tile.has(i, j) ? -1 : 0;
      }
  const auto run = [&](std::int64_t c, auto load_pixel) __attribute__((always_inline)) {
    map_tile<T, Map>(
        [&](int i, int j) __attribute__((always_inline)) {
          if constexpr (kWhole)
            return load_pixel(tile.at(i, j) + c);
          else
            return load_pixel(pixels[i][j] + (c & moves[i][j]));
        },
        [&](int i, int j, Vector<T> v) __attribute__((always_inline)) {
          store(to + (i * Map::kOut + j) * point_step + c, v);
        });
  };
  std::int64_t c = 0;
  for (; c + kLanes<T> <= channels; c += kLanes<T>)
    run(
        c, [](const T* p) __attribute__((always_inline)) { return load(p); });
  if (c < channels)
    run(
        c, [&](const T* p)
               __attribute__((always_inline)) { return load_partial(p, channels - c); });
}
}  // namespace detail

/// InputMap or GradientMap of a tile's pixels. Point p of channel c goes to to[p * point_step + c];
/// the last vector is filled up with zeros.
template <class Map, class T>
void map_pixels(T* to, std::int64_t point_step, const TilePixels<const T>& tile,
                std::int64_t channels) {
  if (tile.whole(Map::kIn))
    detail::map_pixels<Map, true>(to, point_step, tile, channels);
  else
    detail::map_pixels<Map, false>(to, point_step, tile, channels);
}

/// FilterMap or FilterGradientMap: `from` has vectors of `count` values for each tap (or point),
/// from_step apart; `to` gets whole vectors for each point (or tap), to_step apart.
template <class Map, class T>
void map_vectors(T* to, std::int64_t to_step, const T* from, std::int64_t from_step,
                 std::int64_t count) {
  const auto run = [&](std::int64_t c, auto load_some) __attribute__((always_inline)) {
    map_tile<T, Map>(
        [&](int i, int j) __attribute__((always_inline)) {
          return load_some(from + (i * Map::kIn + j) * from_step + c);
        },
        [&](int i, int j, Vector<T> v)
            __attribute__((always_inline)) { store(to + (i * Map::kOut + j) * to_step + c, v); });
  };
  std::int64_t c = 0;
  for (; c + kLanes<T> <= count; c += kLanes<T>)
    run(
        c, [](const T* p) __attribute__((always_inline)) { return load(p); });
  if (c < count)
    run(
        c, [&](const T* p) __attribute__((always_inline)) { return load_partial(p, count - c); });
}

/// OutputMap of the products at `from` (whole vectors for each point, point_step apart) into a
/// tile's pixels, with a bias for each channel (whole vectors, or null) and relu.
template <class F, bool kRelu, class T>
void map_products(const TilePixels<T>& tile, const T* from, std::int64_t point_step, const T* bias,
                  std::int64_t channels) {
  const bool whole = tile.whole(F::kResults);
  for (std::int64_t c = 0; c < channels; c += kLanes<T>) {
    const Vector<T> add = bias ? load(bias + c) : Vector<T>{};
    const std::int64_t count = std::min<std::int64_t>(kLanes<T>, channels - c);
    const auto run = [&](auto put) __attribute__((always_inline)) {
      map_tile<T, OutputMap<F>>(
          [&](int i, int j) __attribute__((always_inline)) {
            return load(from + (i * F::kSide + j) * point_step + c);
          },
          [&](int i, int j, Vector<T> v) __attribute__((always_inline)) {
            v += add;
            // A NaN stays one.
            if constexpr (kRelu) v = v < T(0) ? Vector<T>{} : v;
            put(i, j, v);
          });
    };
    if (whole && count == kLanes<T>)
      run([&](int i, int j, Vector<T> v)
              __attribute__((always_inline)) { store(tile.at(i, j) + c, v); });
    else
      run([&](int i, int j, Vector<T> v) __attribute__((always_inline)) {
        if (tile.has(i, j)) store_partial(tile.at(i, j) + c, v, count);
      });
  }
}

}  // namespace ferrite::kernels::cpu::winograd
