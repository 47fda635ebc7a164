// Comparison of tensors, with failures that show where and by how much they differ.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::test {

/// Relative tolerance of a result that was computed in float32 (float64) arithmetic and rounded to
/// `dtype` at the end; 0 for integers and bool.
inline double rounding_of(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return 1e-12;
    case kFloat32:
      return 1e-5;
    case kFloat16:
      return 1e-3;
    case kBFloat16:
      return 8e-3;
    default:
      return 0;
  }
}

/// "" if |actual - expected| <= atol + rtol * |expected| for every element (equal NaNs and
/// infinities agree), else a message with the worst elements. Shapes must agree; dtypes need not,
/// so that a float64 reference serves every type.
inline std::string difference(const Tensor& actual, const std::vector<double>& expected,
                              double rtol, double atol) {
  const std::vector<double> a = actual.to_vector<double>();
  if (a.size() != expected.size())
    return fmt::format("got {} elements, expected {}", a.size(), expected.size());
  struct Bad {
    std::size_t at;
    double error;
  };
  std::vector<Bad> bad;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == expected[i] || (std::isnan(a[i]) && std::isnan(expected[i]))) continue;
    const double error = std::abs(a[i] - expected[i]);
    if (!(error <= atol + rtol * std::abs(expected[i])) || std::isinf(expected[i]))
      bad.push_back({i, std::isnan(error) ? INFINITY : error});
  }
  if (bad.empty()) return "";
  std::stable_sort(bad.begin(), bad.end(),
                   [](const Bad& x, const Bad& y) { return x.error > y.error; });
  std::string text =
      fmt::format("{} of {} elements of {} differ (rtol {}, atol {}); the worst:", bad.size(),
                  a.size(), actual.describe(), rtol, atol);
  for (std::size_t k = 0; k < std::min<std::size_t>(bad.size(), 5); ++k) {
    std::string index;
    std::size_t rest = bad[k].at;
    for (int d = actual.dim() - 1; d >= 0; --d) {
      const std::size_t size = static_cast<std::size_t>(actual.shape()[d]);
      index = fmt::format("{}{}{}", rest % size, index.empty() ? "" : ", ", index);
      rest /= size;
    }
    text += fmt::format("\n  [{}] got {:.9g}, expected {:.9g}, off by {:.3g}", index, a[bad[k].at],
                        expected[bad[k].at], bad[k].error);
  }
  return text;
}

/// Fails the test if `actual` differs from `expected` (row-major) by more than the tolerance.
inline void check_close(const Tensor& actual, const std::vector<double>& expected,
                        double rtol = 1e-5, double atol = 0) {
  const std::string text = difference(actual, expected, rtol, atol);
  CHECK_MESSAGE(text.empty(), text);
}
/// The same with a tensor, whose shape must agree; its dtype need not.
inline void check_close(const Tensor& actual, const Tensor& expected, double rtol = 1e-5,
                        double atol = 0) {
  const std::string text =
      actual.shape() == expected.shape()
          ? difference(actual, expected.to_vector<double>(), rtol, atol)
          : fmt::format("got {}, expected {}", actual.describe(), expected.describe());
  CHECK_MESSAGE(text.empty(), text);
}
/// Fails the test unless dtype, shape and every bit of the values agree (any NaN equals any NaN).
inline void check_equal(const Tensor& actual, const Tensor& expected) {
  CHECK_MESSAGE(actual.dtype() == expected.dtype(), actual.describe());
  check_close(actual, expected, 0, 0);
}

}  // namespace ferrite::test
