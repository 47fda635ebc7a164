#include <algorithm>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/grid_sample.h"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kSampleThreads = 128;
constexpr std::int64_t kSampleChannels = 8;  // that a thread has, with places read once

/// A thread has a place.
template <class T>
__global__ void __launch_bounds__(kSampleThreads)
    find_places(const __grid_constant__ SampleAxes axes, std::int64_t taps, std::int64_t points,
                std::int64_t count, std::int64_t* places) {
  const std::int64_t item = thread_in_grid<kSampleThreads>(), point = item % points;
  if (item >= count) return;
  const std::int64_t n = item / points / taps;
  std::int64_t number = item / points % taps, place = 0, step = 1;
  bool inside = true;
  for (int d = axes.count - 1; d >= 0; --d) {
    const auto* const values = static_cast<const T*>(axes.whole[d].data);
    const T whole = values[(n * axes.taps[d] + number % axes.taps[d]) * points + point];
    const bool here = whole >= 0 && whole <= static_cast<T>(axes.sizes[d] - 1);
    place += here ? static_cast<std::int64_t>(whole) * step : 0;
    inside = inside && here;
    number /= axes.taps[d];
    step *= axes.sizes[d];
  }
  places[item] = inside ? place : -1;
}

/// A thread has a point and some channels; threads of a warp have neighbours.
template <class T>
__global__ void __launch_bounds__(kSampleThreads)
    sample(SampleSizes s, std::int64_t groups, const T* image, const std::int64_t* places,
           const T* weights, T* samples) {
  const std::int64_t item = thread_in_grid<kSampleThreads>(), point = item % s.points;
  const std::int64_t group = item / s.points % groups, n = item / s.points / groups;
  if (n >= s.images) return;
  const std::int64_t first = group * kSampleChannels;
  T sums[kSampleChannels] = {};
  for (std::int64_t k = 0; k < s.taps; ++k) {
    const std::int64_t j = (n * s.taps + k) * s.points + point, at = places[j];
    if (at < 0) continue;
    const T w = weights[j];
    const T* const from = image + (n * s.channels + first) * s.pixels + at;
#pragma unroll
    for (int c = 0; c < kSampleChannels; ++c)
      if (first + c < s.channels) sums[c] += w * from[c * s.pixels];
  }
#pragma unroll
  for (int c = 0; c < kSampleChannels; ++c)
    if (first + c < s.channels) samples[(n * s.channels + first + c) * s.points + point] = sums[c];
}

/// A thread has a weight.
template <class T>
__global__ void __launch_bounds__(kSampleThreads)
    weight_gradient(SampleSizes s, const T* grad_samples, const T* image,
                    const std::int64_t* places, T* grad_weights) {
  const std::int64_t item = thread_in_grid<kSampleThreads>(), point = item % s.points;
  const std::int64_t n = item / s.points / s.taps;
  if (n >= s.images) return;
  const std::int64_t at = places[item];
  T sum = 0;
  if (at >= 0)
    for (std::int64_t c = 0; c < s.channels; ++c)
      sum += grad_samples[(n * s.channels + c) * s.points + point] *
             image[(n * s.channels + c) * s.pixels + at];
  grad_weights[item] = sum;
}

/// The terms of the image's gradient of each point's pixel k, [N, C, points], and their places,
/// [N, points]. Those that are outside add 0 to different pixels: one thread may add all that a
/// pixel gets.
template <class T>
__global__ void __launch_bounds__(kSampleThreads)
    image_terms(SampleSizes s, std::int64_t k, const T* grad_samples, const std::int64_t* places,
                const T* weights, T* terms, std::int64_t* inside) {
  const std::int64_t item = thread_in_grid<kSampleThreads>(), point = item % s.points,
                     plane = item / s.points;
  const std::int64_t n = plane / s.channels;
  if (n >= s.images) return;
  const std::int64_t tap = (n * s.taps + k) * s.points + point, at = places[tap];
  terms[item] = at < 0 ? T(0) : weights[tap] * grad_samples[item];
  if (plane % s.channels == 0) inside[n * s.points + point] = at < 0 ? point % s.pixels : at;
}

/// [N, C, count], with a step of 0 between the channels where they share.
View planes(void* data, DType dtype, const SampleSizes& s, std::int64_t count, bool shared) {
  View v;
  v.data = data;
  v.numel = s.images * s.channels * count;
  v.ndim = 3;
  v.dtype = dtype;
  const std::int64_t sizes[] = {s.images, s.channels, count};
  const std::int64_t strides[] = {shared ? count : s.channels * count, shared ? 0 : count, 1};
  std::copy_n(sizes, 3, v.sizes);
  std::copy_n(strides, 3, v.strides);
  return v;
}

}  // namespace

void sample_places(const Stream& stream, const View& places, const SampleAxes& axes) {
  dispatch_types<float, double>(axes.whole[0].dtype, "grid_sample", [&]<class T>() {
    launch({"grid_sample_places", stream, blocks_for(places.numel, kSampleThreads), kSampleThreads},
           find_places<T>, axes, places.sizes[1], places.sizes[2], places.numel,
           places.as<std::int64_t>());
  });
}

void sample_pixels(const Stream& stream, const View& samples, const View& image, const View& places,
                   const View& weights) {
  const SampleSizes s(image, places);
  const std::int64_t groups = (s.channels + kSampleChannels - 1) / kSampleChannels;
  dispatch_types<float, double>(image.dtype, "grid_sample", [&]<class T>() {
    launch({"grid_sample", stream, blocks_for(s.images * groups * s.points, kSampleThreads),
            kSampleThreads},
           sample<T>, s, groups, image.as<T>(), places.as<std::int64_t>(), weights.as<T>(),
           samples.as<T>());
  });
}

void sample_weight_gradient(const Stream& stream, const View& grad_weights,
                            const View& grad_samples, const View& image, const View& places) {
  const SampleSizes s(image, places);
  dispatch_types<float, double>(image.dtype, "grid_sample", [&]<class T>() {
    launch({"grid_sample_weight_gradient", stream,
            blocks_for(s.images * s.taps * s.points, kSampleThreads), kSampleThreads},
           weight_gradient<T>, s, grad_samples.as<T>(), image.as<T>(), places.as<std::int64_t>(),
           grad_weights.as<T>());
  });
}

void sample_image_gradient(const Stream& stream, const View& grad_image, const View& grad_samples,
                           const View& places, const View& weights) {
  const SampleSizes s(grad_image, places);
  const std::int64_t count = s.images * s.channels * s.points;
  if (count == 0) return;
  dispatch_types<float, double>(grad_image.dtype, "grid_sample", [&]<class T>() {
    const Workspace terms(stream, sizeof(T) * static_cast<std::size_t>(count));
    const Workspace inside(stream,
                           sizeof(std::int64_t) * static_cast<std::size_t>(s.images * s.points));
    for (std::int64_t k = 0; k < s.taps; ++k) {
      launch({"grid_sample_image_terms", stream, blocks_for(count, kSampleThreads), kSampleThreads},
             image_terms<T>, s, k, grad_samples.as<T>(), places.as<std::int64_t>(), weights.as<T>(),
             terms.as<T>(), inside.as<std::int64_t>());
      scatter_add(stream, "grid_sample",
                  planes(grad_image.data, grad_image.dtype, s, s.pixels, false),
                  planes(inside.as<void>(), kInt64, s, s.points, true),
                  planes(terms.as<void>(), grad_image.dtype, s, s.points, false), 2);
    }
  });
}

}  // namespace ferrite::kernels::cuda
