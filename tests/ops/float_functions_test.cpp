// Functions of float32 over its whole range, beside the same ones of float64.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/special.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Every kStep-th number by its bits, of both signs, and the special ones.
Tensor all_sizes() {
  constexpr std::uint64_t kStep = 99991, kEnd = std::uint64_t{1} << 32;
  std::vector<float> v = {0.0f, -0.0f, 0.5f, -0.5f,     1.0f,       -1.0f, 2.0f,
                          8.0f, 1e3f,  1e6f, kInfinity, -kInfinity, kNaN,  1e-45f};
  for (std::uint64_t bits = 0; bits < kEnd; bits += kStep)
    if (const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits)); x == x)
      v.push_back(x);
  return tensor(v);
}

/// |y - expected| in units of the last place of float32 at `expected`; infinite where one of them
/// is NaN, infinite or a zero of one sign, and the other is not.
double units(float y, double expected) {
  constexpr double kApart = std::numeric_limits<double>::infinity();
  const float rounded = static_cast<float>(expected);
  if (std::isnan(y) || std::isnan(rounded))
    return std::isnan(y) == std::isnan(rounded) ? 0 : kApart;
  if (std::isinf(y) || std::isinf(rounded)) return y == rounded ? 0 : kApart;
  if (y == 0 && rounded == 0) return std::signbit(y) == std::signbit(rounded) ? 0 : kApart;
  int exponent;
  std::frexp(expected, &exponent);
  return std::abs(y - expected) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// The largest distance is that of the polynomials, and half a unit of rounding.
void check_units(const Tensor& y, const Tensor& expected) {
  REQUIRE(y.dtype() == kFloat32);
  const std::vector<float> values = y.to_vector<float>();
  const std::vector<double> exact = expected.to_vector<double>();
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const double apart = units(values[i], exact[i]); !(apart <= worst)) worst = apart, at = i;
  CAPTURE(at);
  CAPTURE(values[at]);
  CAPTURE(exact[at]);
  CHECK(worst <= 0.6);
}

}  // namespace

TEST_CASE("float functions: within 0.6 units in the last place of float64's, at every size") {
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> functions = {
      {"exp2", exp2},   {"log2", log2},   {"log10", log10}, {"sinh", sinh},    {"cosh", cosh},
      {"asinh", asinh}, {"acosh", acosh}, {"atanh", atanh}, {"atan", atan},    {"asin", asin},
      {"acos", acos},   {"tan", tan},     {"erfc", erfc},   {"erfinv", erfinv}};
  const Tensor x = all_sizes(), exact = x.to(kFloat64);
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    check_units(f(x), f(exact));
  }
}

TEST_CASE("float functions: of two numbers, in all quadrants and of all ratios") {
  const Tensor x = all_sizes();
  for (const Tensor& y :
       {x.flip({0}), x, x * 0.75, -x, cat({x.slice(0, 7), x.slice(0, 0, 7)}), tensor(-2.5f),
        tensor(0.3f), tensor(7.0f), tensor(0.0f), tensor(-0.0f), tensor(kInfinity), tensor(kNaN)}) {
    CAPTURE(y);
    check_units(atan2(x, y), atan2(x.to(kFloat64), y.to(kFloat64)));
    check_units(atan2(y, x), atan2(y.to(kFloat64), x.to(kFloat64)));
    check_units(hypot(x, y), hypot(x.to(kFloat64), y.to(kFloat64)));
    check_units(pow(x, y), pow(x.to(kFloat64), y.to(kFloat64)));
  }
}

TEST_CASE("float functions: gradients of short 16-bit vectors") {
  // 1 / 0.0041 fits into float16; 1.25 over the square does not, nor does 1.25 / 1e-5.
  const Tensor y = tensor({-0.0041f, 0.0f, 1e-5f}).to(kFloat16).set_requires_grad();
  const Tensor x = tensor({0.0f, 300.0f, 0.0f}).to(kFloat16).set_requires_grad();
  sum(atan2(y, x) * 1.25).backward();
  test::check_close(y.grad(), {0, 1.25 / 300, 0}, 1e-3);
  CHECK(x.grad().to_vector<double>()[0] == doctest::Approx(1.25 / 0.0041).epsilon(1e-2));

  const Tensor side = y.detach().set_requires_grad();
  sum(hypot(side, tensor({0.0f, 300.0f, 1e-5f}).to(kFloat16)) * 1.25).backward();
  // 1e-5 is below the smallest normal number, where float16 has eight bits.
  test::check_close(side.grad(), {-1.25, 0, 1.25 / std::numbers::sqrt2}, 4e-3);
}
