// Naive float64 references for the tests of reductions, softmax and losses.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/message.h"

namespace ferrite::test {

/// Numbers from -2 to 2 in steps of 1/64, exact in every floating type (uint8: 0 to 3; bool).
inline Tensor numbers(const Shape& shape, DType dtype = kFloat64, std::uint64_t seed = 1) {
  Generator generator(seed);
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& v : values) {
    const double step = static_cast<double>(static_cast<int>(generator.next_double() * 257) - 128);
    v = is_floating(dtype)                  ? step / 64
        : dtype == kUInt8 || dtype == kBool ? static_cast<double>(static_cast<int>(step + 128) % 4)
                                            : step;
    if (dtype == kBool) v = v != 0;
  }
  return from_vector(values, shape).to(dtype);
}

/// The values of each group of `t` that reducing `dims` (none: all) makes one of, in order.
inline std::vector<std::vector<double>> groups(const Tensor& t, const Shape& dims) {
  const std::vector<double> values = t.to_vector<double>();
  std::vector<bool> gone(8, dims.empty());
  for (std::int64_t d : dims) gone[static_cast<std::size_t>(d < 0 ? d + t.dim() : d)] = true;
  std::int64_t outputs = 1;
  for (int d = 0; d < t.dim(); ++d)
    if (!gone[static_cast<std::size_t>(d)]) outputs *= t.shape()[d];
  std::vector<std::vector<double>> result(static_cast<std::size_t>(outputs));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), at = 0, scale = 1;
    for (int d = t.dim() - 1; d >= 0; --d) {
      const std::int64_t index = rest % t.shape()[d];
      rest /= t.shape()[d];
      if (gone[static_cast<std::size_t>(d)]) continue;
      at += index * scale;
      scale *= t.shape()[d];
    }
    result[static_cast<std::size_t>(at)].push_back(values[i]);
  }
  return result;
}

/// f of each group.
inline std::vector<double> reference(const Tensor& t, const Shape& dims,
                                     const std::function<double(const std::vector<double>&)>& f) {
  std::vector<double> result;
  for (const auto& g : groups(t, dims)) result.push_back(f(g));
  return result;
}

inline double total(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum;
}

/// The gradient of `x` under f's elements weighted with 1, 2, 3, ..., as in the golden files.
inline Tensor weighted_gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const Tensor leaf = x.detach().clone().set_requires_grad();
  const Tensor out = f(leaf);
  std::vector<double> weights(static_cast<std::size_t>(out.numel()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i + 1);
  out.backward(from_vector(weights, out.shape()).to(out.dtype()));
  return leaf.grad();
}

}  // namespace ferrite::test
