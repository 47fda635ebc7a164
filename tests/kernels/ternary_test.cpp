#include "ferrite/kernels/ternary.h"

#include <doctest/doctest.h>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::TernaryOp;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

TernaryOp any_op(KernelCase& c) {
  return c.pick({TernaryOp::addcmul, TernaryOp::addcdiv, TernaryOp::lerp, TernaryOp::lerp_scalar});
}

/// Sums of terms up to 60, which may cancel.
kit::Tolerance tolerance_of(DType dtype) { return {.atol = dtype == kFloat64 ? 1e-13 : 2e-5}; }

}  // namespace

TEST_CASE("ternary: operands of any layout and floating dtype") {
  kit::for_each_case("ternary", 60, [](KernelCase& c) {
    const TernaryOp op = any_op(c);
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape = c.shape();
    const Operand a = c.input(shape, dtype, {.layout = Layout::any});
    const Operand b = c.input(shape, dtype, {.layout = Layout::any});
    const Operand third = c.input(shape, dtype, {.layout = Layout::any, .low = 0.1, .high = 1.5});
    const Operand out = c.output(shape, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::ternary(stream, op, at(out), at(a), at(b), at(third), 0.7);
    });
    c.check(out, tolerance_of(dtype));
  });
}

TEST_CASE("ternary: over the first operand, in long runs") {
  kit::for_each_case("ternary in place", 24, [](KernelCase& c) {
    const TernaryOp op = any_op(c);
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape{c.integer(5000, 20000)};
    const Layout other = c.coin() ? Layout::contiguous : Layout::expanded;
    const Operand a = c.inout(shape, dtype);
    const Operand b = c.input(shape, dtype, {.layout = other});
    const Operand third = c.input(shape, dtype, {.layout = other, .low = 0.1, .high = 1.5});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::ternary(stream, op, at(a), at(a), at(b), at(third), -0.3);
    });
    c.check(a, tolerance_of(dtype));
  });
}
