// Type promotion and the values of mixed dtypes, against PyTorch.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

constexpr DType kOrder[] = {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64,
                            kInt32,   kUInt8,   kBool,     kInt16,   kInt8};
const Scalar kScalars[] = {true, 3, 2.5};
constexpr int kError = 255;

/// What PyTorch refuses and Ferrite does not: bool beside other types in a difference.
bool refused_by_pytorch_alone(const std::string& op, DType a, DType b) {
  return (op == "sub" || op == "sub_") && (a == kBool) != (b == kBool);
}

template <class A, class B>
Tensor apply(const std::string& op, const A& a, const B& b) {
  if (op == "add") return a + b;
  if (op == "sub") return a - b;
  if (op == "mul") return a * b;
  if (op == "div") return a / b;
  if constexpr (std::is_same_v<A, Tensor>) {
    if (op == "gt") return gt(a, b);
    if (op == "add_") return a.clone().add_(b);
    if (op == "sub_") return a.clone().sub_(b);
    if (op == "mul_") return a.clone().mul_(b);
    if (op == "div_") return a.clone().div_(b);
  }
  throw std::logic_error(op);
}

template <class A, class B>
std::optional<Tensor> attempt(const std::string& op, const A& a, const B& b) {
  try {
    return apply(op, a, b);
  } catch (const DTypeError&) {
    return {};
  }
}

DType dtype_of_scalar(Scalar s) {
  return s.is_floating() ? kFloat32 : s.kind() == Scalar::Kind::boolean ? kBool : kInt64;
}

Tensor ones_of(DType dtype, bool zero_dimensional) {
  return full(zero_dimensional ? Shape{} : Shape{2}, 1, {.dtype = dtype});
}

}  // namespace

TEST_CASE("the result's dtype, for all pairs of dtypes with and without dimensions") {
  const Golden golden("arithmetic");
  for (const std::string op : {"add", "sub", "mul", "div", "gt"})
    for (const std::string kind : {"dims_dims", "dims_zero", "zero_dims", "zero_zero"}) {
      const auto expected = golden.get(op, kind).to_vector<int>();
      for (std::size_t i = 0; i < 10; ++i)
        for (std::size_t j = 0; j < 10; ++j) {
          const Tensor a = ones_of(kOrder[i], kind.starts_with("zero"));
          const Tensor b = ones_of(kOrder[j], kind.ends_with("zero"));
          if (refused_by_pytorch_alone(op, a.dtype(), b.dtype())) continue;
          const auto out = attempt(op, a, b);
          CHECK_MESSAGE((out ? static_cast<int>(out->dtype()) : kError) == expected[10 * i + j], op,
                        " ", a.describe(), " ", b.describe());
        }
    }
}

TEST_CASE("the result's dtype beside scalars") {
  const Golden golden("arithmetic");
  for (const std::string op : {"add", "sub", "mul", "div", "gt"})
    for (const std::string kind : {"dims_scalar", "zero_scalar", "scalar_dims"}) {
      if (op == "gt" && kind == "scalar_dims") continue;
      const auto expected = golden.get(op, kind).to_vector<int>();
      for (std::size_t i = 0; i < 10; ++i)
        for (std::size_t j = 0; j < 3; ++j) {
          const Tensor a = ones_of(kOrder[i], kind.starts_with("zero"));
          if (refused_by_pytorch_alone(op, a.dtype(), dtype_of_scalar(kScalars[j]))) continue;
          const auto out =
              kind == "scalar_dims" ? attempt(op, kScalars[j], a) : attempt(op, a, kScalars[j]);
          CHECK_MESSAGE((out ? static_cast<int>(out->dtype()) : kError) == expected[3 * i + j], op,
                        " ", kind, " ", a.describe(), " ", j);
        }
    }
}

TEST_CASE("values of every pair of dtypes, broadcast, are PyTorch's to the last bit") {
  const Golden golden("arithmetic");
  const Tensor a = golden.get("values", "a"), b = golden.get("values", "b");
  const auto check = [&](const std::string& op, const char* name, const Tensor& expected,
                         std::size_t i, std::size_t j, DType beside,
                         const std::optional<Tensor>& out) {
    if (refused_by_pytorch_alone(op, kOrder[i], beside)) return;
    INFO(op, " ", name, " ", kOrder[i], " ", j);
    const Tensor cell = expected[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(j)];
    const auto values = cell.to_vector<double>();
    // All NaN: PyTorch refused.
    const bool refused = std::ranges::all_of(values, [](double v) { return std::isnan(v); });
    REQUIRE(out.has_value() != refused);
    // PyTorch rounds alpha * b to bfloat16 before it adds; Ferrite rounds the sum alone.
    const bool rounded_twice = name == std::string("alpha") && out && out->dtype() == kBFloat16;
    if (out) check_close(*out, values, rounded_twice ? 8e-3 : 0);
  };
  for (const std::string op : {"add", "sub", "mul", "div", "gt", "add_", "sub_", "mul_", "div_"}) {
    const Tensor values = golden.get(op, "values"), beside = golden.get(op, "scalar_values");
    for (std::size_t i = 0; i < 10; ++i) {
      for (std::size_t j = 0; j < 10; ++j)
        check(op, "values", values, i, j, kOrder[j], attempt(op, a.to(kOrder[i]), b.to(kOrder[j])));
      for (std::size_t j = 0; j < 3; ++j)
        check(op, "scalar", beside, i, j, dtype_of_scalar(kScalars[j]),
              attempt(op, a.to(kOrder[i]), kScalars[j]));
    }
  }
  for (std::size_t i = 0; i < 10; ++i)
    for (std::size_t j = 0; j < 10; ++j) {
      const Tensor x = a.to(kOrder[i]), y = b.to(kOrder[j]);
      const auto with = [&](auto f) -> std::optional<Tensor> {
        try {
          return f();
        } catch (const DTypeError&) {
          return {};
        }
      };
      check("add", "alpha", golden.get("add", "alpha"), i, j, kOrder[j],
            with([&] { return add(x, y, 3); }));
      check("sub", "alpha", golden.get("sub", "alpha"), i, j, kOrder[j],
            with([&] { return sub(x, y, 3); }));
      check("add_", "alpha", golden.get("add_", "alpha"), i, j, kOrder[j],
            with([&] { return x.clone().add_(y, 3); }));
    }
}

TEST_CASE("floored division and remainders where the quotient rounds up, for all signs") {
  const Golden golden("arithmetic");
  for (const std::string name : {"f32", "f64"}) {
    const Tensor x = golden.get(name, "x"), y = golden.get(name, "y");
    check_equal(floor_divide(x, y), golden.get(name, "floor_divide"));
    check_equal(remainder(x, y), golden.get(name, "remainder"));
    check_equal(fmod(x, y), golden.get(name, "fmod"));
  }
}

TEST_CASE("a scalar beside a comparison promotes the tensor") {
  const Tensor ints = from_vector(std::vector<std::int64_t>{1, 2}, {2});
  check_equal(gt(ints, 1.5), from_vector(std::vector<bool>{false, true}, {2}));
  check_equal(eq(ints, 1.5), from_vector(std::vector<bool>{false, false}, {2}));
  check_equal(lt(ints, true), from_vector(std::vector<bool>{false, false}, {2}));
  const Tensor flags = from_vector(std::vector<bool>{false, true}, {2});
  check_equal(ge(flags, 0.5), flags);
  check_equal(eq(flags, 1), flags);
}

TEST_CASE("promotion: numbers that a dtype does not hold are errors where PyTorch's are") {
  const Tensor bytes = ones({2}, {.dtype = kUInt8}), halves = ones({2}, {.dtype = kFloat16});
  const Tensor mask = ones({2}, {.dtype = kBool}), first = zeros({1}, {.dtype = kInt64});
  CHECK(message_of<ValueError>([&] { full({2}, 300, {.dtype = kUInt8}); }) ==
        "[full] 300 is outside the range of uint8; choose another value, or convert the tensor "
        "with to(dtype)");
  CHECK_THROWS_AS(full({2}, NAN, {.dtype = kInt32}), ValueError);
  CHECK_THROWS_AS(full({2}, 1e300), ValueError);
  CHECK_THROWS_AS(full_like(halves, 1e6), ValueError);
  CHECK_THROWS_AS(bytes.clone().fill_(-256), ValueError);
  CHECK_THROWS_AS(halves.masked_fill(mask, -1e9), ValueError);
  CHECK_THROWS_AS(bytes.clone().masked_fill_(mask, 300), ValueError);
  CHECK_THROWS_AS(index_fill(bytes, 0, first, 300), ValueError);
  CHECK_THROWS_AS(scatter(bytes, 0, first, 300), ValueError);
  CHECK_THROWS_AS(where(mask, bytes, 300), ValueError);
  CHECK_THROWS_AS(pad(bytes, {1, 1}, PadMode::constant, 300), ValueError);
  CHECK_THROWS_AS(add(bytes, bytes, 300), ValueError);
  CHECK_THROWS_AS(full({1}, 0x1p40).item<int>(), ValueError);

  // Negative integers wrap around in uint8, and so do results of arithmetic in every type.
  check_equal(full({2}, -1, {.dtype = kUInt8}), tensor({255, 255}, {.dtype = kUInt8}));
  check_equal(bytes + 300, tensor({45, 45}, {.dtype = kUInt8}));
  check_equal(bytes * 300, tensor({44, 44}, {.dtype = kUInt8}));
  check_equal(eq(bytes, 300), tensor({false, false}));
  check_equal(maximum(bytes, tensor(300)), tensor({44, 44}, {.dtype = kUInt8}));
  check_equal(halves * 1e6, full({2}, INFINITY, {.dtype = kFloat16}));
  check_equal(full({2}, -INFINITY, {.dtype = kFloat16}).isinf(), mask);
  check_equal(full({2}, 300, {.dtype = kBool}), mask);
}
