// DataParallel on the tape: without gradients, with checkpoints, selected gradients, several calls,
// inputs.
#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/parallel/data_parallel/data_parallel.h"
#include "ferrite/tests/parallel/data_parallel_training.h"

using namespace ferrite;
using parallel::DataParallel;
using test::check_close;
using test::four;
using test::linear;
using test::rows;
using test::two;

namespace {

/// Recomputes its middle part in backward.
struct Saving : nn::Cloneable<Saving> {
  Saving() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) override {
    return autograd::checkpoint([this](const Tensor& h) { return second(norm(first(h))); }, x);
  }
  nn::Linear first{3, 4}, second{4, 2};
  nn::BatchNorm1d norm{4};
};

/// Its parameters are among its outputs.
struct Returning : nn::Cloneable<Returning> {
  Returning() { register_parameter("scale", scale); }
  using nn::Module::forward;
  auto operator()(const Tensor& x) { return std::pair<Tensor, Tensor>(x * scale, scale); }
  Tensor scale = ones({3});
};

}  // namespace

TEST_CASE("without gradients, in checkpoints, under autocast, for chosen gradients") {
  nn::Linear net = linear();
  DataParallel dp(net, two());
  const Tensor x = rows(5);
  CHECK_FALSE(no_grad([&] { return dp(x); }).requires_grad());
  {
    const AutocastGuard autocast({.dtype = kBFloat16});
    CHECK(dp(x).dtype() == kBFloat16);
  }
  const Tensor expected = x.sum(0);
  const auto check = [&](const Tensor& gradient) {
    for (std::int64_t row = 0; row < 2; ++row) check_close(gradient[row].cpu(), expected, 1e-5);
  };
  const Tensor held = x.detach().clone().set_requires_grad();
  autograd::checkpoint([&](const Tensor& in) { return dp(in); }, held).sum().backward();
  check(net.weight.grad());
  check_close(held.grad(), net.weight.detach().cpu().sum(0).expand({5, 3}), 1e-5, 1e-6);
  CHECK(dp.report().steps == 3);  // run twice, but one step

  net.zero_grad(true);
  const Tensor loss = dp(x).sum();
  const std::vector<Tensor> wanted{net.weight};
  const std::vector<Tensor> outputs{loss};
  check(autograd::grad(outputs, wanted, {}, /*retain_graph=*/true)[0]);
  CHECK_FALSE(net.weight.grad().defined());
  CHECK_FALSE(net.bias.grad().defined());
  loss.backward();
  check(net.weight.grad());
}

TEST_CASE("checkpoints inside replicas") {
  manual_seed(6);
  Saving net;
  net.to("cpu:0");
  DataParallel dp(net, two());
  const Tensor x = randn({9, 3}) + 1.0;
  const auto halves = [&](auto&& f) {
    net.zero_grad(true);
    net.norm.running_mean.zero_();
    f();
    std::vector<Tensor> found{net.norm.running_mean.clone()};
    for (const Tensor& p : net.parameters()) found.push_back(p.grad().clone());
    return found;
  };
  const std::vector<Tensor> expected = halves([&] {
    (net(x.narrow(0, 0, 5).to("cpu:0")) * 2.0).sum().backward();
    const Tensor mean = net.norm.running_mean.clone();
    (net(x.narrow(0, 5, 4).to("cpu:0")) * 2.0).sum().backward();
    net.norm.running_mean.copy_(mean);  // of the first replica
  });
  const std::vector<Tensor> actual = halves([&] { (dp(x) * 2.0).sum().backward(); });
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    check_close(actual[i], expected[i], 1e-5, 1e-5);
  }
}

TEST_CASE("checkpoints inside replicas: frozen ones, and branches with separate backward passes") {
  Saving net;
  net.to("cpu:0");
  net.eval();
  DataParallel dp(net, two());
  const Tensor x = rows(5).set_requires_grad();
  const auto gradient = [&](auto&& f) {
    x.set_grad({});
    f();
    return x.grad().clone();
  };
  const Tensor expected = gradient([&] { net(x.to("cpu:0")).sum().backward(); });
  net.requires_grad_(false);
  check_close(gradient([&] { dp(x).sum().backward(); }), expected, 1e-5, 1e-6);
  net.requires_grad_(true);
  const Tensor batch = rows(8);
  net(batch.to("cpu:0")).sum().backward();
  const Tensor whole = net.first.weight.grad().clone();
  net.zero_grad();
  DataParallel wide(net, four());
  for (const Tensor& part : wide.parallel_forward(batch)) part.sum().backward();
  check_close(net.first.weight.grad(), whole, 1e-5, 1e-6);
}

TEST_CASE("parameters that are outputs") {
  Returning net;
  net.to("cpu:0");
  DataParallel dp(net, two());
  {
    const auto [y, scale] = dp(rows(5));
    CHECK(scale.shape() == Shape{6});  // of both replicas
    (y.sum() * 0.0 + scale.sum()).backward();
    check_close(net.scale.grad(), {2, 2, 2});
  }
  net.zero_grad();
  const auto parts = dp.parallel_forward(rows(5));
  (parts[1].second.sum() * 3.0).backward();
  check_close(net.scale.grad(), {3, 3, 3});
}

TEST_CASE("gradients add up over calls, and several calls take one backward") {
  nn::Linear net = linear();
  DataParallel dp(net, two());
  dp(rows(4)).sum().backward();
  dp(rows(5)).sum().backward();
  check_close(net.bias.grad(), {9, 9});
  net.zero_grad();
  const Tensor a = dp(rows(3)), b = dp(rows(6)) * 2.0;
  (a.sum() + b.sum()).backward();
  check_close(net.bias.grad(), {15, 15});
  net.zero_grad(true);
  // Only one replica's output is used.
  const std::vector<Tensor> parts = dp.parallel_forward(rows(5));
  parts[1].sum().backward();
  check_close(net.bias.grad(), {2, 2});
}

TEST_CASE("inputs get their gradients") {
  nn::Linear net = linear();
  DataParallel dp(net, two());
  const Tensor x = rows(5).set_requires_grad();
  dp(x).sum().backward();
  check_close(x.grad(), net.weight.detach().cpu().sum(0).expand({5, 3}), 1e-5, 1e-6);
  const Tensor y = rows(5).to("cpu:1").detach().set_requires_grad();
  (dp(y) * 2.0).sum().backward();
  CHECK(y.grad().device() == Device("cpu:1"));
  check_close(y.grad().cpu(), x.grad() * 2.0, 1e-5, 1e-6);
}
