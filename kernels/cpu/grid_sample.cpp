#include "ferrite/kernels/grid_sample.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ferrite/core/error.h"
#include "ferrite/core/parallel_for.h"

namespace ferrite::kernels::cpu {

namespace {

/// Points whose places and sums stay in a near cache while all channels go by.
constexpr std::int64_t kPoints = 256;

struct Sizes {
  std::int64_t images, channels, pixels, each, points;

  Sizes(const View& image, const View& places)
      : images(image.sizes[0]),
        channels(image.sizes[1]),
        pixels(image.sizes[2]),
        each(places.sizes[1]),
        points(places.sizes[2]) {
    FERRITE_CHECK(pixels <= std::numeric_limits<std::int32_t>::max(), ShapeError, "grid_sample",
                  "expected images of fewer than 2^31 pixels, got {}", pixels);
  }
  std::int64_t blocks() const { return (points + kPoints - 1) / kPoints; }

  /// f(image, first point, number of points) for blocks of points, several at a time.
  template <class F>
  void for_each_block(F&& f) const {
    const std::int64_t work = std::min(points, kPoints) * each * channels;
    parallel_for(images * blocks(),
                 std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, work)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t b = begin; b < end; ++b) {
                     const std::int64_t first = b % blocks() * kPoints;
                     f(b / blocks(), first, std::min(kPoints, points - first));
                   }
                 });
  }
};

/// f(the number of pixels of a point as a constant, which makes loops over them faster).
template <class F>
void with_each(std::int64_t each, F&& f) {
  switch (each) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    case 16:
      return f(std::integral_constant<int, 16>());
    default:
      fail<ValueError>("grid_sample", "expected 1, 4, 8 or 16 pixels a point, got {}", each);
  }
}

/// The places of a block's points. One that is outside of the image is that of another pixel of
/// its point, which a factor of 0 does not change, or the image's first if all are outside: loops
/// over pixels need no branch, which the processor would often predict wrongly. Nor do they gather
/// vectors, which takes several times as long on many processors; stores to memory that could be
/// the image's keep the compiler from it.
template <int K>
struct Block {
  std::int32_t at[K][kPoints];
  bool inside[K][kPoints], any_inside[kPoints];

  Block(const std::int64_t* places, std::int64_t points, std::int64_t count) {
    std::fill_n(any_inside, count, false);
    std::int32_t some[kPoints] = {};
    for (int k = 0; k < K; ++k)
      for (std::int64_t p = 0; p < count; ++p) {
        const auto place = static_cast<std::int32_t>(places[k * points + p]);
        inside[k][p] = place >= 0;
        any_inside[p] |= inside[k][p];
        some[p] = std::max(some[p], place);
        at[k][p] = place;
      }
    for (int k = 0; k < K; ++k)
      for (std::int64_t p = 0; p < count; ++p)
        if (!inside[k][p]) at[k][p] = some[p];
  }
};

}  // namespace

void sample_pixels(const View& samples, const View& image, const View& places,
                   const View& weights) {
  const Sizes s(image, places);
  dispatch_types<float, double>(image.dtype, "grid_sample", [&]<class T>() {
    with_each(s.each, [&]<int K>(std::integral_constant<int, K>) {
      s.for_each_block([&](std::int64_t n, std::int64_t first, std::int64_t count) {
        const std::int64_t of_image = n * K * s.points + first;
        const Block<K> block(places.as<std::int64_t>() + of_image, s.points, count);
        T w[K][kPoints];
        for (int k = 0; k < K; ++k)
          for (std::int64_t p = 0; p < count; ++p)
            w[k][p] = block.inside[k][p] ? weights.as<T>()[of_image + k * s.points + p] : T(0);
        for (std::int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
          const T* const plane = image.as<T>() + c * s.pixels;
          T* const to = samples.as<T>() + c * s.points + first;
          for (std::int64_t p = 0; p < count; ++p) {
            T sum = 0;
            for (int k = 0; k < K; ++k) sum += w[k][p] * plane[block.at[k][p]];
            to[p] = sum;
          }
          for (std::int64_t p = 0; p < count; ++p)
            if (!block.any_inside[p]) to[p] = 0;
        }
      });
    });
  });
}

void sample_weight_gradient(const View& grad_weights, const View& grad_samples, const View& image,
                            const View& places) {
  const Sizes s(image, places);
  dispatch_types<float, double>(image.dtype, "grid_sample", [&]<class T>() {
    with_each(s.each, [&]<int K>(std::integral_constant<int, K>) {
      s.for_each_block([&](std::int64_t n, std::int64_t first, std::int64_t count) {
        const std::int64_t of_image = n * K * s.points + first;
        const Block<K> block(places.as<std::int64_t>() + of_image, s.points, count);
        T* const to = grad_weights.as<T>() + of_image;
        for (int k = 0; k < K; ++k) std::fill_n(to + k * s.points, count, T(0));
        for (std::int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
          const T* const plane = image.as<T>() + c * s.pixels;
          const T* const dy = grad_samples.as<T>() + c * s.points + first;
          for (std::int64_t p = 0; p < count; ++p)
            for (int k = 0; k < K; ++k) to[k * s.points + p] += dy[p] * plane[block.at[k][p]];
        }
        for (int k = 0; k < K; ++k)
          for (std::int64_t p = 0; p < count; ++p)
            if (!block.inside[k][p]) to[k * s.points + p] = 0;
      });
    });
  });
}

void sample_image_gradient(const View& grad_image, const View& grad_samples, const View& places,
                           const View& weights) {
  const Sizes s(grad_image, places);
  dispatch_types<float, double>(grad_image.dtype, "grid_sample", [&]<class T>() {
    const std::int64_t work = std::max<std::int64_t>(1, s.each * s.points);
    parallel_for(s.images * s.channels, std::max<std::int64_t>(1, 16384 / work),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t p = begin; p < end; ++p) {
                     const std::int64_t of_image = p / s.channels * s.each * s.points;
                     const std::int64_t* const at = places.as<std::int64_t>() + of_image;
                     const T *const w = weights.as<T>() + of_image, *const dy =
                                                                        grad_samples.as<T>() +
                                                                        p * s.points;
                     T* const plane = grad_image.as<T>() + p * s.pixels;
                     for (std::int64_t k = 0; k < s.each; ++k)
                       for (std::int64_t i = 0; i < s.points; ++i) {
                         const std::int64_t j = k * s.points + i;
                         if (at[j] >= 0) plane[at[j]] += w[j] * dy[i];
                       }
                   }
                 });
  });
}

}  // namespace ferrite::kernels::cpu
