#include "ferrite/kernels/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/kernels/search.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kernels::Extremum;
using kernels::ScanOp;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

DType any_dtype(KernelCase& c) {
  return c.pick(
      {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
}

/// Few distinct values, so that many are equal; occasionally NaN and infinities.
Operand input(KernelCase& c, const Shape& shape, DType dtype, Layout layout = Layout::any) {
  const double spread = c.pick({2.0, 100.0});
  Tensor values = empty(shape, {.dtype = kFloat64});
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.data<double>()[i] =
        static_cast<double>(c.integer(is_floating(dtype) || dtype == kInt64 || dtype == kInt32
                                          ? -static_cast<std::int64_t>(spread)
                                          : 0,
                                      dtype == kBool ? 1 : static_cast<std::int64_t>(spread)));
  if (c.coin()) return c.input(values, dtype, {.layout = layout});
  return c.input(shape, dtype, {.layout = layout, .low = -spread, .high = spread, .special = 0.1});
}

void check_extremum(KernelCase& c, const Shape& shape, int dim, DType dtype, Layout layout) {
  c.same_dtypes();
  const auto kind = c.pick({Extremum::min, Extremum::max});
  const Operand in = input(c, shape, dtype, layout);
  Shape reduced = shape;
  reduced[dim] = 1;
  const Operand indices = c.output(reduced, kInt64);
  const Operand values = c.coin() ? c.output(reduced, dtype) : Operand();
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::arg_extremum(stream, kind, at(values), at(indices), at(in), dim);
  });
  c.check(indices);
  if (values.number >= 0) c.check(values);
}

void check_sort(KernelCase& c, const Shape& shape, int dim, std::int64_t wanted, DType dtype,
                Layout layout) {
  c.same_dtypes();
  const auto first = c.pick({Extremum::min, Extremum::max});
  const Operand in = input(c, shape, dtype, layout);
  Shape sorted = shape;
  sorted[dim] = wanted;
  const Operand indices = c.output(sorted, kInt64), values = c.output(sorted, dtype);
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::sort(stream, first, at(values), at(indices), at(in), dim);
  });
  c.check(indices);
  c.check(values);
}

void check_cumsum(KernelCase& c, const Shape& shape, int dim, DType dtype, Layout layout) {
  const Operand in =
      c.input(shape, dtype, {.layout = layout, .low = is_floating(dtype) ? 0.5 : -100, .high = 2});
  const Operand out = c.output(shape, is_floating(dtype) ? dtype : kInt64, {.layout = Layout::any});
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::scan(stream, kernels::ScanOp::sum, at(out), at(in), dim);
  });
  // Sums of positive numbers in double; their order matters only for float64.
  c.check(out);
}

Shape some_shape(KernelCase& c) {
  const Shape shape = c.shape(4, 2000);
  return shape.empty() ? Shape{c.size(300, 1)} : shape;
}

int some_dim(KernelCase& c, const Shape& shape) {
  return static_cast<int>(c.integer(0, shape.size() - 1));
}

}  // namespace

TEST_CASE("the first extremum along any dimension of any view") {
  kit::for_each_case("arg_extremum", 150, [](KernelCase& c) {
    const Shape shape = some_shape(c);
    const int dim = some_dim(c, shape);
    if (shape[dim] > 0) check_extremum(c, shape, dim, any_dtype(c), Layout::any);
  });
}

TEST_CASE("the first extremum of long rows") {
  kit::for_each_case("arg_extremum long", 24, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kFloat64, kInt64});
    if (c.coin())
      check_extremum(c, {c.integer(1, 3), c.integer(10000, 30000)}, 1, dtype, Layout::contiguous);
    else
      check_extremum(c, {c.integer(1000, 3000), c.integer(1, 16)}, 0, dtype, Layout::contiguous);
  });
}

TEST_CASE("sorting along any dimension of any view is stable") {
  kit::for_each_case("sort", 120, [](KernelCase& c) {
    const Shape shape = some_shape(c);
    const int dim = some_dim(c, shape);
    const std::int64_t size = shape[dim];
    check_sort(c, shape, dim, c.coin() ? size : c.integer(0, size), any_dtype(c), Layout::any);
  });
}

TEST_CASE("sorting and selecting on the CPU agree with std::stable_sort") {
  Generator random(5);
  for (const std::int64_t size : {1, 20, 63, 127, 128, 129, 300, 1000})
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kInt64, kInt32, kUInt8})
      for (const bool descending : {false, true})
        for (const std::int64_t wanted : {size, std::max<std::int64_t>(1, size / 5)}) {
          CAPTURE(size);
          CAPTURE(name(dtype));
          CAPTURE(descending);
          std::vector<double> drawn(static_cast<std::size_t>(size));
          for (double& x : drawn) {
            x = std::floor(random.next_double() * 90) - (dtype == kUInt8 ? 0 : 45);
            if (!is_floating(dtype)) continue;
            if (x == 7) x = NAN;
            if (x == 8) x = -0.0;
            if (x == 9) x = -INFINITY;
          }
          const Tensor in = from_vector(drawn, {size}).to(dtype);
          const auto x = in.to_vector<double>();
          std::vector<std::int64_t> places(x.size());
          std::iota(places.begin(), places.end(), 0);
          std::stable_sort(places.begin(), places.end(), [&](std::int64_t a, std::int64_t b) {
            const double u = x[static_cast<std::size_t>(a)], v = x[static_cast<std::size_t>(b)];
            const double first = descending ? v : u, second = descending ? u : v;
            return std::isnan(second) ? !std::isnan(first) : first < second;
          });
          places.resize(static_cast<std::size_t>(wanted));
          const Tensor values = empty({wanted}, {.dtype = dtype}),
                       indices = empty({wanted}, {.dtype = kInt64});
          kernels::sort(Stream(), descending ? Extremum::max : Extremum::min, values, indices, in,
                        0);
          CHECK(indices.to_vector<std::int64_t>() == places);
          const auto sorted = values.to_vector<double>();
          for (std::size_t i = 0; i < places.size(); ++i) {
            const double expected = x[static_cast<std::size_t>(places[i])];
            CHECK((sorted[i] == expected || (std::isnan(sorted[i]) && std::isnan(expected))));
          }
        }
}

TEST_CASE("rows of more than a tile are merged, or selected from") {
  kit::for_each_case("sort long", 24, [](KernelCase& c) {
    const bool wide = c.coin();
    const DType dtype = wide ? c.pick({kFloat64, kInt64}) : c.pick({kFloat32, kFloat16, kUInt8});
    const std::int64_t tile = wide ? 1024 : 2048;
    const std::int64_t size = c.pick({tile, tile + 1, 2 * tile, 3 * tile - 5, 5 * tile + 7});
    const std::int64_t wanted = c.pick({size, size / 2, tile / 4 + 1, tile / 4, std::int64_t{3}});
    c.coin() ? check_sort(c, {c.integer(1, 3), size}, 1, wanted, dtype, Layout::contiguous)
             : check_sort(c, {size, c.integer(1, 3)}, 0, wanted, dtype, Layout::contiguous);
  });
}

TEST_CASE("the few largest of very long rows are selected in several passes") {
  kit::for_each_case("topk long", 3, [](KernelCase& c) {
    check_sort(c, {30000}, 0, 300, c.pick({kFloat32, kFloat64}), Layout::contiguous);
  });
}

TEST_CASE("running sums along any dimension of any view") {
  kit::for_each_case("cumsum", 150, [](KernelCase& c) {
    const Shape shape = some_shape(c);
    check_cumsum(c, shape, some_dim(c, shape), any_dtype(c), Layout::any);
  });
}

TEST_CASE("running sums of long rows are cut and joined") {
  kit::for_each_case("cumsum long", 24, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    switch (c.integer(0, 2)) {
      case 0:
        return check_cumsum(c, {c.integer(1, 3), c.integer(5000, 30000)}, 1, dtype,
                            Layout::contiguous);
      case 1:
        return check_cumsum(c, {c.integer(500, 3000), c.integer(1, 9)}, 0, dtype,
                            Layout::contiguous);
      default:  // more segments than a block has threads
        return check_cumsum(c, {c.integer(17000, 40000), 1, 2}, 0, dtype, Layout::contiguous);
    }
  });
}

TEST_CASE("running products, sums of exponentials and places of extrema") {
  kit::for_each_case("scan", 60, [](KernelCase& c) {
    const auto op = c.pick({ScanOp::prod, ScanOp::logsumexp, ScanOp::argmax, ScanOp::argmin});
    const bool places = op == ScanOp::argmax || op == ScanOp::argmin;
    const DType dtype = op == ScanOp::logsumexp ? kFloat64 : c.pick({kFloat64, kFloat32, kInt64});
    const Shape shape = c.coin() ? some_shape(c) : Shape{c.integer(1, 3), c.integer(4000, 9000)};
    const int dim = some_dim(c, shape);
    c.same_dtypes();
    // Products of numbers near 1.
    const Operand in =
        places ? input(c, shape, dtype)
               : c.input(shape, dtype, {.layout = Layout::any, .low = 0.98, .high = 1.02});
    const Operand out = c.output(shape, places || !is_floating(dtype) ? kInt64 : dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::scan(stream, op, at(out), at(in), dim);
    });
    places ? c.check(out) : c.check(out, {.rtol = 1e-5});
  });
}

TEST_CASE("places in sorted rows") {
  kit::for_each_case("search", 60, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    const std::int64_t n = c.size(20, 1), m = c.size(300), size = c.size(300);
    const Tensor sorted = empty({c.coin() ? 1 : n, size}, {.dtype = kFloat64});
    for (std::int64_t i = 0; i < sorted.numel(); ++i)
      sorted.data<double>()[i] = static_cast<double>(i % std::max<std::int64_t>(size, 1) / 3);
    c.same_dtypes();
    const bool right = c.coin();
    const Operand rows = c.input(sorted.to(dtype), dtype, {.layout = Layout::contiguous}),
                  values = input(c, {n, m}, dtype, Layout::contiguous),
                  out = c.output({n, m}, kInt64, {.layout = Layout::contiguous});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::search(stream, at(out), at(rows), at(values), right);
    });
    c.check(out);
  });
}
