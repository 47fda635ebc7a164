// Convolutions of 3 x 3 or 5 x 5 taps in steps of 1 by Winograd's algorithm (transform.h): forward,
// and the gradient by the input, which is one with the turned, transposed filter. For float and
// double.
#pragma once

#include "ferrite/kernels/cpu/conv/image.h"

namespace ferrite::kernels::cpu::winograd {

/// out(n, o, y, x) = bias(o) + the sum over c, i, j of
/// in(n, c, y + i - top, x + j - left) filter(o, c, i, j).
template <class T>
struct Problem : Group<T> {
  std::int64_t top = 0, left = 0;
  bool relu = false;
};

/// With tiles of `results` x `results` results, 2 or with 3 x 3 taps 4. In correlate_<type>.cpp.
template <class T>
void correlate(const Problem<T>& problem, int results, int taps);

/// The gradient by the input as a correlation.
template <class T>
Group<T> turned(Group<T> group, std::int64_t taps) {
  Filter<T>& f = group.filter;
  f.data += (taps - 1) * (f.row_step + f.column_step);
  f.row_step = -f.row_step;
  f.column_step = -f.column_step;
  return group;
}

}  // namespace ferrite::kernels::cpu::winograd
