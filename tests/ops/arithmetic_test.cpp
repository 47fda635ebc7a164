#include "ferrite/ops/arithmetic.h"

#include <doctest/doctest.h>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/ops/arithmetic_util.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

// ---- Values and shapes

TEST_CASE("operands broadcast against each other") {
  const Tensor a = iota({2, 1, 3}), b = iota({4, 1}) * 10;
  const Tensor out = a + b;
  CHECK(out.shape() == Shape{2, 4, 3});
  std::vector<double> expected;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 3; ++k) expected.push_back(3 * i + k + 10 * j);
  check_close(out, expected, 0);
  check_close(b + a, expected, 0);
  CHECK((iota({3, 0}) + iota({1})).shape() == Shape{3, 0});
  CHECK((iota({}) + iota({})).shape() == Shape{});
  CHECK((iota({1, 1}) * iota({3})).shape() == Shape{1, 3});
}

TEST_CASE("each function against float64 loops, for odd sizes and any layout") {
  Generator random(7);
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{17}, Shape{5, 7}, Shape{2, 3, 5, 7}})
    for (bool strided : {false, true}) {
      const auto make = [&] {
        Tensor t = empty(shape);
        for (std::int64_t i = 0; i < t.numel(); ++i)
          t.data<float>()[i] = static_cast<float>(random.next_normal() + 3);
        if (strided && t.dim() > 1)  // the same elements, transposed in memory
          t = t.transpose(0, -1).contiguous().transpose(0, -1);
        return t;
      };
      const Tensor a = make(), b = make();
      const auto x = a.to_vector<double>(), y = b.to_vector<double>();
      const auto check = [&](const Tensor& out, auto f) {
        std::vector<double> expected;
        for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(f(x[i], y[i]));
        check_close(out, expected, 1e-6, 1e-6);
      };
      check(a + b, [](double p, double q) { return p + q; });
      check(a - b, [](double p, double q) { return p - q; });
      check(a * b, [](double p, double q) { return p * q; });
      check(a / b, [](double p, double q) { return p / q; });
      check(add(a, b, 0.25), [](double p, double q) { return p + 0.25 * q; });
      check(sub(a, b, -2), [](double p, double q) { return p + 2 * q; });
      check(a + 1.5, [](double p, double) { return p + 1.5; });
      check(1.5 - a, [](double p, double) { return 1.5 - p; });
      check(a - 2, [](double p, double) { return p - 2; });
      check(3 * a, [](double p, double) { return 3 * p; });
      check(a / 4, [](double p, double) { return p / 4; });
      check(2 / a, [](double p, double) { return 2 / p; });
    }
}

TEST_CASE("expanded operands are read as they are") {
  const Tensor row = iota({3}).expand({4, 3}), column = iota({4, 1}).expand({4, 3});
  check_close(row * column, {0, 0, 0, 0, 1, 2, 0, 2, 4, 0, 3, 6}, 0);
  CHECK((row + row).is_contiguous());
}

TEST_CASE("the result lies in memory as the operand that was not broadcast") {
  const Tensor image = iota({2, 3, 4, 5}).contiguous(kChannelsLast);
  CHECK((image + image).is_contiguous(kChannelsLast));
  CHECK((image * 2).is_contiguous(kChannelsLast));
  CHECK((2 - image).is_contiguous(kChannelsLast));
  const Tensor bias = iota({3, 1, 1});
  CHECK((image + bias).is_contiguous(kChannelsLast));
  CHECK((bias + image).is_contiguous(kChannelsLast));
  CHECK((image + image.to(kFloat64)).is_contiguous(kChannelsLast));
  CHECK((image.to(kInt32) / image).is_contiguous(kChannelsLast));
  check_close(image + bias, (iota({2, 3, 4, 5}) + bias).to_vector<double>(), 0);
  // Different layouts are fine together; the first decides.
  CHECK((iota({2, 3, 4, 5}) + image).is_contiguous());
  check_close(iota({2, 3, 4, 5}) + image, (image + image).to_vector<double>(), 0);
}

TEST_CASE("integers wrap around, and keep all their bits") {
  const auto one = [](auto v) { return from_vector(std::vector{v}, {1}); };
  CHECK((one(INT64_MAX) + 1).item<std::int64_t>() == INT64_MIN);
  CHECK((one(INT64_MIN) - 1).item<std::int64_t>() == INT64_MAX);
  CHECK((one(INT64_MAX) * one(INT64_MAX)).item<std::int64_t>() == 1);
  CHECK((one(INT32_MAX) + one(1)).item<std::int32_t>() == INT32_MIN);
  CHECK((one(INT32_MIN) * -1).item<std::int32_t>() == INT32_MIN);
  CHECK((one(std::uint8_t{200}) + one(std::uint8_t{100})).item<int>() == 44);
  CHECK((one(std::uint8_t{3}) - 5).item<int>() == 254);
  CHECK((5 - one(std::uint8_t{7})).item<int>() == 254);
  // 2^53 + 1 has no double.
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  CHECK(add(one(std::int64_t{0}), one(std::int64_t{1}), big).item<std::int64_t>() == big);
  CHECK(sub(one(std::int64_t{0}), one(std::int64_t{1}), big).item<std::int64_t>() == -big);
  CHECK((one(big) + 0).item<std::int64_t>() == big);
  Tensor t = one(std::int64_t{0});
  t.sub_(one(std::int64_t{1}), big);
  CHECK(t.item<std::int64_t>() == -big);
  CHECK(sub(one(std::int64_t{1}), one(std::int64_t{1}), INT64_MIN).item<std::int64_t>() ==
        INT64_MIN + 1);
}

TEST_CASE("division by zero, and of integers") {
  const Tensor ints = from_vector(std::vector<std::int32_t>{1, -1, 0}, {3});
  check_close(ints / 0, {INFINITY, -INFINITY, NAN}, 0);
  check_close(ints / from_vector(std::vector<std::int32_t>{2, 4, 8}, {3}), {0.5, -0.25, 0}, 0);
  check_close(floor_divide(ints, 0), {0, 0, 0}, 0);
  check_close(remainder(ints, 0), {0, 0, 0}, 0);
  check_close(full({2}, 3.0) / 0, {INFINITY, INFINITY}, 0);
}

TEST_CASE("16-bit types compute in float32 and round once") {
  for (DType dtype : {kFloat16, kBFloat16}) {
    const Tensor a = full({3}, 1, {.dtype = dtype}), b = full({3}, 1e-4, {.dtype = dtype});
    // 1 + 1e-4 * 1e4 is 2 only if the product is not rounded away.
    check_close(add(a, b, 1e4), {2, 2, 2}, 1e-2);
    // The scalar keeps its float32 value beside 16-bit elements.
    const Tensor x = full({1}, 256, {.dtype = dtype});
    CHECK((x * 1.001953125).item<float>() == full({1}, 256.5, {.dtype = dtype}).item<float>());
    CHECK((x + 1.5).dtype() == dtype);
  }
}

TEST_CASE("bool: or, and; no difference") {
  const Tensor a = from_vector(std::vector<bool>{false, false, true, true}, {4});
  const Tensor b = from_vector(std::vector<bool>{false, true, false, true}, {4});
  check_equal(a + b, from_vector(std::vector<bool>{false, true, true, true}, {4}));
  check_equal(a * b, from_vector(std::vector<bool>{false, false, false, true}, {4}));
  check_equal(a + true, from_vector(std::vector<bool>{true, true, true, true}, {4}));
  check_equal(a / b, from_vector(std::vector<float>{NAN, 0, INFINITY, 1}, {4}));
  CHECK((a + 1).dtype() == kInt64);
  check_close(1 - a, {1, 1, 0, 0}, 0);
  CHECK_THROWS_WITH_AS(a - b, "[sub] bool cannot be subtracted from bool; use logical_xor or ne",
                       DTypeError);
  CHECK_THROWS_AS(a - true, DTypeError);
  CHECK_THROWS_AS(true - a, DTypeError);
  CHECK_THROWS_AS(a.clone().sub_(b), DTypeError);
  CHECK_THROWS_AS(a.clone().sub_(true), DTypeError);
}

// ---- Devices

TEST_CASE("operands on different devices") {
  const Device other("cpu:1");
  const Tensor here = iota({2}), there = iota({2}).to(other);
  CHECK_THROWS_WITH_AS(here + there,
                       "[add] the operands are on different devices: float32[2] on cpu and "
                       "float32[2] on cpu:1; move one with to(device)",
                       DeviceError);
  CHECK_THROWS_AS(there * here, DeviceError);
  CHECK_THROWS_AS(there.add_(here), DeviceError);
  // A 0-dimensional host tensor is welcome anywhere.
  const Tensor scalar = full({}, 2.5);
  for (const Tensor& out : {there * scalar, scalar * there}) {
    CHECK(out.device() == other);
    check_close(out, {0, 2.5}, 0);
  }
  there.add_(scalar);
  check_close(there, {2.5, 3.5}, 0);
  CHECK_THROWS_AS(scalar.add_(full({}, 1, {.device = other})), DeviceError);
  // Not so the other way round.
  CHECK_THROWS_AS(here + full({}, 1, {.device = other}), DeviceError);
}

TEST_CASE("a host scalar is read when the operation is called, and waits for nothing") {
  const Device device("cpu:1");
  const Tensor x = full({3}, 1, {.device = device}), scalar = full({}, 2);
  Event blocked;
  std::atomic<bool> go{false};
  current_stream(device).enqueue([&] {
    while (!go) std::this_thread::yield();
  });
  const Tensor out = x * scalar;
  scalar.fill_(100);
  go = true;
  check_close(out, {2, 2, 2}, 0);
}

TEST_CASE("gradients return to the device of a host scalar") {
  const Tensor x = full({3}, 2, {.device = "cpu:1"});
  const Tensor scalar = full({}, 5).set_requires_grad();
  (x * scalar).sum().backward();
  CHECK(scalar.grad().device() == Device());
  check_close(scalar.grad(), {6}, 0);
}

// ---- Errors

TEST_CASE("errors name the operation and both operands") {
  CHECK_THROWS_AS(iota({2, 3}) + iota({2}), ShapeError);
  CHECK_THROWS_AS(iota({2}) / iota({3}), ShapeError);
  CHECK_THROWS_AS(iota({2}) + Tensor(), ValueError);
  CHECK_THROWS_AS(Tensor() * iota({2}), ValueError);
  CHECK_THROWS_AS(Tensor() * 2, ValueError);
  CHECK_THROWS_AS(2 - Tensor(), ValueError);
  CHECK_THROWS_AS(1 / Tensor(), ValueError);
  CHECK_THROWS_AS(Tensor().add_(1), ValueError);
  CHECK_THROWS_AS(Tensor().mul_(iota({2})), ValueError);
  const Tensor ints = iota<std::int64_t>({2});
  CHECK_THROWS_WITH_AS(add(ints, ints, 1.5),
                       "[add] expected an integer alpha for a result of int64, got 1.5",
                       DTypeError);
  CHECK_THROWS_AS(sub(ints, ints, 1.0), DTypeError);
  CHECK_THROWS_AS(ints.clone().add_(ints, 0.5), DTypeError);
}

// ---- Gradients

namespace {

Tensor random_leaf(const Shape& shape, Generator& random) {
  Tensor t = empty(shape, {.dtype = kFloat64});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = (random.next_below(2) ? 1 : -1) * (0.5 + random.next_double());
  return t.set_requires_grad();
}

}  // namespace

TEST_CASE("gradients to the second order, broadcast and not") {
  Generator random(11);
  const std::pair<Shape, Shape> shapes[] = {{{3}, {3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}},
                                            {{}, {4}},  {{2, 2}, {}},  {{1}, {2, 1}}};
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  const Function functions[] = {
      [](const Tensor& a, const Tensor& b) { return a + b; },
      [](const Tensor& a, const Tensor& b) { return a - b; },
      [](const Tensor& a, const Tensor& b) { return a * b; },
      [](const Tensor& a, const Tensor& b) { return a / b; },
      [](const Tensor& a, const Tensor& b) { return add(a, b, 2.5); },
      [](const Tensor& a, const Tensor& b) { return sub(a, b, -3); },
      [](const Tensor& a, const Tensor& b) { return a * a / b - b * a; },
      [](const Tensor& a, const Tensor& b) { return 3 / a - 2 * b + (1 - a) * (b / 4) - 1; },
  };
  for (const auto& [sa, sb] : shapes)
    for (Function f : functions)
      CHECK(autograd::gradcheck([f](const std::vector<Tensor>& in) { return f(in[0], in[1]); },
                                {random_leaf(sa, random), random_leaf(sb, random)},
                                {.second_order = true}));
}

TEST_CASE("the gradient of a quotient that overflows is finite where it can be") {
  // 65536 / 1 overflows float16; -65536 * 0.75 and -65536 / 32^2 do not.
  const Tensor x = from_vector(std::vector<float>{1, 1, 32}, {3}).to(kFloat16);
  const Tensor b = x.detach().set_requires_grad();
  (65536.0 / b).backward(from_vector(std::vector<float>{0, 0.75, 1}, {3}).to(kFloat16));
  check_close(b.grad(), {0, -49152, -64}, 0);
}

TEST_CASE("only the gradients that are wanted, and only what they need is kept") {
  const Tensor x = full({1000}, 2).set_requires_grad(), y = full({1000}, 3);
  const Tensor out = x / y;
  const std::size_t before = memory_allocated(Device());
  const Tensor with_graph = x / y;
  // The result itself, which needs no second life in the graph: y may not be changed, it may.
  CHECK(memory_allocated(Device()) - before <= 4096);
  with_graph.add_(1);
  with_graph.sum().backward();
  check_close(x.grad(), std::vector<double>(1000, 1 / 3.0), 1e-6);
  CHECK_FALSE(y.grad().defined());
}

TEST_CASE("gradients of mixed dtypes have the operands' dtypes") {
  const Tensor half = full({2}, 2, {.dtype = kFloat16}).set_requires_grad();
  const Tensor wide = full({3, 2}, 3, {.dtype = kFloat64}).set_requires_grad();
  (half * wide).sum().backward();
  CHECK(half.grad().dtype() == kFloat16);
  CHECK(half.grad().shape() == Shape{2});
  check_close(half.grad(), {9, 9}, 0);
  CHECK(wide.grad().dtype() == kFloat64);
  check_close(wide.grad(), std::vector<double>(6, 2), 0);
  const Tensor x = full({2}, 2).set_requires_grad();
  (x * iota<std::int64_t>({2}) - 1).sum().backward();
  check_close(x.grad(), {0, 1}, 0);
}
