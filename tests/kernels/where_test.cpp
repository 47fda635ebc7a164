#include "ferrite/kernels/where.h"

#include <doctest/doctest.h>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

TEST_CASE("where chooses between operands of any layout and dtype") {
  kit::for_each_case("where", 60, [](KernelCase& c) {
    const DType dtype = c.pick(
        {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
    const Shape shape = c.shape();
    const Operand condition = c.input(shape, kBool, {.layout = Layout::any});
    const Operand a = c.input(shape, dtype, {.layout = Layout::any});
    const Operand b = c.input(shape, dtype, {.layout = Layout::any});
    const Operand out = c.output(shape, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::where(stream, at(out), at(condition), at(a), at(b));
    });
    c.check(out, {.rtol = 0});
  });
}

TEST_CASE("where writes over one of its operands, and over long runs") {
  kit::for_each_case("where in place", 12, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kInt64, kUInt8});
    const Shape shape{c.integer(5000, 20000)};
    const Operand condition = c.input(shape, kBool);
    const Operand a = c.inout(shape, dtype);
    const Operand b =
        c.input(shape, dtype, {.layout = c.coin() ? Layout::contiguous : Layout::expanded});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::where(stream, at(a), at(condition), at(a), at(b));
    });
    c.check(a, {.rtol = 0});
  });
}
