// What changes between the replays of a captured step: rates, momenta, averages of weights.
#include <doctest/doctest.h>

#include <memory>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/averaged_model.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using test::check_equal;

namespace {

/// Named where there is one only.
Device gpu() { return Device("cuda:0"); }

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

struct Run {
  explicit Run(const MakeOptimizer& make) {
    net.to(gpu());
    optimizer = make(net.parameters());
    ema = std::make_unique<optim::AveragedModel>(
        net, optim::AveragedModelOptions{.decay = 0.9, .warmup = true});
    swa = std::make_unique<optim::AveragedModel>(net);
    own = std::make_unique<optim::AveragedModel>(
        net, optim::AveragedModelOptions{
                 .avg_fn = [](const Tensor& average, const Tensor& now, const Tensor& n) {
                   return (average * n + now) / (n + 1);
                 }});
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    Tensor loss = mse_loss(net(x), y);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    for (auto* average : {&ema, &swa, &own}) (*average)->update_parameters(net);
    return loss;
  }
  void schedule() {
    scheduler = std::make_unique<optim::WarmupLR>(
        *optimizer,
        std::make_shared<optim::OneCycleLR>(
            *optimizer,
            optim::OneCycleLROptions{
                .max_lr = 0.05, .total_steps = 12, .cycle_momentum = optimizer->has_momentum()}),
        optim::WarmupLROptions{.warmup_steps = 2});
  }
  StateDict state() const {
    StateDict all = net.state_dict();
    all.insert_all("ema.", ema->state_dict());
    all.insert_all("swa.", swa->state_dict());
    all.insert_all("own.", own->state_dict());
    return all;
  }

  nn::Linear net = (manual_seed(7), nn::Linear(5, 3));
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::LRScheduler> scheduler;
  std::unique_ptr<optim::AveragedModel> ema, swa, own;
};

}  // namespace

TEST_CASE("captured steps see rates and momenta change, and average weights") {
  REQUIRE_CUDA(1);
  Generator generator(1);
  const Tensor x = randn({4, 5}, {}, &generator).to(gpu()),
               y = randn({4, 3}, {}, &generator).to(gpu());
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    CAPTURE(name);
    Run eager(make), graphed(make), fixed(make);
    eager.schedule();
    graphed.schedule();
    nn::GraphedStep step(graphed.net,
                         [&](const Tensor& a, const Tensor& b) { return graphed.step(a, b); },
                         {.warmup = 2});
    for (int i = 0; i < 12; ++i) {
      CAPTURE(i);
      CHECK(step(x, y).item<float>() == eager.step(x, y).item<float>());
      fixed.step(x, y);
      eager.scheduler->step();
      graphed.scheduler->step();
    }
    CHECK(step.stats().replayed == 10);
    const StateDict expected = eager.state();
    for (const auto& [key, value] : graphed.state()) {
      CAPTURE(key);
      check_equal(value, expected.at(key));
    }
    CHECK(expected.at("swa.n_averaged").item<int>() == 12);
    CHECK(fixed.net.weight.to_vector<float>() != eager.net.weight.to_vector<float>());
    // By its own function the mean is the same, but for rounding.
    test::check_close(expected.at("own.module.weight"), expected.at("swa.module.weight"), 1e-5,
                      1e-6);
  }
}

TEST_CASE("momentum is what replays are changed by: the rate stays") {
  REQUIRE_CUDA(1);
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    CAPTURE(name);
    Run run(make), same(make);
    if (!run.optimizer->has_momentum()) continue;
    const Tensor x = ones({4, 5}, {.device = gpu()}), y = zeros({4, 3}, {.device = gpu()});
    nn::GraphedStep step(run.net, [&](const Tensor& a, const Tensor& b) { return run.step(a, b); },
                         {.warmup = 1});
    const auto all = [&](int count) {
      for (int i = 0; i < count; ++i) {
        step(x, y);
        same.step(x, y);
      }
    };
    all(3);
    check_equal(run.net.weight.detach(), same.net.weight.detach());
    run.optimizer->set_momentum(0.25);
    CHECK(run.optimizer->momentum() == 0.25);
    // Small gradients against the average: the momentum decides the signs that Lion steps by.
    y.copy_((run.net(x) * 1.1).detach());
    all(1);
    CHECK(run.net.weight.to_vector<float>() != same.net.weight.to_vector<float>());
    cuda::Graph graph(gpu());
    const std::string message = test::message_of<CudaError>(
        [&] { graph.capture([&] { run.optimizer->set_momentum(0.5); }); });
    CHECK(message.find("the momentum would become 0.5 while the step is captured") !=
          std::string::npos);
    CHECK(run.optimizer->momentum() == 0.25);
  }
}

TEST_CASE("schedules, averages and clipping wait for nothing") {
  REQUIRE_CUDA(1);
  Run run(test::all_optimizers()[0].make);
  run.schedule();
  const Tensor x = ones({4, 5}, {.device = gpu()}), y = zeros({4, 3}, {.device = gpu()});
  run.step(x, y);
  const std::vector<Tensor> parameters = run.net.parameters();
  Tensor norm;
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::error);
  for (int i = 0; i < 3; ++i) {
    run.step(x, y);
    run.scheduler->step();
    norm = optim::clip_grad_norm_(parameters, 1e-3, 2, true);
    optim::clip_grads_with_norm_(parameters, 1e-4, norm);
    optim::AveragedWeights averaged(run.net, *run.ema);
  }
  parameters[0].grad().fill_(INFINITY);
  optim::clip_grad_norm_(parameters, 1, 2, true);
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::off);
  CHECK_THROWS_WITH_AS(synchronize(gpu()), doctest::Contains("total_norm of the gradients"),
                       ValueError);
  CHECK(optim::get_total_norm(parameters).item<double>() > 0);
}
