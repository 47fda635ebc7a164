// The index arithmetic of a convolution and of its input gradient, along one axis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ferrite::kernels {

/// One axis of a correlation. Result i (of `count`) is stored at out_first + i * out_step. It is
/// the sum, over t < taps, of the input at i * stride + first + t * step times the weight at
/// kernel_first + t * kernel_step.
struct Axis {
  std::int64_t count, taps;
  std::int64_t stride, first, step;
  std::int64_t out_first, out_step;
  std::int64_t kernel_first, kernel_step;

  /// The number of results at output positions below `begin`.
  std::int64_t results_before(std::int64_t begin) const {
    return std::clamp<std::int64_t>((begin - out_first + out_step - 1) / out_step, 0, count);
  }
};

inline Axis forward_axis(std::int64_t out, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation) {
  return {out, kernel, stride, -padding, dilation, 0, 1, 0, 1};
}

/// The axes of the gradient with respect to the input: one for each residue of the position modulo
/// the stride.
inline std::vector<Axis> backward_axes(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                                       std::int64_t padding, std::int64_t dilation) {
  std::vector<Axis> axes;
  const std::int64_t every = stride / std::gcd(stride, dilation);  // taps that share a residue
  for (std::int64_t phase = 0; phase < std::min(stride, in); ++phase) {
    Axis axis{(in - phase - 1) / stride + 1,
              0,
              1,
              0,
              every * dilation / stride,
              phase,
              stride,
              0,
              -every};
    std::int64_t tap = 0;
    while (tap < std::min(kernel, every) && (phase + padding - tap * dilation) % stride != 0) ++tap;
    if (tap < std::min(kernel, every)) {
      axis.taps = (kernel - tap - 1) / every + 1;
      // Taps are in descending order, so that positions ascend.
      axis.kernel_first = tap + (axis.taps - 1) * every;
      axis.first = (phase + padding - axis.kernel_first * dilation) / stride;
    }
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace ferrite::kernels
