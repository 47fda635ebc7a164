// Helpers of the core tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"

namespace ferrite::test {

/// What the E that f() throws says; says so where it throws nothing or something else.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "no exception";
}

/// 0, 1, 2, ... in row-major order.
template <class T = float>
Tensor iota(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i);
  return from_vector(values, shape);
}

}  // namespace ferrite::test
