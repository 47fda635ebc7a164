#include "ferrite/kernels/dropout.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;

TEST_CASE("dropout drops the same elements as on the host") {
  kit::for_each_case("dropout", 80, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape{c.coin() ? c.size(2100, 0) : c.integer(1, 9000)};
    const double p = c.pick({0.0, 0.1, 0.5, 0.999});
    const PhiloxState state{c.random().next_u64(), c.random().next_u64()};
    const bool in_place = c.coin();
    const Operand x =
        in_place ? c.inout(shape, dtype, {.low = 1, .high = 3}) : c.input(shape, dtype);
    const Operand out = in_place ? x : c.output(shape, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::dropout(stream, at(out), at(x), state, p);
    });
    c.check(out);
  });
}

TEST_CASE("dropout twice with one state drops the same elements, and p of them") {
  for (const Device& device : kit::test_devices()) {
    const Tensor x = from_vector(std::vector<float>(20000, 1), {20000}).to(device);
    const Tensor a = empty_like(x), b = empty_like(x);
    const Stream& stream = current_stream(device);
    kernels::dropout(stream, a, x, {7, 11}, 0.25);
    kernels::dropout(stream, b, x, {7, 11}, 0.25);
    const std::vector<double> first = a.to_vector<double>();
    CHECK(first == b.to_vector<double>());
    const auto dropped = std::count(first.begin(), first.end(), 0.0);
    CHECK(dropped > 4700);  // 5000 are expected, with a deviation of 61
    CHECK(dropped < 5300);
  }
}
