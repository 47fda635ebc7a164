// From a batch's statistics to what batch norm multiplies with, one channel at a time, in double.
#pragma once

#include <cuda_runtime.h>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

/// A running statistic, of any stride.
template <class R>
struct Running {
  R* data;
  std::int64_t stride;

  explicit Running(const View& v) : data(v.as<R>()), stride(v.data ? v.strides[0] : 0) {}
  __device__ void move(std::int64_t c, double momentum, double to) const {
    R& r = data[c * stride];
    r = static_cast<R>(static_cast<Compute<R>>(
        (1 - momentum) * static_cast<double>(static_cast<Compute<R>>(r)) + momentum * to));
  }
};

/// Mean and M2 from the sum and the sum of squares of `count` values.
template <class S>
__device__ void to_moments(double count, S& mean, S& m2) {
  const double sum = static_cast<double>(mean);
  const double average = count > 0 ? sum / count : 0;
  const double deviations = static_cast<double>(m2) - sum * average;
  mean = static_cast<S>(average);
  m2 = static_cast<S>(deviations < 0 ? 0 : deviations);  // NaN stays
}

/// S: the type of statistics, R: that of the running ones.
template <class S, class R>
struct Finish {
  const S *mean, *m2;
  bool are_sums;
  const S* count;  // null: n
  double n, momentum, eps;
  Running<R> running_mean, running_var;

  struct Result {
    S mean, invstd;
  };
  /// The results of channel c; also updates its running statistics if `moves`.
  __device__ Result operator()(std::int64_t c, bool moves) const {
    S average = mean[c], deviations = m2[c];
    if (are_sums) to_moments(n, average, deviations);
    const double values = count != nullptr ? static_cast<double>(*count) : n;
    const double squares = static_cast<double>(deviations);
    const double var = values > 0 ? squares / values : 0;
    if (moves && running_mean.data != nullptr && values > 1) {
      running_mean.move(c, momentum, static_cast<double>(average));
      running_var.move(c, momentum, squares / (values - 1));
    }
    return {average, static_cast<S>(1 / sqrt(var + eps))};
  }
};

}  // namespace ferrite::kernels::cuda
