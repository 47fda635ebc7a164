#include "ferrite/ops/unary.h"

#include <cmath>
#include <functional>
#include <limits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Function = Tensor (*)(const Tensor&);
using Reference = double (*)(double);

struct Case {
  const char* name;
  Function f;
  Reference reference;
  double low, high;  // where values and gradients are compared
  const Tensor& (*inplace)(const Tensor&) = nullptr;
};

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

const std::vector<Case> kCases = {
    {"neg", neg, [](double x) { return -x; }, -3, 3, neg_},
    {"abs", abs, [](double x) { return std::abs(x); }, -3, 3, abs_},
    {"sign", sign, sign_of, -3, 3, sign_},
    {"square", square, [](double x) { return x * x; }, -3, 3, square_},
    {"floor", floor, [](double x) { return std::floor(x); }, -5, 5, floor_},
    {"ceil", ceil, [](double x) { return std::ceil(x); }, -5, 5, ceil_},
    {"round", round, [](double x) { return std::nearbyint(x); }, -5, 5, round_},
    {"trunc", trunc, [](double x) { return std::trunc(x); }, -5, 5, trunc_},
    {"exp", exp, [](double x) { return std::exp(x); }, -10, 10, exp_},
    {"exp2", exp2, [](double x) { return std::exp2(x); }, -10, 10, exp2_},
    {"expm1", expm1, [](double x) { return std::expm1(x); }, -5, 5, expm1_},
    {"log", log, [](double x) { return std::log(x); }, 0.01, 20, log_},
    {"log1p", log1p, [](double x) { return std::log1p(x); }, -0.9, 20, log1p_},
    {"log2", log2, [](double x) { return std::log2(x); }, 0.01, 20, log2_},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.01, 20, sqrt_},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.01, 20, rsqrt_},
    {"reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.1, 20, reciprocal_},
    {"sin", sin, [](double x) { return std::sin(x); }, -10, 10, sin_},
    {"cos", cos, [](double x) { return std::cos(x); }, -10, 10, cos_},
    {"tan", tan, [](double x) { return std::tan(x); }, -1.4, 1.4, tan_},
    {"erf", erf, [](double x) { return std::erf(x); }, -4, 4, erf_},
    {"asin", asin, [](double x) { return std::asin(x); }, -0.95, 0.95, asin_},
    {"acos", acos, [](double x) { return std::acos(x); }, -0.95, 0.95, acos_},
    {"atan", atan, [](double x) { return std::atan(x); }, -5, 5, atan_},
    {"sinh", sinh, [](double x) { return std::sinh(x); }, -5, 5, sinh_},
    {"cosh", cosh, [](double x) { return std::cosh(x); }, -5, 5, cosh_},
    {"asinh", asinh, [](double x) { return std::asinh(x); }, -5, 5, asinh_},
    {"acosh", acosh, [](double x) { return std::acosh(x); }, 1.1, 9, acosh_},
    {"atanh", atanh, [](double x) { return std::atanh(x); }, -0.95, 0.95, atanh_},
    {"log10", log10, [](double x) { return std::log10(x); }, 0.01, 20, log10_},
    {"erfc", erfc, [](double x) { return std::erfc(x); }, -3, 3, erfc_},
};

Tensor uniform(const Shape& shape, double low, double high, DType dtype) {
  Generator generator(7);
  Tensor x = empty(shape, {.dtype = kFloat64});
  uniform_(x, low, high, &generator);
  return x.to(dtype);
}

std::vector<double> mapped(const Tensor& x, Reference f) {
  std::vector<double> values = x.to_vector<double>();
  for (double& v : values) v = f(v);
  return values;
}

}  // namespace

TEST_CASE("unary: values against float64, every floating dtype, odd sizes") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      CAPTURE(dtype);
      for (std::int64_t n : {0, 1, 3, 17, 1000, 40003}) {
        const Tensor x = uniform({n}, c.low, c.high, dtype);
        const Tensor y = c.f(x);
        CHECK(y.dtype() == dtype);
        // Near a zero of log and of the trigonometric functions only the absolute error is small.
        check_close(y, mapped(x, c.reference), rounding_of(dtype), rounding_of(dtype) * 0.1);
      }
    }
  }
}

TEST_CASE("unary: strided views, channels-last and 0 dimensions") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    for (DType dtype : {kFloat32, kBFloat16}) {
      const Tensor base = uniform({6, 5, 7, 4}, c.low, c.high, dtype);
      const double tol = rounding_of(dtype);
      for (const Tensor& x : {base.transpose(0, 2), base.slice(3, 0, 4, 2), base.select(1, 2),
                              base[0][0][0][0], base.slice(0, 0, 1).expand({3, 5, 7, 4})})
        check_close(c.f(x), mapped(x, c.reference), tol, tol * 0.1);
      const Tensor nhwc = base.contiguous(kChannelsLast);
      const Tensor y = c.f(nhwc);
      CHECK(y.is_contiguous(kChannelsLast));
      check_close(y, mapped(base, c.reference), tol, tol * 0.1);
    }
  }
}

TEST_CASE("unary: PyTorch's results, infinities and NaN included") {
  const Golden golden("elementwise");
  const Tensor x = golden.get("unary", "x"), integers = golden.get("unary", "integers");
  std::vector<std::pair<const char*, Function>> all = {
      {"isnan", isnan}, {"isinf", isinf}, {"isfinite", isfinite}, {"logical_not", logical_not}};
  // The others are in functions_test.cpp.
  for (const Case& c : kCases)
    if (golden.has(c.name, "out")) all.push_back({c.name, c.f});
  for (const auto& [name, f] : all) {
    CAPTURE(name);
    const Tensor expected = golden.get(name, "out"), whole = golden.get(name, "integers");
    CHECK(f(x).dtype() == expected.dtype());
    CHECK(f(integers).dtype() == whole.dtype());
    // tan(100) and log(1 + 1e30) are as good as float32's argument reduction.
    check_close(f(x), expected, 1e-5, 1e-7);
    check_close(f(integers), whole, 1e-5, 1e-7);
  }
}

TEST_CASE("unary: the ends of float32's range") {
  const float tiny = std::numeric_limits<float>::denorm_min();
  check_close(log(tensor({tiny, 1e-40f})), {std::log(tiny), std::log(1e-40f)}, 1e-6);
  check_close(exp(tensor({-1000.0f, 88.7f, 89.0f})), {0, std::exp(88.7f), INFINITY}, 1e-5);
  check_close(exp(tensor({709.7, 709.8, -708.0, 87.5}, {.dtype = kFloat64})),
              {std::exp(709.7), INFINITY, std::exp(-708.0), std::exp(87.5)}, 1e-12);
  check_close(sqrt(tensor({INFINITY, 1e-40f})), {INFINITY, std::sqrt(1e-40f)}, 1e-5);
  check_close(sin(tensor({1e5, 1e-20}, {.dtype = kFloat32})), {std::sin(1e5), 1e-20}, 1e-5);
}

TEST_CASE("unary: a value's bits do not depend on its place") {
  const Tensor x = uniform({50021}, 0.1, 4, kFloat32);
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Tensor whole = c.f(x);
    check_equal(c.f(x.slice(0, 5)), whole.slice(0, 5));
    check_equal(c.f(x.slice(0, 0, 50021, 3)), whole.slice(0, 0, 50021, 3));
    const int threads = num_threads();
    set_num_threads(1);
    check_equal(c.f(x), whole);
    set_num_threads(threads);
  }
}

TEST_CASE("unary: gradients to second order") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Tensor x = uniform({3, 4}, std::max(c.low, -2.0), std::min(c.high, 2.0), kFloat64);
    x.set_requires_grad();
    CHECK(autograd::gradcheck([&](const auto& in) { return c.f(in[0]); }, {x},
                              {.second_order = true}));
  }
}

TEST_CASE("unary: in place") {
  for (const Case& c : kCases) {
    if (!c.inplace) continue;
    CAPTURE(c.name);
    const Tensor x = uniform({3, 5}, std::max(c.low, -2.0), std::min(c.high, 2.0), kFloat64);
    const Tensor expected = c.f(x), y = x.clone();
    CHECK(c.inplace(y).is_same(y));
    check_equal(y, expected);
    const Tensor view = x.clone().t();
    c.inplace(view);
    check_equal(view, expected.t());
    x.set_requires_grad();
    CHECK(autograd::gradcheck([&](const auto& in) { return c.inplace(in[0] * 1); }, {x},
                              {.second_order = true}));
    CHECK_THROWS_AS(c.inplace(x), AutogradError);
    CHECK_THROWS_AS(c.inplace(zeros({2, 1}).expand({2, 3})), ValueError);
  }
  CHECK_THROWS_AS(exp_(arange(3)), DTypeError);
  CHECK_THROWS_AS(neg_(tensor({true})), DTypeError);
  check_equal(floor_(arange(3)), arange(3));
}

TEST_CASE("unary: integers and bool") {
  check_equal(neg(tensor({1, -2})), tensor({-1, 2}));
  check_equal(abs(tensor({1, -2}, {.dtype = kInt32})), tensor({1, 2}, {.dtype = kInt32}));
  check_equal(neg(tensor({1, 0}, {.dtype = kUInt8})), tensor({255, 0}, {.dtype = kUInt8}));
  check_equal(sign(tensor({5, 0, -7})), tensor({1, 0, -1}));
  check_equal(round(tensor({5, -7})), tensor({5, -7}));
  CHECK(exp(tensor({true, false})).dtype() == kFloat32);
  check_close(exp(tensor({true, false})), {std::exp(1.0), 1});
  check_equal(logical_not(tensor({true, false})), tensor({false, true}));
  check_equal(isfinite(tensor({3, 4})), tensor({true, true}));
  CHECK_THROWS_AS(neg(tensor({true})), DTypeError);
  CHECK_THROWS_AS(floor(tensor({true})), DTypeError);
  CHECK_THROWS_AS(exp(Tensor()), ValueError);
  CHECK_THROWS_AS(isnan(Tensor()), ValueError);
}

TEST_CASE("unary: on a virtual device, queued") {
  const Tensor x = uniform({1000}, 0.5, 2, kFloat32);
  check_equal(log(exp(x.to("cpu:1"))).cpu(), log(exp(x)));
}

TEST_CASE("unary: a kept tensor changed in place is an error in backward") {
  Tensor x = uniform({3}, 1, 2, kFloat32).set_requires_grad();
  const Tensor y = exp(x);
  y.mul_(2.0);
  CHECK_THROWS_AS(sum(y).backward(), AutogradError);
}
