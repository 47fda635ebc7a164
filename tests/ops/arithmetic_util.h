#pragma once

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite::test {

/// 0, 1, 2, ... in row-major order.
template <class T = float>
Tensor iota(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i);
  return from_vector(values, shape);
}

}  // namespace ferrite::test
