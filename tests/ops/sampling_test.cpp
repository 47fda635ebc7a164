#include "ferrite/ops/sampling.h"

#include <doctest/doctest.h>

#include <limits>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

TEST_CASE("filter_logits: temperature, the k largest, the largest of a share") {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const Tensor x = tensor({{1.0, 3.0, 2.0, 3.0}, {0.0, -1.0, 5.0, 2.0}});
  check_close(filter_logits(x, {.temperature = 0.5}), x * 2, 1e-6);
  check_equal(filter_logits(x, {.top_k = 1}),
              tensor({{kNever, 3.0, kNever, 3.0}, {kNever, kNever, 5.0, kNever}}));
  check_equal(filter_logits(x, {.temperature = 0}),
              tensor({{kNever, 3.0, kNever, 3.0}, {kNever, kNever, 5.0, kNever}}));
  check_equal(filter_logits(x, {.top_k = 9}), x);
  // Shares 0.5, 0.3, 0.15 and 0.05.
  const Tensor shares = log(tensor({0.15, 0.5, 0.05, 0.3}));
  const auto kept = [&](double p) {
    return gt(filter_logits(shares, {.top_p = p}), kNever).to(kInt64);
  };
  check_equal(kept(0.4), tensor({0, 1, 0, 0}));
  check_equal(kept(0.6), tensor({0, 1, 0, 1}));
  check_equal(kept(0.9), tensor({1, 1, 0, 1}));
  check_equal(kept(1), tensor({1, 1, 1, 1}));
  CHECK_THROWS_AS(filter_logits(x, {.temperature = -1}), ValueError);
  CHECK_THROWS_AS(filter_logits(x, {.top_k = -1}), ValueError);
  CHECK_THROWS_AS(filter_logits(x, {.top_p = 0}), ValueError);
  CHECK_THROWS_AS(filter_logits(arange(3), {}), DTypeError);
  CHECK_THROWS_AS(sample_logits(zeros({2, 0})), ShapeError);
  CHECK_THROWS_AS(sample_logits(Tensor()), ValueError);
}

TEST_CASE("sample_logits draws in proportion to the probabilities, and what is allowed") {
  manual_seed(2);
  const Tensor p = tensor({0.1, 0.2, 0.7});
  const Tensor drawn = sample_logits(log(p).expand({20000, 3}));
  CHECK(drawn.shape() == Shape{20000});
  CHECK(drawn.dtype() == kInt64);
  for (std::int64_t i = 0; i < 3; ++i)
    CHECK(eq(drawn, i).to(kFloat64).mean().item<double>() ==
          doctest::Approx(p[i].item<double>()).epsilon(0.05));
  check_equal(sample_logits(log(p).expand({50, 3}), {.top_k = 1}), full({50}, 2, kInt64));
  check_equal(sample_logits(log(p), {.temperature = 0}), tensor(2));
  Generator first(5), second(5);
  const Tensor flat = zeros({100, 9});
  check_equal(sample_logits(flat, {}, &first), sample_logits(flat, {}, &second));
}

TEST_CASE("gumbel_softmax: samples in proportion, one-hot ones with the gradient of the soft") {
  manual_seed(3);
  const Tensor p = tensor({0.1, 0.2, 0.7});
  const Tensor hard = gumbel_softmax(log(p).expand({20000, 3}), 0.5, true);
  check_close(hard.sum({1}), ones({20000}), 1e-6);
  check_close(hard.amax({1}), ones({20000}), 1e-6);
  check_close(hard.mean({0}), p, 0.05, 0.01);
  const Tensor logits = log(p).reshape({3, 1});
  logits.set_requires_grad();
  Generator first(5), second(5);
  const Tensor soft = gumbel_softmax(logits, 0.8, false, 0, &first);
  check_close(soft.sum(), tensor(1.0), 1e-6);
  const Tensor weight = tensor({1.0, 2.0, 4.0}).reshape({3, 1});
  (soft * weight).sum().backward();
  const Tensor grad = logits.grad().clone();
  CHECK(grad.abs().max().item<double>() > 1e-3);
  logits.set_grad({});
  (gumbel_softmax(logits, 0.8, true, 0, &second) * weight).sum().backward();
  check_close(logits.grad(), grad, 1e-6);
  CHECK_THROWS_AS(gumbel_softmax(logits, 0), ValueError);
  CHECK_THROWS_AS(gumbel_softmax(arange(3)), DTypeError);
}
