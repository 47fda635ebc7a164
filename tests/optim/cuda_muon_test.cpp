// Muon in captured steps.
#include <doctest/doctest.h>

#include "ferrite/core/cuda.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/muon.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using test::check_equal;

namespace {

Device gpu() { return Device("cuda:0"); }

/// A wide and a tall matrix in 16 bits, with masters, a loss scale, and a schedule of the rate and
/// the momentum.
struct Run {
  Run() {
    net.to(gpu()).to(kBFloat16);
    muon = std::make_unique<optim::Muon>(net.parameters(), optim::MuonOptions{.lr = 0.02});
    muon->use_master_weights();
    schedule = std::make_unique<optim::OneCycleLR>(
        *muon, optim::OneCycleLROptions{.max_lr = 0.05, .total_steps = 9});
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    Tensor loss = mse_loss(net(x), y);
    muon->zero_grad();
    scaler.scale(loss).backward();
    scaler.step(*muon);
    scaler.update();
    return loss;
  }

  nn::Sequential net =
      (manual_seed(3), nn::Sequential(nn::Linear(6, 5, {.bias = false}), nn::ReLU(),
                                      nn::Linear(5, 8, {.bias = false})));
  std::unique_ptr<optim::Muon> muon;
  std::unique_ptr<optim::OneCycleLR> schedule;
  optim::GradScaler scaler{{.init_scale = 64}};
};

}  // namespace

TEST_CASE("captured steps of Muon give the eager ones' bits") {
  REQUIRE_CUDA(1);
  Generator generator(1);
  const TensorOptions options{.dtype = kBFloat16};
  const Tensor x = randn({4, 6}, options, &generator).to(gpu()),
               y = randn({4, 8}, options, &generator).to(gpu()),
               overflow = full({4, 6}, INFINITY, options).to(gpu());
  Run eager, graphed;
  nn::GraphedStep step(graphed.net,
                       [&](const Tensor& a, const Tensor& b) { return graphed.step(a, b); },
                       {.warmup = 2});
  for (int i = 0; i < 8; ++i) {
    const Tensor& in = i % 3 == 2 ? overflow : x;
    eager.step(in, y);
    step(in, y);
    eager.schedule->step();
    graphed.schedule->step();
  }
  CHECK(step.stats().replayed == 6);
  CHECK(graphed.scaler.overflows().item<int>() == 2);
  const StateDict expected = eager.muon->state_dict();
  CHECK(expected.at("state.0.step").item<int>() == 6);
  for (const auto& [key, value] : graphed.muon->state_dict()) {
    CAPTURE(key);
    check_equal(value, expected.at(key));
  }
  for (std::size_t i = 0; i < 2; ++i)
    check_equal(graphed.net.parameters()[i].detach(), eager.net.parameters()[i].detach());
}
