#include "ferrite/kernels/elementwise.h"

#include <doctest/doctest.h>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::BinaryOp;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

constexpr BinaryOp kAll[] = {
    BinaryOp::add,         BinaryOp::sub,         BinaryOp::mul,     BinaryOp::div,
    BinaryOp::pow,         BinaryOp::maximum,     BinaryOp::minimum, BinaryOp::floor_divide,
    BinaryOp::remainder,   BinaryOp::fmod,        BinaryOp::atan2,   BinaryOp::logical_and,
    BinaryOp::logical_or,  BinaryOp::logical_xor, BinaryOp::eq,      BinaryOp::ne,
    BinaryOp::lt,          BinaryOp::le,          BinaryOp::gt,      BinaryOp::ge,
    BinaryOp::bit_and,     BinaryOp::bit_or,      BinaryOp::bit_xor, BinaryOp::shift_left,
    BinaryOp::shift_right,
};
constexpr int kOps = static_cast<int>(std::size(kAll));

bool works_on(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::sub:
    case BinaryOp::pow:
    case BinaryOp::floor_divide:
    case BinaryOp::remainder:
    case BinaryOp::fmod:
      return dtype != kBool;
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
      return is_integral(dtype);
    case BinaryOp::div:
    case BinaryOp::atan2:
      return is_floating(dtype);
    default:
      return true;
  }
}

DType any_dtype(KernelCase& c) {
  return c.pick(
      {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
}

/// One rounding to the dtype; below its normal numbers in steps of its smallest one.
kit::Tolerance tolerance_of(DType dtype) {
  return {.atol = dtype == kFloat16 ? 6e-8 : dtype == kFloat64 ? 1e-300 : 2e-38};
}

/// An operation, and a dtype that it works on.
struct Drawn {
  BinaryOp op;
  DType dtype;
};
Drawn draw(KernelCase& c) {
  for (;;) {
    const Drawn drawn{kAll[c.integer(0, kOps - 1)], any_dtype(c)};
    if (works_on(drawn.op, drawn.dtype)) return drawn;
  }
}

DType result_dtype(const Drawn& d) { return kernels::gives_bool(d.op) ? kBool : d.dtype; }

}  // namespace

TEST_CASE("binary operations on operands of any layout and dtype") {
  kit::for_each_case("binary", 400, [](KernelCase& c) {
    const Drawn d = draw(c);
    const Shape shape = c.shape(5, 2000);
    const Operand a = c.input(shape, d.dtype, {.layout = Layout::any, .special = 0.05});
    const Operand b = c.input(shape, d.dtype, {.layout = Layout::any, .special = 0.05});
    const Operand out = c.output(shape, result_dtype(d), {.layout = Layout::any});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::binary(stream, d.op, at(out), at(a), at(b));
    });
    c.check(out, tolerance_of(d.dtype));
  });
}

TEST_CASE("binary operations with a number on either side") {
  kit::for_each_case("binary with a number", 300, [](KernelCase& c) {
    const Drawn d = draw(c);
    const Shape shape = c.shape(3, 2000);
    const Operand a = c.input(shape, d.dtype, {.layout = Layout::any, .special = 0.05});
    const Operand out = c.output(shape, result_dtype(d), {.layout = Layout::any});
    // Numbers that 16-bit types cannot represent, because scalars keep float's precision.
    const Scalar number = is_floating(d.dtype)
                              ? Scalar(c.pick({0.0, 1.0, -0.5, 2.0625, 3.0009765625}))
                              : Scalar(c.integer(0, 3));
    const bool first = c.coin();
    c.run([&](const Stream& stream, const kit::Side& at) {
      if (first)
        kernels::binary(stream, d.op, at(out), number, at(a));
      else
        kernels::binary(stream, d.op, at(out), at(a), number);
    });
    c.check(out, tolerance_of(d.dtype));
  });
}

TEST_CASE("binary operations along rows and channels, and on long runs in place") {
  kit::for_each_case("broadcast", 60, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    const BinaryOp op = c.pick({BinaryOp::add, BinaryOp::mul, BinaryOp::maximum, BinaryOp::lt});
    const DType result = kernels::gives_bool(op) ? kBool : dtype;
    const std::int64_t n = c.integer(1, 4), channels = c.pick({1, 3, 8, 16, 32}),
                       plane = c.pick({1, 4, 7, 49, 64, 96});
    const Shape shape{n, channels, plane};
    const bool along_rows = c.coin();
    const Operand x = c.input(shape, dtype);
    Tensor values = empty({channels}, {.dtype = kInt64});
    for (std::int64_t i = 0; i < channels; ++i)
      values.data<std::int64_t>()[i] = dtype == kBool ? i % 2 : i;
    const Operand bias = c.input(values, dtype);
    const Operand out = c.output(along_rows ? Shape{n, plane, channels} : shape, result);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::View wide = at(out), v = at(bias), like = at(x);
      for (int d = 0; d < 3; ++d) {
        v.sizes[d] = wide.sizes[d];
        like.sizes[d] = wide.sizes[d];
      }
      v.ndim = 3, v.numel = wide.numel;
      const std::int64_t step = v.strides[0];
      v.strides[0] = v.strides[1] = v.strides[2] = 0;
      v.strides[along_rows ? 2 : 1] = step;
      if (along_rows) like.strides[1] = channels;
      if (along_rows) like.strides[2] = 1;
      kernels::binary(stream, op, wide, like, v);
    });
    c.check(out);
  });
  kit::for_each_case("in place", 24, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    const Shape shape{c.integer(4000, 20000)};
    const Operand a = c.inout(shape, dtype), b = c.input(shape, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::binary(stream, BinaryOp::add, at(a), at(a), at(b));
    });
    c.check(a);
  });
}

TEST_CASE("add_scaled adds a multiple") {
  kit::for_each_case("add_scaled", 80, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    const Shape shape = c.shape(4, 6000);
    const Operand a = c.inout(shape, dtype, {.layout = Layout::any});
    const Operand b = c.input(shape, dtype, {.layout = Layout::any});
    const Scalar alpha = is_floating(dtype) ? Scalar(c.pick({-0.1, 1.0, 3.5}))
                                            : Scalar(c.integer(0, dtype == kBool ? 1 : 5));
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::add_scaled(stream, at(a), at(a), at(b), alpha);
    });
    // After cancellation, the error is that of terms of up to 9 in the compute type.
    c.check(a, {.atol = dtype == kFloat64 ? 1e-14 : 2e-6});
  });
}

TEST_CASE("operations reject dtypes that they do not support") {
  for (const Device& device : kit::test_devices())
    for (const BinaryOp op : kAll)
      for (const DType dtype : {kInt64, kBool}) {
        if (works_on(op, dtype)) continue;
        const Tensor t = empty({3}, {.dtype = dtype, .device = device});
        const Stream& stream = current_stream(device);
        CHECK_THROWS_AS(
            [&] {
              kernels::binary(stream, op, t, t, t);
              stream.synchronize();
            }(),
            DTypeError);
      }
}
