// Numbers about tensors, computed in double precision; the same for any number of threads.
#pragma once

#include <cstdint>
#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite::inspect {

struct Statistics {
  double sum = 0;
  double norm = 0;  ///< the root of the sum of squares
};
/// The statistics of a host tensor; a true counts as 1.
Statistics statistics_of(const Tensor& tensor);

struct Difference {
  double greatest = 0;        ///< |a - b|; NaN where only one of them is, 0 where both are
  std::int64_t position = 0;  ///< of that element, row-major
  std::int64_t unequal = 0;   ///< number of elements
};
/// The difference of two host tensors of one shape.
Difference difference_of(const Tensor& a, const Tensor& b);

}  // namespace ferrite::inspect
