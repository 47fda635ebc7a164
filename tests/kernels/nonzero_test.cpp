#include <doctest/doctest.h>

#include "ferrite/kernels/index.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

/// Counts, then writes as many positions.
void check_nonzero(KernelCase& c, const Shape& shape, Layout layout) {
  c.same_dtypes();
  const DType dtype = c.pick(
      {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
  // Integers: many are 0. Zeros of both signs and NaN are among the special values.
  Tensor values = empty(shape, {.dtype = kFloat64});
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.data<double>()[i] =
        c.coin() ? c.pick({0.0, is_floating(dtype) ? -0.0 : 0.0}) : c.pick({1.0, 0.0, 3.0});
  const Operand x = c.input(values, dtype, {.layout = layout});
  // For an expanded operand the last value written counts.
  const Tensor seen = c.expected(x);
  std::int64_t n = 0;
  for (double value : seen.to_vector<double>()) n += value != 0;
  const Operand count = c.output({1}, kInt64), places = c.output({n, shape.size()}, kInt64);
  c.run([&](const Stream& stream, const kit::Side& at) {
    kernels::count_nonzero(stream, at(count), at(x));
    kernels::nonzero(stream, at(places), at(x));
  });
  c.check_values(count, {static_cast<double>(n)});
  c.check(places);
}

}  // namespace

TEST_CASE("positions of nonzeros, in row-major order") {
  kit::for_each_case("nonzero", 80,
                     [](KernelCase& c) { check_nonzero(c, c.shape(5, 2000), Layout::any); });
}

TEST_CASE("positions of nonzeros in several tiles") {
  kit::for_each_case("nonzero long", 6, [](KernelCase& c) {
    check_nonzero(c, {c.integer(2, 3), c.integer(4000, 20000)}, Layout::contiguous);
  });
}

TEST_CASE("positions of nonzeros in more tiles than a block has threads") {
  kit::for_each_case("nonzero tiles", 1, [](KernelCase& c) {
    c.same_dtypes();
    const std::int64_t size = 257 * 4096 + 5;
    Tensor values = empty({size}, {.dtype = kUInt8});
    for (std::int64_t i = 0; i < size; ++i) values.data<std::uint8_t>()[i] = i % 4001 == 17;
    const Operand x = c.input(values, kUInt8);
    const Operand places = c.output({(size - 18) / 4001 + 1, 1}, kInt64);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::nonzero(stream, at(places), at(x));
    });
    c.check(places);
  });
}
