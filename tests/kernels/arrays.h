// Test cases of kernels that work on many arrays at once.
#pragma once

#include <vector>

#include "ferrite/kernels/multi_tensor.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/kernel_case.h"

namespace ferrite::test {

using kernels::FlatTensors;
using kit::KernelCase;
using kit::Operand;
using kit::Side;

// Sizes around the kernels' packs and chunks; in a few cases more arrays than one launch takes.
inline std::vector<std::int64_t> draw_sizes(KernelCase& c) {
  std::vector<std::int64_t> sizes;
  if (c.integer(0, 9) == 0) {
    for (std::int64_t n = c.integer(60, 210); n > 0; --n) sizes.push_back(c.integer(0, 9));
  } else {
    for (std::int64_t n = c.integer(1, 4); n > 0; --n)
      sizes.push_back(c.coin() ? c.size(9000) : c.pick({0, 1, 3, 4095, 4096, 4097, 8191, 8193}));
  }
  return sizes;
}

inline Tensor numbers(const std::vector<double>& values, const Device& device) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())}).to(device);
}

/// The rounding error of subnormal float16 values.
inline constexpr double kHalfStep = 3e-8;

/// A scalar on the device that kernels read.
struct Control {
  Tensor tested, host;
  Control(KernelCase& c, double value, DType dtype)
      : tested(full({}, value, {.dtype = dtype}).to(c.device())),
        host(full({}, value, {.dtype = dtype})) {
    synchronize(c.device());  // the kit runs kernels on separate streams
  }
  template <class T>
  T* at(const Side& side) const {
    return (side.is_reference() ? host : tested).data<T>();
  }
};

struct FlatCase {
  std::vector<Operand> operands;
  std::vector<std::int64_t> sizes;
  DType dtype;

  FlatTensors at(const Side& side) const {
    FlatTensors tensors{.arrays = {}, .dtype = side.dtype(dtype)};
    for (std::size_t i = 0; i < operands.size(); ++i)
      tensors.arrays.push_back({side(operands[i]).data, sizes[i]});
    return tensors;
  }
  void check(KernelCase& c, const kit::Tolerance& tolerance = {}) const {
    for (const Operand& operand : operands) c.check(operand, tolerance);
  }
};

template <class Make>
FlatCase flat(const std::vector<std::int64_t>& sizes, DType dtype, Make&& make) {
  FlatCase f{{}, sizes, dtype};
  for (const std::int64_t numel : sizes) f.operands.push_back(make(Shape{numel}, dtype));
  return f;
}
inline FlatCase flat_inout(KernelCase& c, DType dtype) {
  return flat(draw_sizes(c), dtype,
              [&](const Shape& shape, DType type) { return c.inout(shape, type); });
}
inline FlatCase flat_input(KernelCase& c, DType dtype, double low = -2) {
  return flat(draw_sizes(c), dtype,
              [&](const Shape& shape, DType type) { return c.input(shape, type, {.low = low}); });
}

}  // namespace ferrite::test
