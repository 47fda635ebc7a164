// PyTorch's second names of functions and methods, beside the first ones; and what distributions
// draw.
#include "ferrite/ops/aliases.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/samples.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

using T = const Tensor&;

const Tensor kX = tensor({{0.25, -0.5, 0.75}, {0.125, 0.5, -0.25}});
const Tensor kY = tensor({0.5, -0.5, 0.25});

/// The function, the method and the method in place give what the first name gives.
void check_unary(Tensor (*alias)(T), Tensor (Tensor::*method)() const,
                 const Tensor& (Tensor::*inplace)() const, Tensor (*first)(T), T x) {
  check_equal(alias(x), first(x));
  check_equal((x.*method)(), first(x));
  const Tensor changed = x.clone();
  (changed.*inplace)();
  check_equal(changed, first(x));
}

}  // namespace

TEST_CASE("aliases of functions of one tensor") {
  check_unary(absolute, &Tensor::absolute, &Tensor::absolute_, abs, kX);
  check_unary(negative, &Tensor::negative, &Tensor::negative_, neg, kX);
  check_unary(arccos, &Tensor::arccos, &Tensor::arccos_, acos, kX);
  check_unary(arcsin, &Tensor::arcsin, &Tensor::arcsin_, asin, kX);
  check_unary(arctan, &Tensor::arctan, &Tensor::arctan_, atan, kX);
  check_unary(arccosh, &Tensor::arccosh, &Tensor::arccosh_, acosh, kX + 2);
  check_unary(arcsinh, &Tensor::arcsinh, &Tensor::arcsinh_, asinh, kX);
  check_unary(arctanh, &Tensor::arctanh, &Tensor::arctanh_, atanh, kX);
  check_unary(fix, &Tensor::fix, &Tensor::fix_, trunc, kX * 10);
}

TEST_CASE("aliases of functions of two operands") {
  check_equal(subtract(kX, kY, 2), sub(kX, kY, 2));
  check_equal(kX.subtract(kY), kX - kY);
  check_equal(kX.subtract(1), subtract(kX, 1));
  check_equal(kX.clone().subtract_(kY, 2), sub(kX, kY, 2));
  check_equal(multiply(kX, kY), kX * kY);
  check_equal(kX.clone().multiply_(2), kX.multiply(2));
  check_equal(divide(kX, kY), kX / kY);
  check_equal(true_divide(kX, 2), kX / 2);
  check_equal(kX.clone().divide_(kY), kX.true_divide(kY));
  check_equal(kX.clone().true_divide_(4), kX.divide(4));
  check_equal(greater(kX, kY), kX > kY);
  check_equal(kX.greater(kY), kX > kY);
  check_equal(kX.greater_equal(kY), kX >= kY);
  check_equal(less(kX, 0), kX < 0);
  check_equal(kX.less(0), kX < 0);
  check_equal(kX.less_equal(kY), kX <= kY);
  check_equal(not_equal(kX, kY), kX != kY);
  check_equal(kX.not_equal(kY), kX != kY);
  check_equal(arctan2(kX, kY), kX.arctan2(kY));
  check_equal(clip(kX, 0, 0.5), clamp(kX, 0, 0.5));
  check_equal(kX.clone().clip_({}, 0.25), kX.clip({}, 0.25));
  check_equal(ger(kY, kY), kY.outer(kY));
  check_equal(kY.ger(kY), kY.outer(kY));
}

TEST_CASE("aliases of arrangements") {
  check_equal(moveaxis(kX, 0, 1), kX.movedim(0, 1));
  check_equal(kX.moveaxis({0, 1}, {1, 0}), kX.t());
  check_equal(concat({kX, kX}, 1), cat({kX, kX}, 1));
  check_equal(concatenate({kX, kX}), cat({kX, kX}));
  check_equal(row_stack({kY, kY}), vstack({kY, kY}));
  check_equal(argwhere(kX > 0), nonzero(kX > 0));
  check_equal(trapz(kX, 2.0), trapezoid(kX, 2.0));
  check_equal(trapz(kX, kY), trapezoid(kX, kY));
  check_equal(kX.hsplit(3)[2], kX.narrow(1, 2, 1));
  check_equal(kX.fliplr(), kX.flip({1}));
  check_equal(kX.fmax(kY), maximum(kX, kY));
  check_equal(kX.cov(), cov(kX));
  check_equal(kX.adjoint(), kX.t());
  check_equal(kX.index_put({0}, kY), select_scatter(kX, kY, 0, 0));
  check_equal(tensor({0.0, 1.0}).bernoulli(), tensor({0.0, 1.0}));
  check_equal(kY.prelu(tensor({0.5})), where(kY > 0, kY, kY * 0.5));
}

TEST_CASE("methods of functions that are made of others") {
  check_equal(kX.fmin(kY), fmin(kX, kY));
  check_equal((kX + 1).float_power(2), float_power(kX + 1, 2));
  check_equal((kX + 1).float_power(kY), float_power(kX + 1, kY));
  CHECK(kX.float_power(2).dtype() == kFloat64);
  check_equal((kX / 0).isposinf(), kX > 0);
  check_equal((kX / 0).isneginf(), kX < 0);
  check_equal(kX.isreal(), kX == kX);
  check_equal(kY.vdot(kY), kY.dot(kY));
  check_equal(kX.dist(kY, 1), (kX - kY).norm(1));
  check_equal(kX.corrcoef(), corrcoef(kX));
  check_equal(kX.msort(), kX.sort(0).values);
  check_equal(kX.hardshrink(0.25), where(abs(kX) > 0.25, kX, 0));
  check_equal(kX.flipud(), kX.flip({0}));
  check_equal(kY.diagflat(1), diag(kY, 1));
  check_equal(kX.vsplit(2)[1], kX.narrow(0, 1, 1));
  check_equal(kX.unsqueeze(0).dsplit(std::vector<std::int64_t>{1})[1][0], kX.narrow(1, 1, 2));
  check_equal(kX.select_scatter(kY, 0, 1)[1], kY);
  check_equal(kX.slice_scatter(kX.narrow(0, 0, 1), 0, 1)[1], kX[0]);
  check_equal(kX.diagonal_scatter(tensor({5.0, 6.0})).diagonal(), tensor({5.0, 6.0}));
  check_equal((kX > 0).argwhere(), nonzero(kX > 0));
}

TEST_CASE("methods in place write what the methods without _ give") {
  const auto changed = [](auto f) {
    const Tensor x = kX * 10;
    f(x);
    return x;
  };
  const Tensor x = kX * 10;
  check_equal(changed([](T t) { t.clamp_min_(1); }), x.clamp_min(1));
  check_equal(changed([](T t) { t.clamp_max_(1); }), x.clamp_max(1));
  check_equal(changed([](T t) { t.tril_(); }), x.tril());
  check_equal(changed([](T t) { t.triu_(1); }), x.triu(1));
  check_equal(changed([](T t) { t.floor_divide_(3); }), x.floor_divide(3));
  check_equal(changed([](T t) { t.remainder_(kY); }), x.remainder(kY));
  check_equal(changed([](T t) { t.fmod_(3); }), x.fmod(3));
  check_equal(changed([](T t) { t.fill_diagonal_(7); }).diagonal(), tensor({7.0, 7.0}));
}

TEST_CASE("fmax and fmin prefer numbers to NaN") {
  const double nan = std::nan("");
  const Tensor a = tensor({1.0, nan, 3.0, nan}).requires_grad_(), b = tensor({2.0, 2.0, nan, nan});
  const Tensor most = fmax(a, b), least = fmin(a, b);
  CHECK(most.narrow(0, 0, 3).to_vector<float>() == std::vector<float>{2, 2, 3});
  CHECK(least.narrow(0, 0, 3).to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(std::isnan(most[3].item<double>()));
  least.sum().backward();
  CHECK(a.grad().to_vector<float>() == std::vector<float>{1, 0, 1, 1});
}

TEST_CASE("cov and corrcoef of known samples") {
  const Tensor x = tensor({{0.0, 1.0, 2.0}, {2.0, 1.0, 0.0}});
  check_close(cov(x), tensor({{1.0, -1.0}, {-1.0, 1.0}}));
  check_close(corrcoef(x), tensor({{1.0, -1.0}, {-1.0, 1.0}}));
  check_close(cov(x[0]), tensor(1.0));
  check_close(cov(x, 1, tensor({2, 0, 1})), cov(tensor({{0.0, 0.0, 2.0}, {2.0, 2.0, 0.0}})));
  CHECK_THROWS_WITH_AS(cov(x, 1, tensor({1, -1, 1})), doctest::Contains("negative"), ValueError);
  CHECK_THROWS_WITH_AS(cov(x, 1, {}, tensor({1, 1, 1})), doctest::Contains("floating"), DTypeError);
  CHECK_THROWS_WITH_AS(cov(x, 1, tensor({1, 1})), doctest::Contains("[3]"), ShapeError);
}

TEST_CASE("splits, parts and powers refuse what does not fit") {
  CHECK_THROWS_WITH_AS(hsplit(kX, 2), doctest::Contains("divides a size of 3"), ValueError);
  CHECK_THROWS_AS(vsplit(kY, 1), ShapeError);
  CHECK_THROWS_AS(hsplit(tensor(1.0), 1), ShapeError);
  CHECK_THROWS_AS(fliplr(kY), ShapeError);
  CHECK_THROWS_WITH_AS(select_scatter(kX, kX, 0, 0), doctest::Contains("[3]"), ShapeError);
  CHECK_THROWS_AS(kX.clone().random_(3, 3), ValueError);
  CHECK_THROWS_AS(kX.clone().exponential_(0), ValueError);
  CHECK_THROWS_AS(tensor({1, 2}).exponential_(), DTypeError);
  CHECK_THROWS_AS(kY.clone().fill_diagonal_(1), ShapeError);
}

TEST_CASE("logspace holds powers of its base") {
  check_close(logspace(0, 3, 4), tensor({1.0, 10.0, 100.0, 1000.0}));
  check_equal(logspace(0, 3, 4, 2, {.dtype = kInt64}), tensor({1, 2, 4, 8}));
  CHECK(logspace(0, 1, 0).numel() == 0);
}

TEST_CASE("distributions have the quantiles that their formulas give") {
  manual_seed(7);
  const Tensor x = empty({100000}, {.dtype = kFloat64});
  const auto median_of = [&](T t) { return quantile(t, 0.5).item<double>(); };
  CHECK(median_of(x.exponential_(2)) == doctest::Approx(std::log(2) / 2).epsilon(0.02));
  CHECK(x.min().item<double>() >= 0);
  CHECK(mean(x).item<double>() == doctest::Approx(0.5).epsilon(0.02));
  CHECK(median_of(x.log_normal_(1, 0.5)) == doctest::Approx(std::exp(1)).epsilon(0.02));
  CHECK(median_of(x.cauchy_(3, 2)) == doctest::Approx(3).epsilon(0.02));
  CHECK(quantile(x, 0.75).item<double>() == doctest::Approx(5).epsilon(0.02));
  x.geometric_(0.25);
  CHECK(mean(x).item<double>() == doctest::Approx(4).epsilon(0.02));
  CHECK(x.min().item<double>() == 1);
  x.random_(-3, 5);
  CHECK(x.min().item<double>() == -3);
  CHECK(x.max().item<double>() == 4);
}
