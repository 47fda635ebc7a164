#include "ferrite/kernels/check_range.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/core/views.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;

namespace {

/// The message of the exception thrown by the check, or "".
std::string check(const Tensor& t, double low, double high) {
  const Stream& stream = current_stream(t.device());
  try {
    kernels::check_range(stream, "some_op", t, low, high);
    stream.synchronize();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("values within the range pass, in any layout") {
  kit::for_each_case("check_range", 80, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const Shape shape = c.coin() ? c.shape() : Shape{c.integer(4000, 12000)};
    const Operand in = c.input(shape, dtype, {.layout = Layout::any, .low = -1, .high = 1});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::check_range(stream, "some_op", at(in), -1, 1);
      stream.synchronize();
    });
  });
}

TEST_CASE("one value outside of the range is found wherever it is, and named") {
  for (const Device& device : kit::test_devices())
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64})
      for (const std::int64_t n : {1, 7, 1025, 5003})
        for (const bool strided : {false, true})
          for (const double bad : {-0.25, 1.5}) {
            const std::int64_t step = strided ? 2 : 1, at = (n - 1) * 2 / 3;
            std::vector<double> values(static_cast<std::size_t>(n * step), 0.5);
            values[static_cast<std::size_t>(at * step)] = bad;
            const Tensor all = from_vector(values, {n * step}).to(dtype).to(device);
            const Tensor column = geometry::as_strided(all, {n}, {step}, 0);
            const std::string message = check(column, 0, 1);
            CHECK_MESSAGE(message.find("some_op") != std::string::npos, message);
            CHECK_MESSAGE(message.find(bad < 0 ? "-0.25" : "1.5") != std::string::npos, message);
            CHECK(check(column, -2, 2) == "");  // the report was consumed
          }
}

TEST_CASE("NaN passes, infinity does not, nothing passes") {
  for (const Device& device : kit::test_devices()) {
    const auto tensor = [&](double x) {
      return from_vector(std::vector<float>{static_cast<float>(x)}, {1}).to(device);
    };
    CHECK(check(tensor(NAN), 0, 1) == "");
    CHECK(check(tensor(INFINITY), 0, 1) != "");
    CHECK(check(tensor(0), 0, 1) == "");
    CHECK(check(tensor(1), 0, 1) == "");
    CHECK(check(empty({0}, {.device = device}), 0, 1) == "");
  }
}
