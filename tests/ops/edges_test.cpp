// What PyTorch 2 gives at edges: dtypes, shapes and gradients of values that are few in practice.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

Tensor edge_flags(std::initializer_list<bool> values, const Device& device) {
  return from_vector(std::vector<bool>(values), {static_cast<std::int64_t>(values.size())})
      .to(device);
}

Tensor edge_leaf(std::initializer_list<double> values, const Device& device,
                 DType dtype = kFloat32) {
  const Tensor t = tensor(values, {.dtype = dtype, .device = device});
  t.set_requires_grad();
  return t;
}

}  // namespace

TEST_CASE("pooling with ceil_mode and windows larger than the input") {
  for (const Device& device : host_and_cuda()) {
    const Tensor flat = edge_leaf({1, -2, 3, 4, -5}, device);
    const Tensor x = flat.reshape({1, 1, 1, 5});
    const Tensor mean = avg_pool2d(x, {2, 2}, {3, 2}, 0, true);
    CHECK(mean.shape() == Shape{1, 1, 1, 3});
    check_close(mean, {-0.5, 3.5, -5});
    sum(mean).backward();
    check_close(flat.grad(), {0.5, 0.5, 0.5, 0.5, 1});
    check_close(avg_pool2d(x, {2, 2}, {3, 2}, 0, true, true, 2), {-0.5, 3.5, -2.5});
    check_close(avg_pool2d(x, {4, 4}, {2, 3}, 1, true), {1.0 / 6, 1.0 / 6}, 1e-6);
    check_close(avg_pool2d(x, {4, 4}, {2, 3}, 1, true, false), {2.0 / 3, 2.0 / 3}, 1e-6);
    const auto [most, indices] = max_pool2d_with_indices(
        x, {.kernel_size = {4, 4}, .stride = {2, 3}, .padding = 1, .ceil_mode = true});
    CHECK(most.shape() == Shape{1, 1, 1, 2});
    check_close(most, {3, 4});
    check_close(indices, {2, 3});
    flat.set_grad({});
    sum(most).backward();
    check_close(flat.grad(), {0, 0, 1, 1, 0});
    CHECK_THROWS_AS(max_pool2d(x, {4, 1}, {3, 1}, 0, 1, true), ShapeError);
  }
}

TEST_CASE("any and all of uint8 are uint8") {
  for (const Device& device : host_and_cuda()) {
    const TensorOptions bytes{.dtype = kUInt8, .device = device};
    const Tensor x = tensor({{0, 7}, {0, 255}}, bytes);
    check_equal(any(x), tensor(1, bytes));
    check_equal(all(x), tensor(0, bytes));
    check_equal(any(x, 0), tensor({0, 1}, bytes));
    check_equal(all(x, 0, true), tensor({{0, 1}}, bytes));
  }
}

TEST_CASE("arithmetic of bool that PyTorch has") {
  for (const Device& device : host_and_cuda()) {
    const Tensor x = edge_flags({true, false}, device);
    const auto ints = [&](std::initializer_list<int> v) {
      return tensor(v, {.dtype = kInt64, .device = device});
    };
    check_equal(sign(x), x);
    check_equal(sign_(x.clone()), x);
    check_equal(square(x), ints({1, 0}));
    CHECK_THROWS_AS(square_(x.clone()), DTypeError);
    check_equal(clamp(x, 2), ints({2, 2}));
    check_equal(clamp(x, 0, 0.5), tensor({0.5, 0.0}, {.device = device}));
    CHECK_THROWS_AS(clamp(x, false, true), DTypeError);
    CHECK_THROWS_AS(x.clamp_(0, 1), DTypeError);
    check_equal(pow(x, true), x);
    check_equal(pow(x, false), edge_flags({true, true}, device));
    check_equal(pow_(x.clone(), false), edge_flags({true, true}, device));
    CHECK_THROWS_AS(pow(x, x), DTypeError);

    const Tensor at = ints({0, 1, 1}), ones = edge_flags({true, true, false}, device);
    check_equal(scatter_add(x, 0, at, ones), edge_flags({true, true}, device));
    check_equal(scatter_add_(x.clone(), 0, at, ones), edge_flags({true, true}, device));
    for (const Scalar alpha : {Scalar(1), Scalar(-1), Scalar(0.5)})
      check_equal(index_add(x, 0, at, ones, alpha), edge_flags({true, true}, device));
    check_equal(index_add(x, 0, at, ones, 0), x);
    check_equal(index_add_(x.clone(), 0, at, ones), edge_flags({true, true}, device));
    const Tensor none = zeros({0, 3}, {.device = device});
    CHECK(index_add(none, 0, ints({}), none).shape() == Shape{0, 3});
    // More than a byte counts.
    const Tensor many = full({256}, true, {.dtype = kBool, .device = device});
    check_equal(index_add(x, 0, full({256}, 1, {.dtype = kInt64, .device = device}), many),
                edge_flags({true, true}, device));
  }
}

TEST_CASE("topk of a 0-dimensional tensor is itself, for k = 0 too") {
  for (const int k : {0, 1}) {
    const auto [values, indices] = topk(tensor(3), k);
    CHECK(values.shape() == Shape{});
    CHECK(indices.item<int>() == 0);
    CHECK(values.item<int>() == 3);
  }
}

TEST_CASE("gradients at NaN: of max the NaN's, of amax none; elu and relu let them through") {
  for (const Device& device : host_and_cuda()) {
    const Tensor x = edge_leaf({1, NAN, 2, 3, 4, 4}, device);
    const Tensor rows = x.reshape({2, 3});
    sum(amax(rows, {1})).backward();
    check_close(x.grad(), {NAN, NAN, NAN, 0, 0.5, 0.5});
    x.set_grad({});
    sum(amin(rows, {1})).backward();
    check_close(x.grad(), {NAN, NAN, NAN, 1, 0, 0});
    x.set_grad({});
    max(rows).backward();
    check_close(x.grad(), {0, 1, 0, 0, 0, 0});
    for (const bool create_graph : {false, true}) {
      x.set_grad({});
      sum(elu(x)).backward({}, true, create_graph);
      check_close(x.grad(), {1, 1, 1, 1, 1, 1});
    }
    x.set_grad({});  // whose graph holds x
  }
}

TEST_CASE("what is joined or scattered from empty tensors has a gradient") {
  const Tensor none = zeros({0}), x = ones({2, 3}), row = ones({0, 3});
  none.set_requires_grad(), x.set_requires_grad(), row.set_requires_grad();
  sum(cat({none, x, row})).backward();
  CHECK(none.grad().shape() == Shape{0});
  CHECK(row.grad().shape() == Shape{0, 3});
  check_close(x.grad(), std::vector<double>(6, 1));
  sum(cat({none, none})).backward();
  CHECK(none.grad().shape() == Shape{0});

  const Tensor ids = zeros({0, 3}, {.dtype = kInt64}), source = ones({1, 3});
  source.set_requires_grad();
  const auto check_zero = [&](const Tensor& out) {
    source.set_grad({});
    sum(out).backward();
    check_close(source.grad(), {0, 0, 0});
  };
  check_zero(scatter(x, 0, ids, source));
  check_zero(scatter_add(x, 0, ids, source));
  check_zero(scatter_((x * 1), 0, ids, source));
  check_zero(scatter_add_((x * 1), 0, ids, source));
}

TEST_CASE("the gradient of binary cross-entropy's target has poles, that of its input none") {
  const Tensor target = edge_leaf({0, 0.5, 1, 0}, Device());
  const Tensor p = edge_leaf({0, 1e-30, 0.25, 1}, Device());
  binary_cross_entropy(p, target, {.reduction = Reduction::sum}).backward();
  check_close(target.grad(), {INFINITY, 69.0776, std::log(3.0), -INFINITY}, 1e-5);
  for (const double g : p.grad().to_vector<double>()) CHECK(std::isfinite(g));
}

TEST_CASE("gradients of products: one number, and 16-bit products that overflow") {
  const Tensor one = edge_leaf({INFINITY}, Device());
  prod(one.reshape({})).backward();
  check_close(one.grad(), {1});
  const Tensor x = edge_leaf({300, 400, 0.5}, Device(), kFloat16);
  prod(x).backward(tensor(0.5, {.dtype = kFloat16}));
  check_close(x.grad(), {100, 75, 60000}, 1e-3);
}

TEST_CASE("the exponent's gradient beside an integer base is as exact as the exponent's dtype") {
  const Tensor e = edge_leaf({0.5}, Device(), kFloat64);
  pow(tensor({3}), e).backward(tensor({1.0}, {.dtype = kFloat64}));
  check_close(e.grad(), {std::sqrt(3.0) * std::log(3.0)}, 1e-15);
}
