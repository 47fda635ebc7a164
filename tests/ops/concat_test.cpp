#include "ferrite/ops/concat.h"

#include <doctest/doctest.h>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

std::vector<std::int64_t> sizes_of(const std::vector<Tensor>& parts, int dim = 0) {
  std::vector<std::int64_t> sizes;
  for (const Tensor& part : parts) sizes.push_back(part.size(dim));
  return sizes;
}

Tensor random(const Shape& shape) {
  const Tensor t = randn(shape, {.dtype = kFloat64});
  t.set_requires_grad();
  return t;
}

}  // namespace

TEST_CASE("cat: values, any dimension, strides and layouts") {
  const Tensor a = arange(6).reshape({2, 3}), b = arange(10, 14).reshape({2, 2});
  CHECK(cat({a, b}, 1).to_vector<double>() ==
        std::vector<double>{0, 1, 2, 10, 11, 3, 4, 5, 12, 13});
  CHECK(cat({a.t(), b.t()}, -2).to_vector<double>() ==
        std::vector<double>{0, 3, 1, 4, 2, 5, 10, 12, 11, 13});
  CHECK(cat({a}, 0).shares_storage(a) == false);
  CHECK(cat({a, zeros({0}), a.slice(1, 0, 0)}, 1).shape() == Shape{2, 3});
  CHECK(cat({zeros({0}), zeros({0})}).shape() == Shape{0});
  const Tensor image = randn({2, 3, 4, 5}), nhwc = image.to(kChannelsLast);
  CHECK(cat({nhwc, nhwc}, 1).is_contiguous(kChannelsLast));
  check_equal(cat({nhwc, image}, 1), cat({image, image}, 1));
  check_equal(cat({nhwc, nhwc}, 2), cat({image, image}, 2));
}

TEST_CASE("cat and stack promote element types") {
  const Tensor i = ones({2}, {.dtype = kInt64}), f = ones({2}), h = ones({2}, {.dtype = kFloat16});
  CHECK(cat({i, f}).dtype() == kFloat32);
  CHECK(cat({h, i}).dtype() == kFloat16);
  CHECK(cat({h, ones({2}, {.dtype = kBFloat16})}).dtype() == kFloat32);
  CHECK(stack({ones({2}, {.dtype = kBool}), i}).dtype() == kInt64);
  for (DType dtype :
       {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool})
    CHECK(cat({zeros({1}, {.dtype = dtype}), ones({1}, {.dtype = dtype})}).to_vector<double>() ==
          std::vector<double>{0, 1});
  f.set_requires_grad();
  const Tensor d = ones({2}, {.dtype = kFloat64});
  sum(cat({f, d}) * 3).backward();
  check_equal(f.grad(), full({2}, 3.0));
}

TEST_CASE("stack: values and positions of the new dimension") {
  const Tensor a = arange(3), b = arange(10, 13);
  CHECK(stack({a, b}).to_vector<double>() == std::vector<double>{0, 1, 2, 10, 11, 12});
  CHECK(stack({a, b}, 1).to_vector<double>() == std::vector<double>{0, 10, 1, 11, 2, 12});
  CHECK(stack({a, b}, -1).shape() == Shape{3, 2});
  CHECK(stack({tensor(1), tensor(2)}).shape() == Shape{2});
  CHECK(stack({zeros({0, 2})}).shape() == Shape{1, 0, 2});
}

TEST_CASE("chunk follows PyTorch's rule") {
  const Golden golden("views");
  const std::pair<int, int> cases[] = {{30, 4}, {5, 4}, {6, 3}, {1, 3}, {7, 7}};
  for (const auto& [n, chunks] : cases)
    CHECK(sizes_of(chunk(arange(n), chunks)) ==
          golden.get("chunk_" + std::to_string(n) + "_" + std::to_string(chunks), "sizes")
              .to_vector<std::int64_t>());
  CHECK(sizes_of(chunk(zeros({2, 0}), 3, 1), 1) == std::vector<std::int64_t>{0, 0, 0});
  CHECK(chunk(zeros({5}), INT64_MAX).size() == 5);
  CHECK_THROWS_AS(chunk(zeros({0, 3}), INT32_MAX), ValueError);
  CHECK_THROWS_AS(chunk(zeros({0}), INT64_MAX), ValueError);
}

TEST_CASE("split and unbind give views") {
  const Tensor x = arange(14).reshape({2, 7});
  CHECK(sizes_of(split(x, 3, 1), 1) == std::vector<std::int64_t>{3, 3, 1});
  CHECK(sizes_of(split(x, {2, 0, 5}, -1), 1) == std::vector<std::int64_t>{2, 0, 5});
  CHECK(sizes_of(split(zeros({0}), 0)) == std::vector<std::int64_t>{0});
  const auto rows = unbind(x);
  CHECK(rows.size() == 2);
  CHECK(rows[1].to_vector<double>() == std::vector<double>{7, 8, 9, 10, 11, 12, 13});
  for (const Tensor& part : split(x, 3, 1)) CHECK(part.shares_storage(x));
  rows[1].fill_(-1);
  CHECK(x.to_vector<double>()[7] == -1);
  CHECK(unbind(zeros({0, 3})).empty());
}

TEST_CASE("gradients of joins and parts, to the second order") {
  const Tensor a = random({2, 3}), b = random({2, 1});
  const autograd::GradcheckOptions twice{.second_order = true};
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) {
        const Tensor y = cat({in[0], in[1], in[0]}, 1);
        return y * y * y;
      },
      {a, b}, twice));
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) {
        const Tensor y = stack({in[0], in[0] * in[1]}, 1);
        return y * y;
      },
      {a, b}, twice));
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) {
        const auto parts = split(in[0], 2, 1);  // the second is unused in one product
        return parts[0] * parts[0] * sum(parts[1]);
      },
      {a}, twice));
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) {
        const auto parts = unbind(in[0], 1);
        return parts[0] * parts[2] * parts[2];
      },
      {a}, twice));
}

TEST_CASE("a part that is not used counts as zero; a part may be changed in place") {
  const Tensor x = random({4});
  const auto parts = chunk(x, 2);
  sum(parts[1] * 5).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0, 5, 5});
  x.set_grad({});
  const Tensor h = x * 1;
  const auto halves = chunk(h, 2);
  halves[0].mul_(7);
  sum(h).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{7, 7, 1, 1});
}

TEST_CASE("repeat and tile: copies, new dimensions, zero times") {
  const Tensor x = arange(2);
  CHECK(repeat(x, {2, 2}).to_vector<double>() == std::vector<double>{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(repeat(x, {1}).shares_storage(x) == false);
  CHECK(repeat(zeros({1, 3}), {4, 1}).shape() == Shape{4, 3});
  CHECK(repeat(x, {0}).shape() == Shape{0});
  CHECK(repeat(tensor(4), {3}).to_vector<double>() == std::vector<double>{4, 4, 4});
  CHECK(repeat(tensor(4), {}).shape() == Shape{});
  CHECK(tile(zeros({2, 3}), {2}).shape() == Shape{2, 6});
  CHECK(tile(x, {2, 1, 1}).shape() == Shape{2, 1, 2});
  // No two elements share memory, whatever is repeated around sizes of 1.
  for (const Shape& shape : {Shape{1, 1, 4}, Shape{1, 3, 1}, Shape{1, 1, 1}, Shape{2, 1, 2}})
    for (const Shape& repeats : {Shape{2, 2, 1}, Shape{2, 1, 2}, Shape{1, 2, 2}, Shape{2, 2, 2}}) {
      const Tensor out = repeat(ones(shape), repeats);
      CHECK(out.is_contiguous());
      out.add_(arange(out.numel()).reshape(out.shape()));
      CHECK(out.to_vector<double>() == arange(1, out.numel() + 1).to_vector<double>());
    }
}

TEST_CASE("errors of joins and parts") {
  CHECK_THROWS_AS(repeat(ones({3}), {INT64_MAX / 2}), ShapeError);
  CHECK_THROWS_AS(repeat(ones({3, 3}), {INT64_MAX / 4, INT64_MAX / 4}), ShapeError);
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(cat(std::vector<Tensor>{}), ValueError);
  CHECK_THROWS_AS(cat({x, Tensor()}), ValueError);
  CHECK_THROWS_WITH_AS(cat({x, zeros({2, 4})}), doctest::Contains("[2, 4]"), ShapeError);
  CHECK_THROWS_AS(cat({x, zeros({6})}), ShapeError);
  CHECK_THROWS_AS(cat({tensor(1), tensor(2)}), ShapeError);
  CHECK_THROWS_AS(cat({x}, 2), IndexError);
  CHECK_THROWS_WITH_AS(cat({x, zeros({2, 3}, {.device = "cpu:0"})}), doctest::Contains("cpu:0"),
                       DeviceError);
  CHECK_THROWS_AS(stack({x, zeros({3, 2})}), ShapeError);
  CHECK_THROWS_AS(stack({x}, 3), IndexError);
  CHECK_THROWS_AS(split(x, {1, 1}, 1), ShapeError);
  CHECK_THROWS_AS(split(x, {4, -1}, 1), ShapeError);
  CHECK_THROWS_AS(split(x, 0), ValueError);
  CHECK_THROWS_AS(split(tensor(1), 1), IndexError);
  CHECK_THROWS_AS(chunk(x, 0), ValueError);
  CHECK_THROWS_AS(unbind(x, 2), IndexError);
  CHECK_THROWS_AS(repeat(x, {2}), ShapeError);
  CHECK_THROWS_AS(repeat(x, {-1, 1}), ValueError);
  CHECK_THROWS_AS(tile(Tensor(), {1}), ValueError);
}
