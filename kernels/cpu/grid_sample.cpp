#include "ferrite/kernels/grid_sample.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ferrite/core/error.h"
#include "ferrite/core/parallel_for.h"

namespace ferrite::kernels::cpu {

namespace {

/// Points whose places and sums stay in a near cache while all channels go by.
constexpr std::int64_t kPoints = 256;

/// f(the number of taps as a constant, which makes loops over them faster).
template <class F>
void with_taps(std::int64_t taps, F&& f) {
  switch (taps) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    case 16:
      return f(std::integral_constant<int, 16>());
    default:
      fail<ValueError>("grid_sample", "expected 1, 4, 8 or 16 pixels a point, got {}", taps);
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

/// f(block of points, image, the first of the block's values in [N, K, points], its first point,
/// the number of its points), several at a time.
template <class T, int K, class F>
void for_each_block(const SampleSizes& s, const View& places, F&& f) {
  FERRITE_CHECK(s.pixels <= std::numeric_limits<std::int32_t>::max(), ShapeError, "grid_sample",
                "expected images of fewer than 2^31 pixels, got {}", s.pixels);
  const std::int64_t blocks = (s.points + kPoints - 1) / kPoints;
  const std::int64_t work = std::max<std::int64_t>(1, std::min(s.points, kPoints) * K * s.channels);
  parallel_for(s.images * blocks, std::max<std::int64_t>(1, 16384 / work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t b = begin; b < end; ++b) {
                   const std::int64_t n = b / blocks, first = b % blocks * kPoints;
                   const std::int64_t count = std::min(kPoints, s.points - first);
                   const std::int64_t at = n * K * s.points + first;
                   f(Block<K, T>(places.as<std::int64_t>() + at, s.points, count), n, at, first,
                     count);
                 }
               });
}

}  // namespace

void sample_places(const View& places, const SampleAxes& axes) {
  const std::int64_t points = places.sizes[2], taps = places.sizes[1];
  dispatch_types<float, double>(axes.whole[0].dtype, "grid_sample", [&]<class T>() {
    const auto find_places = [&](std::int64_t line) {  // of the lines of [N, K, points]
      std::int64_t* const to = places.as<std::int64_t>() + line * points;
      std::fill_n(to, points, std::int64_t{0});
      std::int64_t lines = taps;  // with the same tap of the axes until now
      for (int d = 0; d < axes.count; ++d) {
        lines /= axes.taps[d];
        const std::int64_t tap = line / taps * axes.taps[d] + line / lines % axes.taps[d];
        const T* const whole = axes.whole[d].as<T>() + tap * points;
        const std::int64_t size = axes.sizes[d];
        const T last = static_cast<T>(size - 1);
        for (std::int64_t p = 0; p < points; ++p) {
          const bool inside = (whole[p] >= 0) & (whole[p] <= last) & (to[p] >= 0);
          const auto at = to[p] * size + static_cast<std::int64_t>(inside ? whole[p] : T(0));
          to[p] = inside ? at : -1;
        }
      }
    };
    parallel_for(places.sizes[0] * taps,
                 std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, points)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t line = begin; line < end; ++line) find_places(line);
                 });
  });
}

void sample_pixels(const View& samples, const View& image, const View& places,
                   const View& weights) {
  const SampleSizes s(image, places);
  dispatch_types<float, double>(image.dtype, "grid_sample", [&]<class T>() {
    with_taps(s.taps, [&]<int K>(std::integral_constant<int, K>) {
      for_each_block<T, K>(s, places,
                           [&](const Block<K, T>& block, std::int64_t n, std::int64_t at,
                               std::int64_t first, std::int64_t count) {
                             const T* const w = weights.as<T>() + at;
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
  const SampleSizes s(image, places);
  dispatch_types<float, double>(image.dtype, "grid_sample", [&]<class T>() {
    with_taps(s.taps, [&]<int K>(std::integral_constant<int, K>) {
      for_each_block<T, K>(s, places,
                           [&](const Block<K, T>& block, std::int64_t n, std::int64_t at,
                               std::int64_t first, std::int64_t count) {
                             T* const to = grad_weights.as<T>() + at;
                             for (int k = 0; k < K; ++k)
                               std::fill_n(to + k * s.points, count, T(0));
                             for (std::int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
                               const T* const plane = image.as<T>() + c * s.pixels;
                               const T* const dy = grad_samples.as<T>() + c * s.points + first;
                               for (std::int64_t p = 0; p < count; ++p)
                                 for (int k = 0; k < K; ++k)
                                   to[k * s.points + p] += dy[p] * plane[block.at[k][p]];
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
  const SampleSizes s(grad_image, places);
  const std::int64_t work = std::max<std::int64_t>(1, s.taps * s.points);
  dispatch_types<float, double>(grad_image.dtype, "grid_sample", [&]<class T>() {
    const auto add_plane = [&](std::int64_t plane) {
      const std::int64_t of_image = plane / s.channels * s.taps * s.points;
      const std::int64_t* const at = places.as<std::int64_t>() + of_image;
      const T* const w = weights.as<T>() + of_image;
      const T* const dy = grad_samples.as<T>() + plane * s.points;
      T* const dx = grad_image.as<T>() + plane * s.pixels;
      for (std::int64_t k = 0; k < s.taps; ++k)
        for (std::int64_t p = 0; p < s.points; ++p) {
          const std::int64_t j = k * s.points + p;
          if (at[j] >= 0) dx[at[j]] += w[j] * dy[p];
        }
    };
    parallel_for(s.images * s.channels, std::max<std::int64_t>(1, 16384 / work),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t plane = begin; plane < end; ++plane) add_plane(plane);
                 });
  });
}

}  // namespace ferrite::kernels::cpu
