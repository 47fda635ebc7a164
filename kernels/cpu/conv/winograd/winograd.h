// Convolutions of 3 x 3 taps in steps of 1 by Winograd's algorithm (transform.h): forward, and the
// gradient by the input, which is one with the turned, transposed filter. For float and double.
#pragma once

#include "ferrite/kernels/cpu/conv/correlate.h"

namespace ferrite::kernels::cpu::winograd {

/// out(n, o, y, x) = bias(o) + the sum over c, i, j of
/// in(n, c, y + i - top, x + j - left) filter(o, c, i, j).
template <class T>
struct Problem {
  Images<T> out;
  Images<const T> in;
  Filter<T> filter;
  const T* bias = nullptr;
  std::int64_t bias_step = 0;
  std::int64_t top = 0, left = 0;
  bool relu = false;
};

/// Whether a convolution with such a weight has these taps and steps.
bool fits(const View& weight, const ConvParams& params);

/// Products of a direct sum from which on tiles of 4 x 4 results are chosen: their maps round more
/// than those of 2 x 2, which sums of so many hide (docs/cpu.md).
inline constexpr std::int64_t kProductsFor4 = 9 * 64;

/// Whether to take Winograd's algorithm, given what the direct ones take for an image, in
/// multiplications of vectors: the one that works on pixels whose channels are side by side (images
/// that lie otherwise are copied, as they are here) and the one on planes.
template <class T>
bool pays(const Problem<T>& problem, std::int64_t by_pixels, std::int64_t by_planes);

/// In correlate_<type>.cpp.
template <class T>
void correlate(const Problem<T>& problem);

/// Results a side of the tile to work with, 2 or 4, and the cycles that the convolution of an image
/// takes with it, channels side by side.
struct Plan {
  int m;
  std::int64_t cycles;
};
template <class T>
Plan plan(const Problem<T>& problem);

/// The gradient by the input as a correlation.
template <class T>
Filter<T> turned(Filter<T> f) {
  f.data += 2 * f.row_step + 2 * f.column_step;
  f.row_step = -f.row_step;
  f.column_step = -f.column_step;
  return f;
}

}  // namespace ferrite::kernels::cpu::winograd
