#include "ferrite/optim/lr_finder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/nn/activation.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/init.h"
#include "ferrite/nn/linear.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/sgd.h"

using namespace ferrite;
using optim::LRFinder;

namespace {

/// loss = (w - 1)^2 from w = 0: a step of rate r multiplies the distance by 1 - 2r, so that rates
/// above 1 diverge.
struct Parabola {
  nn::Linear model{1, 1, {.bias = false}};
  optim::SGD sgd{model.parameters(), {.lr = 0.3}};
  Parabola() { nn::init::zeros_(model.weight); }
  Tensor operator()() { return (model(ones({1, 1})) - 1).square().sum(); }
};

}  // namespace

TEST_CASE("rates rise by a factor or by a difference; losses are means without a bias") {
  Parabola task;
  for (const double beta : {0.0, 0.5}) {
    const auto r = LRFinder(task.model, task.sgd,
                            {.start_lr = 1e-3, .end_lr = 0.1, .num_iter = 3, .beta = beta})
                       .range_test([&] { return task(); });
    REQUIRE(r.lrs.size() == 3);
    CHECK(r.lrs[1] == doctest::Approx(1e-2));
    CHECK(r.lrs[2] == doctest::Approx(0.1));
    CHECK_FALSE(r.diverged);
    // By hand: the loss before each step.
    double distance = 1, mean = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      mean = beta * mean + (1 - beta) * distance * distance;
      CHECK(r.losses[i] == doctest::Approx(mean / (1 - std::pow(beta, i + 1.0))));
      distance *= 1 - 2 * r.lrs[i];
    }
  }
  const auto linear =
      LRFinder(task.model, task.sgd,
               {.start_lr = 0.1, .end_lr = 0.3, .num_iter = 5, .spacing = optim::LRSpacing::linear})
          .range_test([&] { return task(); });
  CHECK(linear.lrs[1] == doctest::Approx(0.15));
}

TEST_CASE("it ends when the loss diverges, and suggests where it falls fastest") {
  // Few steps: more would reach the minimum exactly, from where no rate leads away.
  Parabola task;
  const auto r =
      LRFinder(task.model, task.sgd, {.start_lr = 1e-3, .end_lr = 100, .num_iter = 40, .beta = 0})
          .range_test([&] { return task(); });
  CHECK(r.diverged);
  CHECK(r.lrs.size() < 40);
  CHECK(r.lrs.back() > 1);
  const double suggested = r.suggestion().value();
  CHECK(suggested > 1e-3);
  CHECK(suggested < 0.5);
  std::size_t steepest = 10;
  for (std::size_t i = 10; i + 2 < r.losses.size(); ++i)
    if (r.losses[i + 1] - r.losses[i - 1] < r.losses[steepest + 1] - r.losses[steepest - 1])
      steepest = i;
  CHECK(suggested == doctest::Approx(r.lrs[steepest]).epsilon(0.1));
  CHECK_FALSE(optim::LRFinderResult{{1, 2, 3}, {1, 1, 1}}.suggestion(0, 0));
  CHECK_FALSE(optim::LRFinderResult{{1, 2, 3}, {3, 2, 1}}.suggestion());
  CHECK(optim::LRFinderResult{{1, 2, 3}, {3, 2, -9}}.suggestion(0, 0) == 3);
}

TEST_CASE("model, optimizer, gradients, modes and random numbers are as before") {
  nn::Sequential model{nn::Linear(4, 8), nn::Dropout(0.5), nn::Linear(8, 2)};
  model[1].eval();
  const Tensor temperature = ones({1}).set_requires_grad();  // a parameter of the loss
  std::vector<Tensor> parameters = model.parameters();
  parameters.push_back(temperature);
  optim::SGD sgd(parameters, {.lr = 0.3, .momentum = 0.9});
  const Tensor x = randn({6, 4}), y = tensor({0, 1, 0, 1, 1, 0});
  const auto loss = [&] { return cross_entropy(model(x + rand_like(x) * 0) * temperature, y); };
  loss().backward();
  sgd.step();
  const auto all = [&] {
    std::vector<Tensor> values{temperature.detach().clone()};
    for (const auto& [name, t] : model.state_dict()) values.push_back(t.clone());
    for (const auto& [name, t] : sgd.state_dict()) values.push_back(t.clone());
    for (const Tensor& p : sgd.parameters()) values.push_back(p.grad().clone());
    return values;
  };
  const auto unchanged = [&](const std::vector<Tensor>& before) {
    const auto now = all();
    bool same = now.size() == before.size();
    for (std::size_t i = 0; same && i < now.size(); ++i) same = equal(now[i], before[i]);
    return same && model.is_training() && !model[1].is_training() && sgd.lr() == 0.3;
  };
  const auto before = all();
  manual_seed(7);
  const Tensor expected = randn({3});
  manual_seed(7);
  const auto r = LRFinder(model, sgd, {.num_iter = 20}).range_test([&] {
    model.train();
    return loss();
  });
  CHECK(r.losses.size() > 5);
  CHECK(equal(randn({3}), expected));
  CHECK(unchanged(before));
  int calls = 0;
  CHECK_THROWS_AS(LRFinder(model, sgd).range_test([&] {
    if (++calls == 4) throw ValueError("the data set ended");
    return loss();
  }),
                  ValueError);
  CHECK(unchanged(before));
  // Before the first step there is no state, and no gradient.
  optim::SGD fresh(model.parameters(), {.lr = 0.3, .momentum = 0.9});
  fresh.zero_grad(true);
  LRFinder(model, fresh, {.num_iter = 3}).range_test(loss);
  CHECK_FALSE(fresh.parameters()[0].grad().defined());
}

TEST_CASE("a loader's batches come again after the last") {
  Parabola task;
  std::vector<std::pair<Tensor, double>> loader = {{ones({1, 1}), 1}, {ones({1, 1}), 2}};
  double seen = 0;
  const auto loss = [&](const auto& batch) {
    const auto& [x, weight] = batch;
    seen = 10 * seen + weight;
    return task.model(x).sum();
  };
  LRFinder finder(task.model, task.sgd, {.num_iter = 5, .diverge_threshold = INFINITY});
  finder.range_test(loader, loss);
  CHECK(seen == 12121);
  loader.clear();
  CHECK_THROWS_AS(finder.range_test(loader, loss), ValueError);
}

TEST_CASE("options out of range") {
  Parabola task;
  const auto with = [&](const optim::LRFinderOptions& o) { LRFinder(task.model, task.sgd, o); };
  CHECK_THROWS_AS(with({.start_lr = 0}), ValueError);
  CHECK_THROWS_AS(with({.start_lr = 1, .end_lr = 0.5}), ValueError);
  CHECK_THROWS_AS(with({.num_iter = 1}), ValueError);
  CHECK_THROWS_AS(with({.beta = 1}), ValueError);
  CHECK_THROWS_AS(with({.diverge_threshold = 1}), ValueError);
}
