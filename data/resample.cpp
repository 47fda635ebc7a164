#include "ferrite/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "ferrite/data/image_tensor.h"

namespace ferrite::data {

namespace {

/// The types used to compute with a dtype: weights, and sums of weights times values.
template <class T>
struct Arithmetic {
  using Weight = float;
  static constexpr Weight kStart = 0;
  static Weight weight(double w) { return static_cast<float>(w); }
  static T result(Weight sum) { return sum; }
};
template <>
struct Arithmetic<std::uint8_t> {
  using Weight = std::int32_t;
  static constexpr int kBits = 22;
  static constexpr Weight kStart = 1 << (kBits - 1);
  static Weight weight(double w) { return static_cast<Weight>(0.5 + w * (1 << kBits)); }
  static std::uint8_t result(Weight sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
  }
};

/// For one axis: the range of source pixels of each result value, with their weights.
template <class T>
struct Taps {
  using Weight = typename Arithmetic<T>::Weight;
  struct Range {
    std::int64_t first, count;
    std::size_t weights;  // index of the first
  };

  Taps(std::int64_t in, std::int64_t out) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double support = std::max(scale, 1.0);
    std::vector<double> w;
    ranges.reserve(static_cast<std::size_t>(out));
    for (std::int64_t i = 0; i < out; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const auto first =
          std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
      const auto last =
          std::min<std::int64_t>(static_cast<std::int64_t>(center + support + 0.5), in);
      w.clear();
      double sum = 0;
      for (std::int64_t k = first; k < last; ++k) {
        w.push_back(
            std::max(1 - std::abs((static_cast<double>(k) - center + 0.5) * (1 / support)), 0.0));
        sum += w.back();
      }
      ranges.push_back({first, last - first, weights.size()});
      for (const double v : w) weights.push_back(Arithmetic<T>::weight(v / sum));
    }
  }

  std::vector<Range> ranges;
  std::vector<Weight> weights;
};

/// Number of values summed at once, and of rows transposed at once.
constexpr std::int64_t kLanes = 16;

template <class T>
struct LanesOf {
  typedef T type [[gnu::vector_size(kLanes * sizeof(T))]];
};
template <class T>
using Lanes = typename LanesOf<T>::type;

template <class T>
Lanes<T> load(const T* p) {
  Lanes<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void store(T* p, const Lanes<T>& v) {
  std::memcpy(p, &v, sizeof v);
}

inline Lanes<float> result(const Lanes<float>& sums) { return sums; }
inline Lanes<std::uint8_t> result(const Lanes<std::int32_t>& sums) {
  Lanes<std::int32_t> v = sums >> Arithmetic<std::uint8_t>::kBits;
  v = v < 0 ? Lanes<std::int32_t>{} : v;
  v = v > 255 ? Lanes<std::int32_t>{} + 255 : v;
  return __builtin_convertvector(v, Lanes<std::uint8_t>);
}

/// out[x] is the weighted sum of `count` values at in[x], `stride` apart.
template <class T>
void sum_rows(const T* in, std::int64_t stride, std::int64_t count,
              const typename Arithmetic<T>::Weight* weights, std::int64_t width, T* out) {
  using Weight = typename Arithmetic<T>::Weight;
  std::int64_t x = 0;
  for (; x + kLanes <= width; x += kLanes) {
    Lanes<Weight> sums = Lanes<Weight>{} + Arithmetic<T>::kStart;
    for (std::int64_t k = 0; k < count; ++k)
      sums += __builtin_convertvector(load(in + k * stride + x), Lanes<Weight>) * weights[k];
    store(out + x, result(sums));
  }
  for (; x < width; ++x) {
    Weight sum = Arithmetic<T>::kStart;
    for (std::int64_t k = 0; k < count; ++k) sum += in[k * stride + x] * weights[k];
    out[x] = Arithmetic<T>::result(sum);
  }
}

// ---- Along rows: sixteen rows at a time are transposed, resampled as columns, and transposed
// back.

using Row = Lanes<std::uint8_t>;

/// Interleaves the lower or the upper halves of both.
Row zip_low(const Row& a, const Row& b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Row zip_high(const Row& a, const Row& b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

/// Transposes 16 x 16 values: four times, rows i and i + 8 are interleaved into 2 i and 2 i + 1.
void transpose_block(Row (&rows)[kLanes]) {
  Row next[kLanes];
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = zip_low(rows[i], rows[i + 8]);
      next[2 * i + 1] = zip_high(rows[i], rows[i + 8]);
    }
    for (int i = 0; i < 8; ++i) {
      rows[2 * i] = zip_low(next[i], next[i + 8]);
      rows[2 * i + 1] = zip_high(next[i], next[i + 8]);
    }
  }
}

/// Transposes `rows` (up to 16) rows of `width` values, `stride` apart, to `width` rows of 16.
void to_columns(const std::uint8_t* in, std::int64_t rows, std::int64_t stride, std::int64_t width,
                std::uint8_t* out) {
  std::int64_t x = 0;
  for (; x + kLanes <= width; x += kLanes) {
    Row block[kLanes];
    for (std::int64_t y = 0; y < kLanes; ++y)
      block[y] = load(in + std::min(y, rows - 1) * stride + x);
    transpose_block(block);
    for (std::int64_t i = 0; i < kLanes; ++i) store(out + (x + i) * kLanes, block[i]);
  }
  for (; x < width; ++x)
    for (std::int64_t y = 0; y < kLanes; ++y)
      out[x * kLanes + y] = in[std::min(y, rows - 1) * stride + x];
}

/// The inverse, to dense rows.
void to_rows(const std::uint8_t* in, std::int64_t rows, std::int64_t width, std::uint8_t* out) {
  std::int64_t x = 0;
  for (; x + kLanes <= width; x += kLanes) {
    Row block[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) block[i] = load(in + (x + i) * kLanes);
    transpose_block(block);
    for (std::int64_t y = 0; y < rows; ++y) store(out + y * width + x, block[y]);
  }
  for (; x < width; ++x)
    for (std::int64_t y = 0; y < rows; ++y) out[y * width + x] = in[x * kLanes + y];
}

/// Resamples rows of `in`, `stride` apart and `width` long, into rows of `out`.
void resample_rows(const std::uint8_t* in, std::int64_t rows, std::int64_t stride,
                   std::int64_t width, const Taps<std::uint8_t>& taps, std::uint8_t* out) {
  const auto to = static_cast<std::int64_t>(taps.ranges.size());
  const auto columns = std::make_unique_for_overwrite<std::uint8_t[]>(
      static_cast<std::size_t>((width + to) * kLanes));
  std::uint8_t* const results = columns.get() + width * kLanes;
  for (std::int64_t y = 0; y < rows; y += kLanes) {
    const std::int64_t n = std::min(rows - y, kLanes);
    to_columns(in + y * stride, n, stride, width, columns.get());
    for (std::int64_t i = 0; i < to; ++i) {
      const auto& range = taps.ranges[static_cast<std::size_t>(i)];
      sum_rows(columns.get() + range.first * kLanes, kLanes, range.count,
               taps.weights.data() + range.weights, kLanes, results + i * kLanes);
    }
    to_rows(results, n, to, out + y * to);
  }
}

void resample_rows(const float* in, std::int64_t rows, std::int64_t stride, std::int64_t,
                   const Taps<float>& taps, float* out) {
  for (std::int64_t y = 0; y < rows; ++y, in += stride)
    for (const auto& range : taps.ranges) {
      float sum = 0;
      const float* weight = taps.weights.data() + range.weights;
      for (std::int64_t k = 0; k < range.count; ++k) sum += in[range.first + k] * weight[k];
      *out++ = sum;
    }
}

template <class T>
void resample_as(const Tensor& image, const Window& window, const Tensor& out) {
  const std::int64_t height = out.size(1), width = out.size(2);
  const Taps<T> across(window.width, width), down(window.height, height);
  const auto between =
      std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(window.height * width));
  T* to = out.data<T>();
  for (std::int64_t c = 0; c < image.size(0); ++c) {
    const T* plane = image.data<T>() + (c * image.size(1) + window.top) * image.size(2);
    resample_rows(plane + window.left, window.height, image.size(2), window.width, across,
                  between.get());
    for (const auto& range : down.ranges) {
      sum_rows(between.get() + range.first * width, width, range.count,
               down.weights.data() + range.weights, width, to);
      to += width;
    }
  }
}

}  // namespace

void resample(const Tensor& image, const Window& window, const Tensor& out) {
  dispatch_image(image, "resize", [&]<class T>() { resample_as<T>(image, window, out); });
}

}  // namespace ferrite::data
