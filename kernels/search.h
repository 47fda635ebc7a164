// Places in sorted rows.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// out (int64, the sizes of `values`) = the first place in the row of `rows` at which the value can
/// be put so that the row stays sorted, or (right) the last one; NaN counts as larger than every
/// number. `rows` [n, size], or [1, size] for one row that all share, and `values` [n, m] have one
/// dtype; all are contiguous.
FERRITE_KERNEL(search, const View& out, const View& rows, const View& values, bool right);

/// The index at which `value` is inserted among `n` sorted elements.
template <class T, class Read>
constexpr std::int64_t place_of(T value, std::int64_t n, bool right, const Read& element) {
  std::int64_t first = 0;
  while (n > 0) {
    const std::int64_t half = n / 2;
    const T x = element(first + half);
    // Whether the index is after x.
    const bool behind = right ? !(value < x || (value == value && x != x))
                              : x < value || (x == x && value != value);
    first = behind ? first + half + 1 : first;
    n = behind ? n - half - 1 : half;
  }
  return first;
}

}  // namespace ferrite::kernels
