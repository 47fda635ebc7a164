#include "ferrite/kernels/combine.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::Combine;
using kit::KernelCase;
using kit::Operand;

namespace {

constexpr auto kOps = {Combine::sum, Combine::product, Combine::min, Combine::max};

Combine draw_op(KernelCase& c) { return c.pick(kOps); }

// Sums and products are rounded to the compute type before they are scaled and stored.
kit::Tolerance tolerance(DType out, DType b) {
  if (!is_floating(out)) return {.rtol = 0};
  const double compute = b == kFloat64 ? 3e-16 : 3e-7;
  return {.rtol = out == kFloat16    ? 1.0 / 1024
                  : out == kBFloat16 ? 1.0 / 128
                                     : compute,
          .atol = out == kFloat16 ? 6e-8
                  : b == kFloat64 ? 3e-16
                                  : 3e-7};
}

}  // namespace

TEST_CASE("combine of two arrays of one dtype, scaled") {
  kit::for_each_case("combine", 80, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kUInt8});
    const Combine op = draw_op(c);
    const double scale = is_floating(dtype) ? c.pick({1.0, 0.25, 1.0 / 3}) : 1;
    const double special = op == Combine::min || op == Combine::max ? 0.05 : 0;
    const Shape shape{c.size(20000)};
    const kit::OperandOptions options{.low = is_floating(dtype) ? -2.0 : 0,
                                      .high = 90,
                                      .special = is_floating(dtype) ? special : 0};
    const Operand a = c.input(shape, dtype, options), b = c.input(shape, dtype, options);
    const Operand out = c.output(shape, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::combine(stream, op, at(out), at(a), at(b), scale);
    });
    c.check(out, tolerance(dtype, dtype));
  });
}

TEST_CASE("combine in place, into either operand, and of unequal alignments") {
  kit::for_each_case("combine in place", 30, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kInt32});
    const Combine op = draw_op(c);
    const Shape shape{c.size(3000)};
    const bool first = c.coin();
    const auto add = [&](bool written) {
      const kit::OperandOptions options{.misalignment = static_cast<int>(c.integer(0, 7))};
      return written ? c.inout(shape, dtype, options) : c.input(shape, dtype, options);
    };
    const Operand a = add(first), b = add(!first);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::combine(stream, op, at(first ? a : b), at(a), at(b));
    });
    c.check(first ? a : b, tolerance(dtype, dtype));
  });
}

TEST_CASE("combine keeps sums of 16-bit values in float32") {
  kit::for_each_case("combine 16-bit", 60, [](KernelCase& c) {
    const DType half = c.pick({kFloat16, kBFloat16});
    const DType in = c.pick({kFloat32, half}), result = c.pick({kFloat32, half});
    const Combine op = draw_op(c);
    const double scale = c.pick({1.0, 1.0 / 3});
    const Shape shape{c.size(5000)};
    const Operand a = c.input(shape, in, {.low = 0}), b = c.input(shape, half, {.low = 0});
    const Operand out = c.output(shape, result);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::combine(stream, op, at(out), at(a), at(b), scale);
    });
    c.check(out, tolerance(result, half));
  });
}

TEST_CASE("combine wraps integers around, and propagates NaN") {
  const Stream stream;
  std::int32_t a[2] = {2147483647, -2147483647}, b[2] = {1, 2147483647};
  const auto view = [](auto& values, std::size_t n) {
    kernels::View v;
    v.data = &values[0];
    v.numel = v.sizes[0] = static_cast<std::int64_t>(n);
    v.strides[0] = v.ndim = 1;
    v.dtype = dtype_of<std::remove_reference_t<decltype(values[0])>>;
    return v;
  };
  std::int32_t out[2];
  kernels::combine(stream, Combine::sum, view(out, 2), view(a, 2), view(b, 2));
  CHECK(out[0] == -2147483647 - 1);
  CHECK(out[1] == 0);
  std::uint8_t c[1] = {200}, d[1] = {100};
  kernels::combine(stream, Combine::sum, view(c, 1), view(c, 1), view(d, 1));
  CHECK(c[0] == 44);
  kernels::combine(stream, Combine::product, view(c, 1), view(c, 1), view(d, 1));
  CHECK(c[0] == 4400 % 256);
  for (const Combine op : {Combine::min, Combine::max}) {
    float x[20], y[20];
    for (int i = 0; i < 20; ++i) x[i] = y[i] = 1;
    x[3] = y[17] = x[18] = NAN;
    kernels::combine(stream, op, view(x, 20), view(x, 20), view(y, 20));
    for (int i = 0; i < 20; ++i) CHECK(std::isnan(x[i]) == (i == 3 || i == 17 || i == 18));
  }
}

TEST_CASE("combine rejects operands that do not match") {
  const Stream stream;
  float a[4] = {};
  Half h[4] = {};
  kernels::View x, y;
  x.data = a, x.numel = x.sizes[0] = 4, x.strides[0] = x.ndim = 1;
  y = x;
  y.numel = y.sizes[0] = 3;
  CHECK_THROWS_AS(kernels::combine(stream, Combine::sum, x, x, y), ShapeError);
  y = x;
  y.data = h, y.dtype = kFloat16;
  CHECK_THROWS_AS(kernels::combine(stream, Combine::sum, x, y, x), DTypeError);
  x.dtype = kInt32;
  CHECK_THROWS_AS(kernels::combine(stream, Combine::sum, x, x, x, 0.5), DTypeError);
  x.dtype = kBool;
  CHECK_THROWS_AS(kernels::combine(stream, Combine::sum, x, x, x), DTypeError);
}
