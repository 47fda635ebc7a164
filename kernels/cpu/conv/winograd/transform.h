// The linear maps of Winograd's convolutions F(m x m, 3 x 3), m = 2 or 4: Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (2015), section 4. A tile of m x m results is
//   Y = A^T [(G g G^T) * (B^T d B)] A,
// with the (m + 2) x (m + 2) pixels d that they are made of, the filter g, and one product in each
// of (m + 2)^2 points where the direct sum has 9 m^2. The gradients follow by transposition:
//   dg = G^T [(A dy A^T) * (B^T d B)] G.
//
// F(2 x 2) evaluates polynomials at 0, 1, -1 and infinity. F(4 x 4) at 0, 5/8, -5/8, 3/2, -3/2 and
// infinity: of all pairs of points with their negatives (which share half of their arithmetic)
// these round least among those whose constants float holds exactly, 2.5 times less than the usual
// 1 and 2 at the same cost.
//
// Everything works on vectors of neighbouring channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu::winograd {

/// Pixels a side of the tile of input that M x M results are made of.
template <int M>
inline constexpr int kSide = M + 2;
/// Products of a tile.
template <int M>
inline constexpr int kPoints = kSide<M>* kSide<M>;

namespace detail {
inline constexpr double kA = 0.625, kA2 = kA * kA, kA3 = kA2 * kA;
inline constexpr double kB = 1.5, kB2 = kB * kB, kB3 = kB2 * kB;
// Factors of the filter at +-kA and +-kB: 1 / product of the distances to the other finite points.
inline constexpr double kScale0 = 1 / (kA2 * kB2);
inline constexpr double kScaleA = 1 / (2 * kA2 * (kA2 - kB2));
inline constexpr double kScaleB = 1 / (2 * kB2 * (kB2 - kA2));
}  // namespace detail

// The maps in one dimension. apply<T>(in, out): kIn values (T, or vectors of T) become kOut.

/// B^T d: pixels to points.
template <int M>
struct InputMap {
  static constexpr int kIn = kSide<M>, kOut = kSide<M>;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&d)[kIn], V (&out)[kOut]) {
    using namespace detail;
    if constexpr (M == 2) {
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
template <int M>
struct OutputMap {
  static constexpr int kIn = kSide<M>, kOut = M;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&m)[kIn], V (&out)[kOut]) {
    using namespace detail;
    if constexpr (M == 2) {
      out[0] = m[0] + (m[1] + m[2]);
      out[1] = (m[1] - m[2]) - m[3];
    } else {
      const V even_a = m[1] + m[2], odd_a = m[1] - m[2];
      const V even_b = m[3] + m[4], odd_b = m[3] - m[4];
      out[0] = m[0] + (even_a + even_b);
      out[1] = T(kA) * odd_a + T(kB) * odd_b;
      out[2] = T(kA2) * even_a + T(kB2) * even_b;
      out[3] = (m[5] + T(kA3) * odd_a) + T(kB3) * odd_b;
    }
  }
};

/// A dy: gradients of results to points, the transpose of OutputMap.
template <int M>
struct GradientMap {
  static constexpr int kIn = M, kOut = kSide<M>;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&y)[kIn], V (&out)[kOut]) {
    using namespace detail;
    if constexpr (M == 2) {
      out[0] = y[0];
      out[1] = y[0] + y[1];
      out[2] = y[0] - y[1];
      out[3] = -y[1];
    } else {
      const V even_a = y[0] + T(kA2) * y[2], odd_a = T(kA) * y[1] + T(kA3) * y[3];
      const V even_b = y[0] + T(kB2) * y[2], odd_b = T(kB) * y[1] + T(kB3) * y[3];
      out[0] = y[0];
      out[1] = even_a + odd_a;
      out[2] = even_a - odd_a;
      out[3] = even_b + odd_b;
      out[4] = even_b - odd_b;
      out[5] = y[3];
    }
  }
};

/// G g: taps of a filter to points.
template <int M>
struct FilterMap {
  static constexpr int kIn = 3, kOut = kSide<M>;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&g)[kIn], V (&out)[kOut]) {
    using namespace detail;
    if constexpr (M == 2) {
      const V even = T(0.5) * (g[0] + g[2]), odd = T(0.5) * g[1];
      out[0] = g[0];
      out[1] = even + odd;
      out[2] = even - odd;
      out[3] = g[2];
    } else {
      const V even_a = T(kScaleA) * g[0] + T(kScaleA * kA2) * g[2], odd_a = T(kScaleA * kA) * g[1];
      const V even_b = T(kScaleB) * g[0] + T(kScaleB * kB2) * g[2], odd_b = T(kScaleB * kB) * g[1];
      out[0] = T(kScale0) * g[0];
      out[1] = even_a + odd_a;
      out[2] = even_a - odd_a;
      out[3] = even_b + odd_b;
      out[4] = even_b - odd_b;
      out[5] = g[2];
    }
  }
};

/// G^T u: gradients at the points to those of the taps, the transpose of FilterMap.
template <int M>
struct FilterGradientMap {
  static constexpr int kIn = kSide<M>, kOut = 3;
  template <class T, class V>
  [[gnu::always_inline]] static inline void apply(const V (&u)[kIn], V (&out)[kOut]) {
    using namespace detail;
    if constexpr (M == 2) {
      const V even = T(0.5) * (u[1] + u[2]);
      out[0] = u[0] + even;
      out[1] = T(0.5) * (u[1] - u[2]);
      out[2] = even + u[3];
    } else {
      const V even_a = u[1] + u[2], odd_a = u[1] - u[2];
      const V even_b = u[3] + u[4], odd_b = u[3] - u[4];
      out[0] = T(kScale0) * u[0] + (T(kScaleA) * even_a + T(kScaleB) * even_b);
      out[1] = T(kScaleA * kA) * odd_a + T(kScaleB * kB) * odd_b;
      out[2] = (u[5] + T(kScaleA * kA2) * even_a) + T(kScaleB * kB2) * even_b;
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
template <int M, bool kRelu, class T>
void map_products(const TilePixels<T>& tile, const T* from, std::int64_t point_step, const T* bias,
                  std::int64_t channels) {
  const bool whole = tile.whole(M);
  for (std::int64_t c = 0; c < channels; c += kLanes<T>) {
    const Vector<T> add = bias ? load(bias + c) : Vector<T>{};
    const std::int64_t count = std::min<std::int64_t>(kLanes<T>, channels - c);
    const auto run = [&](auto put) __attribute__((always_inline)) {
      map_tile<T, OutputMap<M>>(
          [&](int i, int j) __attribute__((always_inline)) {
            return load(from + (i * kSide<M> + j) * point_step + c);
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
