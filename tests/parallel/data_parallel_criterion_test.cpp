// Losses computed by replicas.
#include "ferrite/parallel/data_parallel/data_parallel_criterion.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/parallel/data_parallel_training.h"

using namespace ferrite;
using parallel::DataParallel;
using test::check_close;
using test::four;
using test::linear;
using test::rows;
using test::two;

TEST_CASE("criteria: means, sums, means of means, and modules") {
  using parallel::CriterionReduction;
  using parallel::DataParallelCriterion;
  nn::Linear net = linear();
  DataParallel dp(net, four());
  const Tensor x = rows(10), y = tensor({0, 1, 1, 0, 1, 0, 0, 0, 1, 1}).to(kInt64);
  const auto expect = [&](Reduction reduction) {
    net.zero_grad(true);
    const Tensor loss = cross_entropy(net(x.to("cpu:0")), y.to("cpu:0"), {.reduction = reduction});
    loss.backward();
    return std::pair(loss.detach(), net.weight.grad().clone());
  };
  const auto check = [&](auto& criterion, const std::pair<Tensor, Tensor>& expected) {
    net.zero_grad(true);
    const Tensor loss = criterion(dp.parallel_forward(x), y);
    CHECK(loss.dim() == 0);
    CHECK(loss.device() == Device("cpu:0"));
    check_close(loss, expected.first, 1e-6);
    loss.backward();
    check_close(net.weight.grad(), expected.second, 1e-5, 1e-6);
  };
  DataParallelCriterion means(
      dp, [](const Tensor& out, const Tensor& t) { return cross_entropy(out, t); });
  check(means, expect(Reduction::mean));
  DataParallelCriterion sums(dp,
                             [](const Tensor& out, const Tensor& t) {
                               return cross_entropy(out, t, {.reduction = Reduction::sum});
                             },
                             {.reduction = CriterionReduction::sum});
  check(sums, expect(Reduction::sum));
  // 3, 3, 3 and 1: the last row has the weight of three others.
  DataParallelCriterion equal(
      dp, [](const Tensor& out, const Tensor& t) { return cross_entropy(out, t); },
      {.reduction = CriterionReduction::mean_of_means});
  net.zero_grad(true);
  const Tensor each =
      cross_entropy(net(x.to("cpu:0")), y.to("cpu:0"), {.reduction = Reduction::none});
  const Tensor of_means = (each.narrow(0, 0, 9).mean() * 3.0 + each[9]) / 4.0;
  of_means.backward();
  check(equal, {of_means.detach(), net.weight.grad().clone()});

  // A module with its own weights, some of them trainable.
  struct Scaled : nn::Cloneable<Scaled> {
    Scaled() { register_parameter("scale", scale); }
    using nn::Module::forward;
    Tensor forward(const Tensor& out, const Tensor& t) { return cross_entropy(out * scale, t); }
    Tensor scale = ones({2});
  };
  Scaled scaled;
  scaled.to("cpu:0");
  DataParallelCriterion module(dp, scaled);
  check(module, expect(Reduction::mean));
  const Tensor of_parts = scaled.scale.grad().clone();
  scaled.zero_grad(true);
  scaled(net(x.to("cpu:0")), y.to("cpu:0")).backward();
  check_close(of_parts, scaled.scale.grad(), 1e-5, 1e-6);
  nn::CrossEntropyLoss weighted;
  DataParallelCriterion layer(dp, weighted);
  check(layer, expect(Reduction::mean));

  // Ignored labels, most of them in the first parts.
  const Tensor ignored = tensor({-100, -100, 1, -100, 1, -100, -100, 0, 1, 1}).to(kInt64);
  DataParallelCriterion counted(dp, [](const Tensor& out, const Tensor& t) {
    return std::pair(cross_entropy(out, t, {.reduction = Reduction::sum}), ge(t, 0).sum());
  });
  net.zero_grad(true);
  const Tensor whole = cross_entropy(net(x.to("cpu:0")), ignored.to("cpu:0"));
  whole.backward();
  const Tensor expected = net.weight.grad().clone();
  net.zero_grad(true);
  const Tensor loss = counted(dp.parallel_forward(x), ignored);
  check_close(loss, whole.detach(), 1e-6);
  loss.backward();
  check_close(net.weight.grad(), expected, 1e-5, 1e-6);

  // No targets, one part, targets that do not split.
  DataParallelCriterion alone(dp, [](const Tensor& out) { return (out * out).mean(); });
  check_close(alone(dp.parallel_forward(x)), dp(x).pow(2.0).mean(), 1e-5);
  check_close(alone(dp.parallel_forward(rows(1))), dp(rows(1)).pow(2.0).mean(), 1e-5);
  DataParallelCriterion by(
      dp, [](const Tensor& out, double factor) { return (out * out).mean() * factor; });
  check_close(by(dp.parallel_forward(x), 2.0), dp(x).pow(2.0).mean() * 2.0, 1e-5);
}

TEST_CASE("criteria: mistakes") {
  nn::Linear net = linear();
  DataParallel dp(net, two());
  parallel::DataParallelCriterion criterion(
      dp, [](const Tensor& out, const Tensor& t) { return cross_entropy(out, t); });
  const Tensor y = zeros({5}, {.dtype = kInt64});
  CHECK_THROWS_WITH_AS(criterion(dp.parallel_forward(rows(5)), y[0].reshape({1})),
                       doctest::Contains("outputs of 2 replicas and targets for 1"), ShapeError);
  CHECK_THROWS_AS(criterion(std::vector<Tensor>(), y), ValueError);
  CHECK_THROWS_WITH_AS(criterion(dp.parallel_forward(rows(6)), y), doctest::Contains("on cpu:1"),
                       Error);
  parallel::DataParallelCriterion pairs(
      dp, [](const Tensor& out, const Tensor&) { return std::pair(out.sum(), out.sum()); },
      {.reduction = parallel::CriterionReduction::sum});
  CHECK_THROWS_AS(pairs(dp.parallel_forward(rows(5)), y), ValueError);
  parallel::DataParallelCriterion rows_of(dp, [](const Tensor& out, const Tensor&) { return out; });
  CHECK_THROWS_WITH_AS(rows_of(dp.parallel_forward(rows(5)), y),
                       doctest::Contains("expected a loss with one element, got"), ShapeError);
}
