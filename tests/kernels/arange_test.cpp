#include "ferrite/kernels/arange.h"

#include <doctest/doctest.h>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;

namespace {

DType numeric_dtype(KernelCase& c) {
  return c.pick({kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kUInt8});
}
Shape draw_shape(KernelCase& c) { return {c.coin() ? c.size(2100, 0) : c.integer(1, 9000)}; }

/// The host computes in double as well, where one operation less may be rounded; in 16 bits a
/// number between two values may then round to either.
kit::Tolerance tolerance_of(DType dtype) {
  return {.rtol = dtype == kFloat64    ? 1e-15
                  : dtype == kFloat32  ? 6e-8
                  : dtype == kFloat16  ? 5e-4
                  : dtype == kBFloat16 ? 4e-3
                                       : 0,
          .atol = is_floating(dtype) ? 1e-12 : 0};
}

}  // namespace

TEST_CASE("arange in every dtype, with whole and broken steps") {
  kit::for_each_case("arange", 100, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = numeric_dtype(c);
    const bool whole = c.coin();
    // uint8 keeps the low byte of larger values.
    const Scalar start = whole ? Scalar(c.integer(0, 50)) : Scalar(c.pick({0.0, 2.75, 17.0}));
    const Scalar step = whole ? Scalar(c.pick({1, 2, 5})) : Scalar(c.pick({0.5, 0.25, 2.0}));
    const Operand out = c.output(draw_shape(c), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::arange(stream, at(out), start, step);
    });
    c.check(out, tolerance_of(dtype));
  });
}

TEST_CASE("arange steps down, and over the whole range of int64") {
  for (const Device& device : kit::test_devices()) {
    const Stream& stream = current_stream(device);
    const Tensor down = empty({4}, {.dtype = kInt32, .device = device});
    kernels::arange(stream, down, 3, -2);
    CHECK(down.to_vector<std::int32_t>() == std::vector<std::int32_t>{3, 1, -1, -3});
    const Tensor wide = empty({3}, {.dtype = kInt64, .device = device});
    kernels::arange(stream, wide, INT64_MIN, INT64_MAX);
    CHECK(wide.to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{INT64_MIN, -1, INT64_MAX - 1});
  }
}

TEST_CASE("linspace in every dtype ends where it should") {
  kit::for_each_case("linspace", 80, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = numeric_dtype(c);
    const double start = c.pick({0.0, 100.0, 3.5}), end = c.pick({1.0, 200.0, 77.5});
    const Operand out = c.output(draw_shape(c), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::linspace(stream, at(out), start, end);
    });
    // An integer is truncated from a number that may be one rounding below it.
    kit::Tolerance tolerance = tolerance_of(dtype);
    if (!is_floating(dtype)) tolerance.atol = 1;
    c.check(out, tolerance);
    const std::vector<double> values = c.result(out).to_vector<double>();
    if (is_floating(dtype) && values.size() > 1 &&
        (values.front() != start || values.back() != end))
      c.fail("the ends are not exact");
  });
}
