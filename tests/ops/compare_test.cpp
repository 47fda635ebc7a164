#include "ferrite/ops/compare.h"

#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

Tensor numbers(const Shape& shape, DType dtype = kFloat64, std::uint64_t seed = 3) {
  Generator generator(seed);
  return normal(0, 2, shape, {.dtype = kFloat64}, &generator).to(dtype);
}

Tensor close_default(const Tensor& a, const Tensor& b) { return isclose(a, b); }

}  // namespace

TEST_CASE("compare: PyTorch's results") {
  const Golden golden("elementwise");
  const Tensor a = golden.get("binary", "a"), b = golden.get("binary", "b");
  const Tensor i = golden.get("binary", "i"), j = golden.get("binary", "j");
  const std::vector<std::pair<const char*, Binary>> all = {{"maximum", maximum},
                                                           {"minimum", minimum},
                                                           {"remainder", remainder},
                                                           {"fmod", fmod},
                                                           {"atan2", atan2},
                                                           {"pow", pow},
                                                           {"eq", eq},
                                                           {"ne", ne},
                                                           {"lt", lt},
                                                           {"le", le},
                                                           {"gt", gt},
                                                           {"ge", ge},
                                                           {"logical_and", logical_and},
                                                           {"logical_or", logical_or},
                                                           {"logical_xor", logical_xor},
                                                           {"isclose", close_default}};
  for (const auto& [name, f] : all) {
    CAPTURE(name);
    const Tensor out = f(a, b);
    CHECK(out.dtype() == golden.get(name, "binary").dtype());
    check_close(out, golden.get(name, "binary"), 1e-5, 1e-6);
    const Tensor ints = f(i, std::string(name) == "pow" ? abs(j) : j);
    CHECK(ints.dtype() == golden.get(name, "ints").dtype());
    check_close(ints, golden.get(name, "ints"), 1e-6);
    if (!golden.has(name, "p")) continue;
    const Tensor p = golden.get(name, "p").set_requires_grad();
    const Tensor q = golden.get(name, "q").set_requires_grad();
    f(p, q).backward(golden.get("binary", "grad"));
    check_close(p.grad(), golden.get(name, "p_grad"), 1e-5, 1e-6);
    check_close(q.grad(), golden.get(name, "q_grad"), 1e-5, 1e-6);
  }
  check_close(pow(1.5, golden.get("pow", "q")), golden.get("pow", "scalar"));
  check_close(pow(tensor({0.0, 0.0, 2.0}), tensor({0.0, 2.0, 0.0})), golden.get("pow", "special"));
}

TEST_CASE("compare: pow and clamp against PyTorch, with gradients") {
  const Golden golden("elementwise");
  const Tensor x = golden.get("activation", "x"), grad = golden.get("activation", "grad");
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> all = {
      {"pow3", [](const Tensor& t) { return pow(t, 3); }},
      {"pow2", [](const Tensor& t) { return pow(t, 2); }},
      {"pow0", [](const Tensor& t) { return pow(t, 0); }},
      {"clamp", [](const Tensor& t) { return clamp(t, -0.5, 1.5); }},
      {"clamp_min", [](const Tensor& t) { return clamp_min(t, -0.5); }}};
  for (const auto& [name, f] : all) {
    CAPTURE(name);
    const Tensor leaf = x.clone().set_requires_grad();
    const Tensor y = f(leaf);
    check_close(y, golden.get(name, "y"), 1e-5, 1e-6);
    check_close(f(golden.get("activation", "edge")), golden.get(name, "edge"), 1e-5);
    y.backward(grad);
    check_close(leaf.grad(), golden.get(name, "grad"), 1e-5, 1e-6);
  }
}

TEST_CASE("compare: scalars, promotion and broadcasting") {
  const Tensor x = arange(6).reshape({2, 3});
  check_equal(gt(x, 2.5), tensor({{false, false, false}, {true, true, true}}));
  check_equal(eq(x, 2), tensor({{false, false, true}, {false, false, false}}));
  check_equal(le(tensor({1.0, 2.0}, {.dtype = kFloat16}), 1), tensor({true, false}));
  check_equal(lt(x, tensor({1.0, 9.0, 0.0})), tensor({{true, true, false}, {false, true, false}}));
  check_equal(ge(x, x.slice(1, 0, 1)), full({2, 3}, true, {.dtype = kBool}));
  check_equal(x.ne(tensor(4)), tensor({{true, true, true}, {true, false, true}}));
  check_equal(logical_xor(tensor({true, false}), tensor({2.0, 0.0})), tensor({false, false}));
  CHECK(maximum(x, tensor({0.5})).dtype() == kFloat32);
  CHECK(maximum(x, tensor(7)).dtype() == kInt64);
  check_equal(minimum(x, tensor({1, 1, 1})), tensor({{0, 1, 1}, {1, 1, 1}}));
  CHECK(eq(numbers({2, 3, 4, 5}).contiguous(kChannelsLast), 1).is_contiguous(kChannelsLast));
  CHECK(eq(zeros({0, 3}), ones({1, 3})).shape() == Shape{0, 3});
  CHECK_FALSE(eq(numbers({3}).set_requires_grad(), 0).requires_grad());

  CHECK_THROWS_AS(eq(zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(eq(zeros({2}), zeros({2}, {.device = "cpu:0"})), DeviceError);
  CHECK_THROWS_AS(eq(Tensor(), 1), ValueError);
  CHECK_THROWS_AS(maximum(zeros({2}), Tensor()), ValueError);
}

TEST_CASE("compare: isclose, allclose, equal") {
  const Tensor a = tensor({1.0, 100.0, NAN, INFINITY, 0.0}, {.dtype = kFloat64});
  const Tensor b = tensor({1.0 + 1e-6, 101.0, NAN, INFINITY, 1e-9}, {.dtype = kFloat64});
  check_equal(isclose(a, b), tensor({true, false, false, true, true}));
  check_equal(isclose(a, b, 0.1, 0, true), tensor({true, true, true, true, false}));
  CHECK(allclose(a, b, 0.1, 1e-6, true));
  CHECK_FALSE(allclose(a, b, 0.1, 1e-6));
  check_equal(isclose(tensor({0, 255}, {.dtype = kUInt8}), tensor({255, 255}, {.dtype = kUInt8})),
              tensor({false, true}));
  CHECK(equal(arange(5), arange(5)));
  CHECK_FALSE(equal(arange(5), arange(6)));
  CHECK_FALSE(equal(arange(5), arange(5) + 1));
  CHECK_FALSE(equal(a, a));
  CHECK(equal(zeros({0}), zeros({0})));
  CHECK_THROWS_AS(equal(arange(5), arange(5, {.dtype = kFloat32})), DTypeError);
  CHECK_THROWS_AS(isclose(a, b, -1), ValueError);
}

TEST_CASE("compare: where") {
  const Tensor c = tensor({{true, false, true}, {false, false, true}});
  const Tensor a = arange(6).reshape({2, 3}), b = tensor({-1, -2, -3});
  check_equal(where(c, a, b), tensor({{0, -2, 2}, {-1, -2, 5}}));
  check_equal(where(c, a, 9), tensor({{0, 9, 2}, {9, 9, 5}}));
  check_equal(where(c, 0.5, b), tensor({{0.5, -2.0, 0.5}, {-1.0, -2.0, 0.5}}));
  check_equal(where(c.to(kUInt8), a, 9), tensor({{0, 9, 2}, {9, 9, 5}}));
  check_equal(where(tensor({true}), a.t(), 0), a.t());
  check_equal(where(c.t(), a.t(), b.reshape({3, 1})), where(c, a, b).t());
  for (DType dtype :
       {kFloat64, kFloat32, kFloat16, kBFloat16, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    const Tensor x = (numbers({1037}) * 3).to(kUInt8).to(dtype), y = ones_like(x);
    const Tensor holds = gt(numbers({1037}, kFloat64, 8), 0);
    std::vector<double> expected = y.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (holds.to_vector<bool>()[i]) expected[i] = x.to_vector<double>()[i];
    check_close(where(holds, x, y), expected, 0);
    check_close(where(holds, x, 1), expected, 0);
  }
  const Tensor nhwc = numbers({2, 3, 4, 5}).contiguous(kChannelsLast);
  CHECK(where(gt(nhwc, 0), nhwc, 0).is_contiguous(kChannelsLast));

  const Tensor x = numbers({2, 3}).set_requires_grad(), y = numbers({3}).set_requires_grad();
  CHECK(autograd::gradcheck([&](const auto& in) { return where(c, in[0], in[1]); }, {x, y},
                            {.second_order = true}));
  CHECK(autograd::gradcheck([&](const auto& in) { return where(c, in[0], 1) * in[0]; }, {x},
                            {.second_order = true}));
  const Tensor scores = tensor({1.0, 2.0}, {.dtype = kFloat16}), kept = tensor({true, false});
  check_equal(where(kept, scores, -1e9), tensor({1.0, -INFINITY}, {.dtype = kFloat16}));
  CHECK_THROWS_AS(where(kept, scores, 1e50), ValueError);
  CHECK_THROWS_AS(where(kept, tensor({1, 2}, {.dtype = kInt32}), std::int64_t{1} << 40),
                  ValueError);
  CHECK_THROWS_AS(where(a, a, a), DTypeError);
  CHECK_THROWS_AS(where(c, arange(4), a), ShapeError);
  CHECK_THROWS_AS(where(c, a, zeros({2, 3}, {.device = "cpu:0"})), DeviceError);
  CHECK_THROWS_AS(where(c, Tensor(), 1), ValueError);
}

TEST_CASE("compare: pow in place") {
  for (const double e : {2.0, 0.5, 3.0, -1.0, 0.0}) {
    const Tensor x = abs(numbers({5, 7})) + 0.5;
    const Tensor y = x.clone().t();
    CHECK(pow_(y, e).is_same(y));
    check_equal(y, pow(x.t(), e));
    CHECK(autograd::gradcheck([e](const auto& in) { return pow_(in[0] * 1, e) * in[0]; },
                              {(abs(numbers({4}, kFloat64)) + 0.5).set_requires_grad()},
                              {.second_order = true}));
  }
  check_equal(pow_(tensor({2, -3}), 3), tensor({8, -27}));
  CHECK_THROWS_AS(pow_(tensor({2, 3}), 0.5), DTypeError);
  CHECK_THROWS_AS(pow_(tensor({2, 3}), -1), ValueError);
  CHECK_THROWS_AS(pow_(tensor({true}), 2), DTypeError);
  CHECK_THROWS_AS(pow_(Tensor(), 2), ValueError);
  CHECK_THROWS_AS(pow_(ones({2}).set_requires_grad(), 2), AutogradError);
}

TEST_CASE("compare: clamp") {
  check_equal(clamp(tensor({-5, 0, 5}), -1, 3), tensor({-1, 0, 3}));
  check_equal(clamp(tensor({-5, 0, 5}), {}, 3), tensor({-5, 0, 3}));
  check_equal(clamp(tensor({0, 9}, {.dtype = kUInt8}), 5), tensor({5, 9}, {.dtype = kUInt8}));
  check_close(clamp(tensor({-5, 0, 5}), -0.5, {}), {-0.5, 0, 5});
  // Bounds that the dtype does not hold.
  check_close(clamp(tensor({0, 9, 255}, {.dtype = kUInt8}), -1, 300), {0, 9, 255}, 0);
  check_close(hardtanh(tensor({0, 9}, {.dtype = kUInt8}), -1, 1e30), {0, 9}, 0);
  check_close(clamp(tensor({-5.0, 5.0}), 3, 1), {1, 1});
  check_equal(clamp(tensor({NAN, -INFINITY}), 0, 1), tensor({NAN, 0.0}));
  const Tensor x = tensor({-5, 5});
  check_equal(x.clamp_(0, 3), tensor({0, 3}));
  CHECK_THROWS_AS(x.clamp_(0.5), DTypeError);
  CHECK_THROWS_AS(clamp(x, std::nullopt), ValueError);
  CHECK_THROWS_AS(clamp(tensor({true}), false), DTypeError);
  CHECK_THROWS_AS(clamp(Tensor(), 0), ValueError);
  for (const bool create_graph : {false, true}) {
    const Tensor nan = tensor({NAN, 1.0, 5.0, INFINITY}).set_requires_grad();
    sum(clamp(nan, 0, 5)).backward({}, false, create_graph);
    check_close(nan.grad(), {0, 1, 0, 0}, 0);
    nan.set_grad({});
    sum(clamp_min(nan, 2)).backward({}, false, create_graph);
    check_close(nan.grad(), {0, 0, 1, 1}, 0);
    nan.set_grad({});
    sum((nan * 1).clamp_(0, 5)).backward({}, false, create_graph);
    check_close(nan.grad(), {0, 1, 0, 0}, 0);
    nan.set_grad({});
    sum(hardtanh(nan, 0, 5)).backward({}, false, create_graph);
    check_close(nan.grad(), {0, 1, 0, 0}, 0);
    nan.set_grad({});
    sum(clamp(nan, NAN, 5)).backward({}, false, create_graph);
    check_close(nan.grad(), {0, 0, 0, 0}, 0);
  }
  // Bounds that the dtype rounds are those of the result.
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor z = tensor({-5.0, 0.5, 5.0}, {.dtype = dtype}).set_requires_grad();
    sum((z * 1).clamp_(-0.7, 0.7)).backward();
    check_close(z.grad(), {0, 1, 0}, 0);
    z.set_grad({});
    sum(hardtanh_(z * 1, -0.7, 0.7)).backward();
    check_close(z.grad(), {0, 1, 0}, 0);
  }
  const Tensor y = numbers({4, 5}).set_requires_grad();
  CHECK(autograd::gradcheck([](const auto& in) { return clamp(in[0], -1, 1.5); }, {y},
                            {.second_order = true}));
  CHECK(autograd::gradcheck([](const auto& in) { return (in[0] * 1).clamp_({}, 0.5); }, {y},
                            {.second_order = true}));
}

TEST_CASE("compare: clamp to bounds that are tensors") {
  const Tensor x = tensor({-5.0, 0.5, 5.0, NAN}), low = tensor({-1.0, 1.0, NAN, 0.0});
  check_equal(clamp(x, low), tensor({-1.0, 1.0, NAN, NAN}));
  check_equal(x.clamp(low, tensor(0.75)), tensor({-1.0, 0.75, NAN, NAN}));
  check_equal(clamp(x, {}, low), tensor({-5.0, 0.5, NAN, NAN}));
  check_equal(x.clamp_max(low), x.clamp({}, low));
  check_equal(clamp_min(tensor({1, 2}), tensor({1.5, 1.5})), tensor({1.5, 2.0}));
  CHECK(clamp(ones({2, 1}), zeros({3})).shape() == Shape{2, 3});
  CHECK_THROWS_AS(clamp(x, Tensor(), Tensor()), ValueError);
  CHECK_THROWS_AS(clamp(x, zeros({3})), ShapeError);
  CHECK_THROWS_AS(x.to(kComplexFloat).clamp(low), DTypeError);
  const Tensor a = numbers({4, 5}).set_requires_grad(), b = (numbers({5}) / 2).set_requires_grad();
  CHECK(autograd::gradcheck([](const auto& in) { return clamp(in[0], in[1] - 0.6, in[1] + 0.7); },
                            {a, b}, {.second_order = true}));
  CHECK(autograd::gradgradcheck([](const auto& in) { return clamp(in[0], in[1]); }, {a, b}));
}

TEST_CASE("compare: quotients rounded to whole numbers") {
  const Tensor a = tensor({7, -7, 7, -7, 7}), b = tensor({2, 2, -2, -2, 0});
  check_equal(div(a, b, "trunc"), tensor({3, -3, -3, 3, 0}));
  check_equal(div(a, b, "floor"), tensor({3, -4, -4, 3, 0}));
  check_equal(a.div(2, "trunc"), tensor({3, -3, 3, -3, 3}));
  check_equal(a.div(2, "floor"), tensor({3, -4, 3, -4, 3}));
  check_equal(div(a, 2.0, "trunc"), tensor({3.0, -3.0, 3.0, -3.0, 3.0}));
  check_equal(div(tensor({7.5, -7.5}), tensor({2, 0}), "trunc"), tensor({3.0, -INFINITY}));
  // The quotient, 2.9993, is not rounded to 3 before it is truncated.
  const Tensor half = tensor({2047.0}, {.dtype = kFloat16});
  check_close(div(half, 682.5, "trunc"), {2}, 0);
  check_close(div(half, tensor({682.5}, {.dtype = kFloat16}), "trunc"), {2}, 0);
  const Tensor x = tensor({1.0, 0.0}).set_requires_grad(), y = zeros({2, 2}).set_requires_grad();
  sum(div(x, y, "trunc") + x.div(2, "floor")).backward();
  check_equal(x.grad(), zeros({2}));
  check_equal(y.grad(), zeros({2, 2}));
  CHECK_THROWS_WITH_AS(div(a, b, "round"),
                       "[div] expected the rounding mode \"trunc\" or \"floor\", got \"round\"",
                       ValueError);
  CHECK_THROWS_AS(div(tensor({true}), tensor({true}), "trunc"), DTypeError);
  CHECK_THROWS_AS(div(a.to(kComplexFloat), b, "trunc"), DTypeError);
}

TEST_CASE("compare: gradients of two operands, broadcast, to second order") {
  const Tensor a = numbers({3, 4}).set_requires_grad();
  const Tensor b = numbers({4}, kFloat64, 9).set_requires_grad();
  const Tensor positive = (a * a + 0.5).detach().set_requires_grad();
  const auto check = [](Binary f, const Tensor& x, const Tensor& y) {
    CHECK(autograd::gradcheck([f](const auto& in) { return f(in[0], in[1]); }, {x, y},
                              {.second_order = true}));
  };
  check(maximum, a, b);
  check(minimum, a, b);
  check(atan2, a, b);
  check(pow, positive, b);
  check(remainder, a, b);
  check(fmod, a, b);
  for (double e : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0}) {
    CAPTURE(e);
    CHECK(autograd::gradcheck([e](const auto& in) { return pow(in[0], e); }, {positive},
                              {.second_order = true}));
  }
  CHECK(autograd::gradcheck([](const auto& in) { return pow(2.5, in[0]); }, {a},
                            {.second_order = true}));
  CHECK(autograd::gradcheck([](const auto& in) { return fmod(in[0], 1.5) * remainder(in[0], 0.7); },
                            {a}));
}

TEST_CASE("compare: fmod and remainder of float32 are exact, whatever the quotient") {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::uint32_t> any;
  std::uniform_int_distribution<int> exponent(-30, 30);
  std::uniform_real_distribution<float> mantissa(-2, 2);
  std::vector<float> a{0.0f, -0.0f, 1, -6, 6, 5, -5, 1, INFINITY, NAN, 1, 3e38f, -3e38f, 1e-45f},
      b{3.0f, 3.0f, 0, 3, -3, INFINITY, INFINITY, -INFINITY, 2, 2, NAN, 1e-45f, 7, 3e38f};
  for (int i = 0; i < 20000; ++i) {
    // Any bits, and pairs with quotients up to 2^60 that are often whole.
    const bool bits = i % 4 == 0;
    a.push_back(bits ? std::bit_cast<float>(any(random))
                     : std::ldexp(mantissa(random), exponent(random)));
    b.push_back(bits ? std::bit_cast<float>(any(random))
                     : std::ldexp(mantissa(random), exponent(random)));
    if (i % 4 == 1) a.back() = b.back() * std::round(100 * mantissa(random));
  }
  const auto n = static_cast<std::int64_t>(a.size());
  const Tensor x = from_vector(a, {n}), y = from_vector(b, {n});
  const std::vector<float> truncated = fmod(x, y).to_vector<float>(),
                           floored = remainder(x, y).to_vector<float>();
  const auto same = [](float u, float v) {
    return (std::isnan(u) && std::isnan(v)) || (u == v && std::signbit(u) == std::signbit(v));
  };
  int wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float rest = std::fmod(a[i], b[i]);
    const float moved = rest != 0 && (rest < 0) != (b[i] < 0) ? rest + b[i] : rest;
    wrong += !same(truncated[i], rest) || !same(floored[i], moved) ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("compare: powers and remainders of integers") {
  check_equal(pow(tensor({2, -3, 0}), 3), tensor({8, -27, 0}));
  check_equal(pow(2, tensor({0, 1, 10})), tensor({1, 2, 1024}));
  check_close(pow(tensor({4, 9}), 0.5), {2, 3});
  check_equal(floor_divide(tensor({7, -7, 5}), tensor({2, 2, 0})), tensor({3, -4, 0}));
  check_equal(floor_divide(tensor({7.5, -7.5}), 2), tensor({3.0, -4.0}));
  check_equal(remainder(tensor({7, -7}), 3), tensor({1, 2}));
  check_equal(fmod(tensor({7, -7, 3}), tensor({3, 3, 0})), tensor({1, -1, 0}));
  check_equal(fmod(tensor({INT64_MIN}), -1), tensor({std::int64_t{0}}));
  CHECK_THROWS_AS(pow(tensor({2}), -1), ValueError);
  CHECK_THROWS_AS(pow(tensor({true}), tensor({true})), DTypeError);
  CHECK_THROWS_AS(remainder(tensor({true}), tensor({true})), DTypeError);
  CHECK_THROWS_AS(atan2(zeros({2}), zeros({3})), ShapeError);
}

TEST_CASE("compare: gradients of atan2 beside bool and integers, and at the origin") {
  const Tensor y = tensor({1.0, 1.0, 0.0, 0.0}).set_requires_grad();
  sum(atan2(y, tensor({true, false, true, false}))).backward();
  check_close(y.grad(), {0.5, 0, 1, 0});
  const Tensor x = tensor({1.0, 0.0, -2.0, 0.0}).set_requires_grad();
  sum(atan2(tensor({1, 1, 0, 0}), x)).backward();
  check_close(x.grad(), {-0.5, -1, 0, 0});
}
