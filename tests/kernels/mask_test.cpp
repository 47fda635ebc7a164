// masked_fill and triangle of kernels/index.h.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/kernels/index.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::Triangle;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

DType any_dtype(KernelCase& c) {
  return c.pick(
      {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
}

}  // namespace

TEST_CASE("masked_fill of operands of any layout and dtype") {
  kit::for_each_case("masked_fill", 80, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    const Shape shape = c.coin() ? c.shape() : Shape{c.integer(3000, 12000)};
    const bool in_place = c.coin();
    const Operand mask = c.input(shape, kBool, {.layout = Layout::any});
    const Operand x = in_place ? c.inout(shape, dtype, {.layout = Layout::any})
                               : c.input(shape, dtype, {.layout = Layout::any});
    const Operand out = in_place ? x : c.output(shape, dtype, {.layout = Layout::any});
    const Scalar value = is_floating(dtype) ? Scalar(-INFINITY) : Scalar(dtype == kBool ? 1 : 77);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::masked_fill(stream, at(out), at(x), at(mask), value);
    });
    c.check(out, {.rtol = 0});
  });
}

TEST_CASE("triangles of matrices and batches, of every dtype, in place too") {
  kit::for_each_case("triangle", 120, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    const std::int64_t rows = c.integer(1, 40),
                       cols = c.coin() ? 8 * c.integer(1, 9) : c.integer(1, 70);
    const Shape shape = c.coin() ? Shape{rows, cols} : Shape{c.integer(1, 4), rows, cols};
    const Triangle part = c.coin() ? Triangle::lower : Triangle::upper;
    const std::int64_t diagonal =
        c.coin() ? c.integer(-3, 3)
                 : c.pick<std::int64_t>({-40, 70, -100000, INT64_MIN / 2, INT64_MAX / 2});
    const bool in_place = c.coin();
    const Operand x = in_place ? c.inout(shape, dtype) : c.input(shape, dtype);
    const Operand out = in_place ? x : c.output(shape, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::triangle(stream, at(out), at(x), part, diagonal);
    });
    c.check(out, {.rtol = 0});
  });
}

TEST_CASE("the triangle of nothing") {
  for (const Device& device : kit::test_devices()) {
    const Tensor none = empty({0, 3}, {.device = device});
    kernels::triangle(current_stream(device), none, none, Triangle::lower, 0);
    kernels::masked_fill(current_stream(device), none, none,
                         empty({0, 3}, {.dtype = kBool, .device = device}), 1);
    current_stream(device).synchronize();
  }
}
