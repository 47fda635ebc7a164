#include "ferrite/kernels/grid_sample.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

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

/// The places of a block's points, and what is left of a term of each: all bits, or none where the
/// place is outside of the image. Loops over pixels need no branch, which the processor would often
/// predict wrongly. Nor do they gather vectors, which takes several times as long on many
/// processors; stores to memory that could be the image's keep the compiler from it.
template <int K, class T>
struct Block {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  std::int32_t at[K][kPoints];
  Bits inside[K][kPoints];
  bool all_inside = true;

  Block(const std::int64_t* places, std::int64_t points, std::int64_t count) {
    for (int k = 0; k < K; ++k)
      for (std::int64_t p = 0; p < count; ++p) {
        const std::int64_t place = places[k * points + p];
        at[k][p] = static_cast<std::int32_t>(std::max<std::int64_t>(place, 0));
        inside[k][p] = place >= 0 ? ~Bits() : Bits();
        all_inside &= place >= 0;
      }
  }
  T term(int k, std::int64_t p, T value) const {
    return std::bit_cast<T>(std::bit_cast<Bits>(value) & inside[k][p]);
  }
};

}  // namespace

void sample_places(const View& places, const SampleAxes& axes) {
  const std::int64_t images = places.sizes[0], points = places.sizes[2];
  const std::int64_t* const taps = axes.taps;
  dispatch_types<float, double>(axes.whole[0].dtype, "grid_sample", [&]<class T>() {
    parallel_for(images * taps[0], 1, [&](std::int64_t begin, std::int64_t end) {
      // The places of the taps before an axis, to which each of its own is added.
      const auto add = [&](auto&& self, int d, std::int64_t n, std::int64_t number, std::int64_t t,
                           const std::int64_t* before) -> void {
        const T* const whole = axes.whole[d].template as<T>() + (n * taps[d] + t) * points;
        number = number * taps[d] + t;
        std::int64_t* const to =
            places.as<std::int64_t>() + (n * places.sizes[1] + number) * points;
        const T last = static_cast<T>(axes.sizes[d] - 1);
        std::vector<std::int64_t> own(d + 1 < axes.count ? static_cast<std::size_t>(points) : 0);
        std::int64_t* const here = d + 1 < axes.count ? own.data() : to;
        const std::int64_t size = axes.sizes[d];
        for (std::int64_t p = 0; p < points; ++p) {
          const std::int64_t above = before ? before[p] : 0;
          const bool inside = (whole[p] >= 0) & (whole[p] <= last) & (above >= 0);
          const auto at = above * size + static_cast<std::int64_t>(inside ? whole[p] : T(0));
          here[p] = inside ? at : -1;
        }
        if (d + 1 < axes.count)
          for (std::int64_t next = 0; next < taps[d + 1]; ++next)
            self(self, d + 1, n, number, next, here);
      };
      for (std::int64_t i = begin; i < end; ++i) add(add, 0, i / taps[0], 0, i % taps[0], nullptr);
    });
  });
}

void sample_pixels(const View& samples, const View& image, const View& places,
                   const View& weights) {
  const Sizes s(image, places);
  dispatch_types<float, double>(image.dtype, "grid_sample", [&]<class T>() {
    with_each(s.each, [&]<int K>(std::integral_constant<int, K>) {
      s.for_each_block([&](std::int64_t n, std::int64_t first, std::int64_t count) {
        const std::int64_t of_image = n * K * s.points + first;
        const Block<K, T> block(places.as<std::int64_t>() + of_image, s.points, count);
        const T* const w = weights.as<T>() + of_image;
        for (std::int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
          const T* const plane = image.as<T>() + c * s.pixels;
          T* const to = samples.as<T>() + c * s.points + first;
          const auto run = [&](auto all_inside) {
            for (std::int64_t p = 0; p < count; ++p) {
              T sum = 0;
              for (int k = 0; k < K; ++k) {
                const T value = w[k * s.points + p] * plane[block.at[k][p]];
                sum += all_inside ? value : block.term(k, p, value);
              }
              to[p] = sum;
            }
          };
          block.all_inside ? run(std::true_type()) : run(std::false_type());
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
        const Block<K, T> block(places.as<std::int64_t>() + of_image, s.points, count);
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
            to[k * s.points + p] = block.term(k, p, to[k * s.points + p]);
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
