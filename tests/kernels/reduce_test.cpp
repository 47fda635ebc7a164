#include "ferrite/kernels/reduce.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/matmul.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::ReduceOp;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// `shape` with randomly chosen sizes, and those in `keep`, set to 1.
Shape reduced(KernelCase& c, const Shape& shape) {
  Shape out = shape;
  for (std::int64_t& size : out)
    if (c.coin()) size = 1;
  return out;
}

/// A dtype that can hold the result.
DType result_of(KernelCase& c, ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::count_nonzero:
      return kInt64;
    case ReduceOp::any:
    case ReduceOp::all:
      return kBool;
    default:
      if (itemsize(dtype) == 2 && c.coin()) return kFloat32;
      if (is_floating(dtype)) return dtype;
      return op == ReduceOp::max || op == ReduceOp::min ? c.pick({dtype, kInt64}) : kInt64;
  }
}

struct Range {
  double low, high, special;
};

/// Values with a well-conditioned result.
Range range_of(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::prod:
      return is_floating(dtype) ? Range{0.97, 1.03, 0} : Range{-3, 3, 0};
    case ReduceOp::sum:
    case ReduceOp::mean:
    case ReduceOp::norm:
      return is_floating(dtype) ? Range{0.5, 2, 0} : Range{-100, 100, 0};
    default:
      return {-2, 2, 0.05};
  }
}

/// float64 sums differ from the host's by their order: the rounding errors of many additions.
kit::Tolerance tolerance_of(DType out, std::int64_t count) {
  if (out != kFloat64) return {};
  return {.rtol = 1e-15 * static_cast<double>(std::max<std::int64_t>(count, 16))};
}

void check_reduction(KernelCase& c, ReduceOp op, DType dtype, const Shape& shape,
                     const Shape& out_shape, Layout layout, double p = 2) {
  const Range range = range_of(op, dtype);
  const Operand in =
      c.input(shape, dtype,
              {.layout = layout, .low = range.low, .high = range.high, .special = range.special});
  const Operand out = c.output(out_shape, result_of(c, op, dtype), {.layout = Layout::any});
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::reduce(stream, op, at(out), at(in), p);
  });
  c.check(out, tolerance_of(dtype, shape.numel()));
}

}  // namespace

TEST_CASE("reductions of any dimensions of any layout and dtype") {
  kit::for_each_case("reduce", 400, [](KernelCase& c) {
    const auto op =
        c.pick({ReduceOp::sum, ReduceOp::mean, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                ReduceOp::norm, ReduceOp::count_nonzero, ReduceOp::any, ReduceOp::all});
    const bool floating = op == ReduceOp::mean || op == ReduceOp::norm;
    const DType dtype = floating || c.coin()
                            ? c.pick({kFloat32, kFloat16, kBFloat16, kFloat64})
                            : c.pick({kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
    const double p = c.pick({2.0, 2.0, 1.0, 0.0, 3.5, kInfinity, -kInfinity});
    const Shape shape = c.shape(5, 2000);
    check_reduction(c, op, dtype, shape, reduced(c, shape), Layout::any, p);
  });
}

TEST_CASE("long reductions are cut and joined") {
  kit::for_each_case("reduce cut", 40, [](KernelCase& c) {
    const auto op = c.pick({ReduceOp::sum, ReduceOp::mean, ReduceOp::prod, ReduceOp::max,
                            ReduceOp::norm, ReduceOp::all});
    const DType dtype = op == ReduceOp::norm || op == ReduceOp::mean
                            ? c.pick({kFloat32, kFloat16, kBFloat16, kFloat64})
                            : c.pick({kFloat32, kFloat16, kInt64, kUInt8});
    Shape shape, out;
    switch (c.integer(0, 4)) {
      case 0:  // everything
        shape = {c.integer(20000, 60000)};
        out = {1};
        break;
      case 1:  // rows
        shape = {c.integer(1, 5), c.integer(5000, 12000) / 8 * 8};
        out = {shape[0], 1};
        break;
      case 2:  // columns
        shape = {c.integer(1000, 4000), c.pick<std::int64_t>({1, 3, 8, 16})};
        out = {1, shape[1]};
        break;
      case 3:  // channels of images
        shape = {c.integer(8, 20), c.integer(1, 4), 16, c.integer(16, 20)};
        out = {1, shape[1], 1, 1};
        break;
      default:  // as many columns as a warp takes, with rows between them
        shape = {3, c.integer(200, 500), c.pick<std::int64_t>({32, 40})};
        out = {3, 1, shape[2]};
    }
    // Products of this many factors stay near 1 only if all factors are.
    if (op == ReduceOp::prod && dtype != kInt64 && dtype != kUInt8) {
      const Operand in = c.input(shape, dtype, {.low = 1, .high = 1});
      const Operand result = c.output(out, dtype);
      c.run([&](const Stream& stream, const kit::Side& at) {
        kernels::reduce(stream, op, at(result), at(in));
      });
      return c.check(result, {.rtol = 0});
    }
    check_reduction(c, op, dtype, shape, out,
                    shape.size() == 4 && c.coin() ? Layout::channels_last : Layout::contiguous);
  });
}

TEST_CASE("short rows have fewer lanes than elements after their last pack") {
  kit::for_each_case("short rows", 64, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kInt32, kUInt8});
    check_reduction(c, ReduceOp::sum, dtype, {c.integer(1, 40)}, {1}, Layout::contiguous);
  });
}

TEST_CASE("float32 sums of many elements stay accurate") {
  kit::for_each_case("reduce accuracy", 2, [](KernelCase& c) {
    const std::int64_t n = 1000000;
    const Operand in = c.input({n}, kFloat32, {.misalignment = 0, .low = 0, .high = 1});
    const Operand out = c.output({1}, kFloat32);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::reduce(stream, ReduceOp::sum, at(out), at(in));
    });
    c.check(out, {.rtol = 1e-6});
  });
}

TEST_CASE("intermediate results of float32 overflow no sooner than results do") {
  for (const DType dtype : {kFloat32, kBFloat16}) {
    kit::for_each_case("reduce range", 4, [&](KernelCase& c) {
      const std::int64_t n = c.integer(2, 600) * 8;
      Tensor values = empty({n}, {.dtype = kFloat64});
      for (std::int64_t i = 0; i < n; ++i) values.data<double>()[i] = i % 2 ? 0x1p100 : 0x1p-100;
      const Operand in = c.input(values, dtype);
      const Operand prod = c.output({1}, dtype), norm = c.output({1}, dtype);
      c.run([&](const Stream& stream, const kit::Side& at) {
        kernels::reduce(stream, ReduceOp::prod, at(prod), at(in));
        kernels::reduce(stream, ReduceOp::norm, at(norm), at(in));
      });
      const double half = static_cast<double>(n) / 2;
      c.check_values(norm, {std::sqrt(half) * 0x1p100});
      // Each thread's own factors may still overflow a double.
      if (n <= 16) c.check_values(prod, {1});
    });
  }
}

TEST_CASE("an empty range gives the neutral element") {
  kit::for_each_case("reduce nothing", 20, [](KernelCase& c) {
    const auto op =
        c.pick({ReduceOp::sum, ReduceOp::mean, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                ReduceOp::norm, ReduceOp::any, ReduceOp::all, ReduceOp::count_nonzero});
    const bool floating = op == ReduceOp::mean || op == ReduceOp::norm || c.coin();
    const Shape shape{c.integer(1, 70), 0, c.integer(1, 9)};
    const bool rows = c.coin();
    check_reduction(c, op, floating ? kFloat32 : kInt64, shape,
                    {rows ? shape[0] : 1, 1, rows ? 1 : shape[2]}, Layout::contiguous);
  });
}

TEST_CASE("integer sums and products wrap around") {
  kit::for_each_case("reduce wraps", 8, [](KernelCase& c) {
    c.same_dtypes();
    const Operand in = c.input({c.integer(3, 3000)}, kInt64, {.low = -9e18, .high = 9e18});
    const Operand out = c.output({1}, kInt64);
    const auto op = c.pick({ReduceOp::sum, ReduceOp::prod});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::reduce(stream, op, at(out), at(in));
    });
    c.check(out);
  });
}

TEST_CASE("sums over rows and over images") {
  kit::for_each_case("column_sum", 40, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const kit::OperandOptions options{.layout = Layout::any, .low = 0.5, .high = 2};
    const bool images = c.coin();
    Shape shape{c.size(60), c.size(40)};
    if (images) shape = {c.integer(0, 5), c.size(33), c.integer(1, 9), c.integer(1, 9)};
    const Operand in = c.input(shape, dtype, options);
    const Operand out = c.output({shape[1]}, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const kit::Side& at) {
      images ? kernels::channel_sum(stream, at(out), at(in))
             : kernels::column_sum(stream, at(out), at(in));
    });
    c.check(out);
  });
}
