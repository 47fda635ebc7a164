#include "ferrite/kernels/unary.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::Predicate;
using kernels::UnaryOp;
using kernels::UnaryParams;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

constexpr int kOps = static_cast<int>(UnaryOp::mish) + 1;

UnaryParams params_of(UnaryOp op, KernelCase& c) {
  switch (op) {
    case UnaryOp::clamp:
      return {-1.5, c.coin() ? Scalar(1) : Scalar(0.75)};
    case UnaryOp::polygamma:
      return {c.integer(0, 4)};
    case UnaryOp::leaky_relu:
      return {0.01};
    case UnaryOp::elu:
      return {1.5};
    case UnaryOp::softplus:
      return {2.0, 3.0};
    case UnaryOp::celu:
    case UnaryOp::hardshrink:
    case UnaryOp::softshrink:
      return {0.75};
    case UnaryOp::threshold:
      return {0.25, -2.0};
    default:
      return {};
  }
}

/// In addition to the rounding to the dtype: the error where 1 + erf or 1 + tanh cancels, in float
/// or double precision; and steps of the smallest number.
kit::Tolerance tolerance_of(DType dtype) { return {.atol = dtype == kFloat64 ? 1e-14 : 1e-6}; }

/// Of higher derivatives, terms of 4! / 0.5^5 cancel below 0.
kit::Tolerance tolerance_of(UnaryOp op, DType dtype) {
  kit::Tolerance tolerance = tolerance_of(dtype);
  if (op == UnaryOp::polygamma) tolerance.atol *= 768;
  return tolerance;
}

}  // namespace

TEST_CASE("functions of one operand, of any layout and dtype") {
  kit::for_each_case("unary", 500, [](KernelCase& c) {
    const auto op = static_cast<UnaryOp>(c.integer(0, kOps - 1));
    const DType dtype =
        op <= UnaryOp::clamp
            ? c.pick({kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kUInt8})
            : c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape = c.shape(5, 2000);
    const UnaryParams p = params_of(op, c);
    // The reference's exponential is limited by the smallest normal number.
    const double range = c.pick({2.0, 2.0, 80.0});
    const Operand in = c.input(
        shape, dtype, {.layout = Layout::any, .low = -range, .high = range, .special = 0.05});
    const Operand out = c.output(shape, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::unary(stream, op, at(out), at(in), p);
    });
    c.check(out, tolerance_of(op, dtype));
  });
}

TEST_CASE("functions of long runs in place") {
  kit::for_each_case("unary in place", 24, [](KernelCase& c) {
    const UnaryOp op = c.pick({UnaryOp::relu, UnaryOp::square, UnaryOp::exp, UnaryOp::silu});
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Operand x = c.inout({c.integer(4000, 12000)}, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::unary(stream, op, at(x), at(x));
    });
    c.check(x, tolerance_of(dtype));
  });
}

TEST_CASE("gradients of activations") {
  kit::for_each_case("unary_backward", 240, [](KernelCase& c) {
    const UnaryOp op =
        c.pick({UnaryOp::relu, UnaryOp::clamp, UnaryOp::sigmoid, UnaryOp::tanh, UnaryOp::leaky_relu,
                UnaryOp::elu, UnaryOp::gelu, UnaryOp::gelu_tanh, UnaryOp::silu, UnaryOp::softplus,
                UnaryOp::celu, UnaryOp::selu, UnaryOp::hardshrink, UnaryOp::softshrink,
                UnaryOp::threshold, UnaryOp::hardsigmoid, UnaryOp::hardswish, UnaryOp::mish});
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape = c.shape(4, 2000);
    const UnaryParams p = params_of(op, c);
    const Operand grad = c.input(shape, dtype, {.layout = Layout::any});
    const Operand saved = c.input(shape, dtype, {.layout = Layout::any, .special = 0.02});
    const Operand out = c.output(shape, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::unary_backward(stream, op, at(out), at(grad), at(saved), p);
    });
    c.check(out, tolerance_of(dtype));
  });
}

TEST_CASE("predicates of any dtype") {
  kit::for_each_case("predicate", 120, [](KernelCase& c) {
    const Predicate op =
        c.pick({Predicate::isnan, Predicate::isinf, Predicate::isfinite, Predicate::logical_not});
    const DType dtype = c.pick(
        {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
    const Shape shape = c.shape(4, 3000);
    const Operand in = c.input(shape, dtype, {.layout = Layout::any, .special = 0.3});
    const Operand out = c.output(shape, kBool, {.layout = Layout::any});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::predicate(stream, op, at(out), at(in));
    });
    c.check(out);
  });
}

TEST_CASE("round goes to the even number, clamp's bounds to the ends of an integer's range") {
  for (const Device& device : kit::test_devices()) {
    const Stream& stream = current_stream(device);
    const auto apply = [&](UnaryOp op, const Tensor& x, const UnaryParams& p) {
      const Tensor near = x.to(device);
      const Tensor out = empty_like(near);
      kernels::unary(stream, op, out, near, p);
      return out.to_vector<double>();
    };
    const Tensor halves = from_vector(std::vector<float>{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}, {6});
    CHECK(apply(UnaryOp::round, halves, {}) == std::vector<double>{-2, -2, 0, 0, 2, 2});
    const Tensor bytes = from_vector(std::vector<std::uint8_t>{0, 7, 255}, {3});
    CHECK(apply(UnaryOp::clamp, bytes, {-5, 1000}) == std::vector<double>{0, 7, 255});
    CHECK(apply(UnaryOp::clamp, bytes, {3.7, 1e30}) == std::vector<double>{3, 7, 255});
  }
}

TEST_CASE("logarithms of negative numbers, zero and infinity") {
  for (const Device& device : kit::test_devices())
    for (const UnaryOp op : {UnaryOp::log, UnaryOp::log2, UnaryOp::log1p})
      for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64}) {
        const double zero = op == UnaryOp::log1p ? -1 : 0;
        const Tensor x =
            from_vector(std::vector<double>{zero, zero - 1, -INFINITY, INFINITY, NAN}, {5})
                .to(dtype)
                .to(device);
        const Tensor out = empty_like(x);
        kernels::unary(current_stream(device), op, out, x);
        const std::vector<double> y = out.to_vector<double>();
        CHECK(y[0] == -INFINITY);
        CHECK(std::isnan(y[1]));
        CHECK(std::isnan(y[2]));
        CHECK(y[3] == INFINITY);
        CHECK(std::isnan(y[4]));
      }
}

TEST_CASE("functions reject dtypes that they do not support") {
  for (const Device& device : kit::test_devices()) {
    const Stream& stream = current_stream(device);
    const auto run = [&](UnaryOp op, DType dtype) {
      const Tensor t = empty({3}, {.dtype = dtype, .device = device});
      kernels::unary(stream, op, t, t);
      stream.synchronize();
    };
    for (const UnaryOp op : {UnaryOp::floor, UnaryOp::exp, UnaryOp::gelu})
      CHECK_THROWS_AS(run(op, kInt64), DTypeError);
    CHECK_THROWS_AS(run(UnaryOp::neg, kBool), DTypeError);
    const Tensor t = empty({3}, {.device = device});
    CHECK_THROWS_AS(
        [&] {
          kernels::unary_backward(stream, UnaryOp::exp, t, t, t);
          stream.synchronize();
        }(),
        DTypeError);
  }
}
