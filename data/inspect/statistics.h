// Numbers about tensors, computed in double precision; the same for any number of threads. They are
// read by their strides, without a copy.
#pragma once

#include <complex>
#include <cstdint>
#include <unordered_set>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::inspect {

struct Statistics {
  std::complex<double> sum = 0;  ///< real but for complex tensors
  double norm = 0;               ///< the root of the sum of squared magnitudes
};
/// The statistics of a host tensor; a true counts as 1.
Statistics statistics_of(const Tensor& tensor);

struct Difference {
  double greatest = 0;        ///< |a - b|; NaN where only one of them is, 0 where both are
  std::int64_t position = 0;  ///< of that element, row-major
  std::int64_t unequal = 0;   ///< number of elements
};
/// The difference of two host tensors of one shape. A complex number is NaN if a part of it is.
Difference difference_of(const Tensor& a, const Tensor& b);

/// How many elements may be read or written. Strides of 0 make a view of a few bytes have billions
/// of elements, so that the work would have nothing to do with the size of the file.
class ElementBudget {
 public:
  /// 16 elements for each byte of the tensors' memory, and a million for all.
  explicit ElementBudget(const StateDict& tensors) { add(tensors); }
  void add(const StateDict& tensors);
  /// Whether the elements are within what is left, from which they are taken then.
  bool take(const Tensor& tensor);

 private:
  std::int64_t left_ = 1'000'000;
  std::unordered_set<const Storage*> counted_;
};

}  // namespace ferrite::inspect
