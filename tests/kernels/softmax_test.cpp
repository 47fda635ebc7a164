#include "ferrite/kernels/softmax.h"

#include <doctest/doctest.h>

#include <limits>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::SoftmaxKind;
using kernels::View;
using kit::KernelCase;
using kit::Operand;

namespace {

/// Operands with the same layout: contiguous ones, viewed with permuted dimensions.
struct Order {
  std::vector<int> dims;

  Order() = default;
  Order(KernelCase& c, int ndim) {
    for (int d = 0; d < ndim; ++d) dims.push_back(d);
    if (c.coin())
      for (std::size_t i = dims.size(); i > 1; --i)
        std::swap(dims[i - 1], dims[static_cast<std::size_t>(c.integer(0, std::int64_t(i) - 1))]);
  }
  View operator()(const View& v) const {
    View seen = v;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      seen.sizes[d] = v.sizes[dims[d]];
      seen.strides[d] = v.strides[dims[d]];
    }
    return seen;
  }
};

/// exp() of the difference to the maximum, which is itself rounded: 1 ulp of 60 is 4e-6.
kit::Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return {.rtol = 1e-12, .atol = 1e-14};
    case kFloat32:
      return {.rtol = 1e-5, .atol = 2e-6};
    case kFloat16:
      return {.rtol = 2e-3, .atol = 1e-3};
    default:
      return {.rtol = 1.6e-2, .atol = 8e-3};
  }
}

void check_softmax(KernelCase& c, DType dtype, const Shape& shape, const Order& order, int dim,
                   double special = 0) {
  const auto kind = c.pick({SoftmaxKind::plain, SoftmaxKind::log});
  const double spread = c.pick({2.0, 30.0});
  const Operand in = c.input(shape, dtype, {.low = -spread, .high = spread, .special = special});
  const Operand out = c.output(shape, dtype);
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::softmax(stream, kind, order(at(out)), order(at(in)), dim);
  });
  c.check(out, tolerance_of(dtype));
}

void check_backward(KernelCase& c, DType dtype, const Shape& shape, const Order& order, int dim) {
  const auto kind = c.pick({SoftmaxKind::plain, SoftmaxKind::log});
  const std::int64_t classes = shape[order.dims[static_cast<std::size_t>(dim)]];
  // The size of outputs.
  const double n = static_cast<double>(std::max<std::int64_t>(1, classes));
  const Operand y = kind == SoftmaxKind::plain ? c.input(shape, dtype, {.low = 0, .high = 2 / n})
                                               : c.input(shape, dtype, {.low = -8, .high = 0});
  const Operand grad = c.input(shape, dtype, {.low = 0.1, .high = 1});
  const Operand out = c.output(shape, dtype);
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::softmax_backward(stream, kind, order(at(out)), order(at(grad)), order(at(y)), dim);
  });
  // A difference: the rounding error is relative to its terms.
  kit::Tolerance tolerance = tolerance_of(dtype);
  if (kind == SoftmaxKind::log) tolerance.atol += 1e-6 * n * (dtype == kFloat64 ? 1e-6 : 1);
  c.check(out, tolerance);
}

DType floating(KernelCase& c) { return c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}); }

}  // namespace

TEST_CASE("softmax along any dimension of dense views") {
  kit::for_each_case("softmax", 150, [](KernelCase& c) {
    Shape shape = c.shape(4, 2000);
    if (shape.empty()) shape = {c.size(300, 1)};
    const Order order(c, shape.size());
    const auto dim = static_cast<int>(c.integer(0, shape.size() - 1));
    c.coin() ? check_softmax(c, floating(c), shape, order, dim, c.pick({0.0, 0.0, 0.01}))
             : check_backward(c, floating(c), shape, order, dim);
  });
}

TEST_CASE("softmax of long rows and many columns") {
  kit::for_each_case("softmax long", 40, [](KernelCase& c) {
    const DType dtype = floating(c);
    Shape shape;
    switch (c.integer(0, 3)) {
      case 0:
        shape = {c.integer(1, 3), c.integer(500, 1100) * 8};
        break;
      case 1:
        shape = {c.integer(1, 3), c.integer(257, 3000)};
        break;
      case 2:  // too long for the shared memory
        shape = {1, c.integer(25000, 26000)};
        break;
      default:
        shape = {c.integer(2, 40), c.integer(1, 150), c.integer(2, 40)};
    }
    Order order;
    for (int d = 0; d < shape.size(); ++d) order.dims.push_back(d);
    c.coin() ? check_softmax(c, dtype, shape, order, 1) : check_backward(c, dtype, shape, order, 1);
  });
}

TEST_CASE("softmax in place") {
  kit::for_each_case("softmax in place", 12, [](KernelCase& c) {
    const DType dtype = floating(c);
    const Shape shape = c.pick<Shape>({{5, 1000}, {3, 4000}, {6, 40, 9}});
    const Operand x = c.inout(shape, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::softmax(stream, SoftmaxKind::plain, at(x), at(x), 1);
    });
    c.check(x, tolerance_of(dtype));
  });
}

TEST_CASE("softmax of infinities agrees with the host") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<double>> rows = {
      {-kInf, -kInf, -kInf}, {-kInf, 1, -kInf}, {kInf, 1, 2}, {nan, 1, 2}, {-kInf, nan, 1}};
  kit::for_each_case("softmax infinities", 20, [&](KernelCase& c) {
    // Among -infinity, in a long row or a short one.
    const std::int64_t classes = c.pick<std::int64_t>({3, 40, 600, 2400});
    const auto& row = rows[static_cast<std::size_t>(c.integer(0, 4))];
    const bool columns = c.coin();
    Tensor values = empty(columns ? Shape{classes, 2} : Shape{2, classes}, {.dtype = kFloat64});
    for (std::int64_t i = 0; i < 2 * classes; ++i) values.data<double>()[i] = -kInf;
    for (int i = 0; i < 3; ++i)
      values.data<double>()[i * (classes / 3) * (columns ? 2 : 1)] =
          row[static_cast<std::size_t>(i)];
    const DType dtype = floating(c);
    const Operand in = c.input(values, dtype);
    const Operand plain = c.output(values.shape(), dtype), log = c.output(values.shape(), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::softmax(stream, SoftmaxKind::plain, at(plain), at(in), columns ? 0 : 1);
      kernels::softmax(stream, SoftmaxKind::log, at(log), at(in), columns ? 0 : 1);
    });
    c.check(plain, tolerance_of(dtype));
    c.check(log, tolerance_of(dtype));
  });
}
