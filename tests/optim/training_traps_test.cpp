// What would train nothing, or with other rates than were meant, in silence.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/warning.h"
#include "ferrite/nn/linear.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/sgd.h"

using namespace ferrite;

namespace {

void train(nn::Linear& layer, optim::Optimizer& optimizer, bool set_to_none = false) {
  optimizer.zero_grad(set_to_none);
  layer(ones({1, 2})).sum().backward();
  optimizer.step();
}

Tensor new_weight() { return ones({3, 2}).set_requires_grad(); }

}  // namespace

TEST_CASE("a parameter that was replaced before the first step is an error") {
  nn::Linear layer(2, 3);
  optim::SGD sgd(layer.parameters(), {.lr = 0.1});
  layer.weight = new_weight();
  CHECK_THROWS_WITH_AS(train(layer, sgd), doctest::Contains("parameter 0 of group 0"), ValueError);
  CHECK_THROWS_WITH_AS(train(layer, sgd), doctest::Contains("replace_parameters()"), ValueError);
  optim::Adam adam(layer.parameters());
  CHECK_NOTHROW(train(layer, adam));
}

TEST_CASE("a parameter that was replaced between steps is an error, whatever its gradient") {
  for (const bool set_to_none : {false, true}) {
    nn::Linear layer(2, 3);
    optim::SGD sgd(layer.parameters(), {.lr = 0.1});
    for (int i = 0; i < 2; ++i) train(layer, sgd, set_to_none);
    layer.weight = new_weight();
    CHECK_THROWS_AS(train(layer, sgd, set_to_none), ValueError);
    // zero_grad() of the model no longer reaches the old one.
    layer.zero_grad();
    layer(ones({1, 2})).sum().backward();
    CHECK_THROWS_AS(sgd.step(), ValueError);
    sgd.replace_parameters([&](const Tensor& p) { return p.dim() == 2 ? layer.weight : p; });
    CHECK_NOTHROW(train(layer, sgd, set_to_none));
    CHECK(layer.weight[0][0].item<double>() == doctest::Approx(0.9));
  }
}

TEST_CASE("a replaced parameter is an error too where its old gradient is unscaled or clipped") {
  const auto rewrite = [](int how, optim::GradScaler& scaler, optim::SGD& sgd) {
    if (how == 0) scaler.unscale_(sgd);
    if (how == 1) optim::clip_grad_norm_(sgd.parameters(), 0.1);
    if (how == 2) optim::clip_grad_value_(sgd.parameters(), 0.1);
    if (how == 3) optim::clip_grads_with_norm_(sgd.parameters(), 0.1, tensor(3.0, kFloat64));
    if (how == 4) {
      scaler.unscale_(sgd);
      optim::clip_grad_norm_(sgd.parameters(), 0.1);
    }
  };
  for (int how = 0; how <= 4; ++how) {
    CAPTURE(how);
    nn::Linear layer(2, 3);
    optim::SGD sgd(layer.parameters(), {.lr = 0.1});
    optim::GradScaler scaler({.init_scale = 4});
    const auto train = [&](bool zero) {
      if (zero) layer.zero_grad();  // of the model: it does not reach what it no longer has
      scaler.scale(layer(ones({1, 2})).sum()).backward();
      rewrite(how, scaler, sgd);
      scaler.step(sgd);
      scaler.update();
    };
    for (int i = 0; i < 2; ++i) CHECK_NOTHROW(train(true));
    CHECK_NOTHROW(train(false));  // adds to the clipped gradient
    layer.weight = new_weight();
    CHECK_THROWS_WITH_AS(train(true), doctest::Contains("parameter 0 of group 0"), ValueError);
  }
}

TEST_CASE("gradients of parameters that only the optimizer holds are new in every step") {
  optim::SGD sgd({ones({2}).set_requires_grad()}, {.lr = 0.25});
  for (const bool zero : {true, false, false}) {
    if (zero) sgd.zero_grad();
    (sgd.parameters(0)[0] * 2).sum().backward();
    optim::clip_grad_norm_(sgd.parameters(), 1);
    CHECK_NOTHROW(sgd.step());
  }
}

TEST_CASE("parameters without a gradient that somebody holds are no error") {
  nn::Linear used(2, 3), unused(2, 3);
  std::vector<Tensor> both = used.parameters();
  for (const Tensor& p : unused.parameters()) both.push_back(p);
  optim::SGD sgd(std::move(both), {.lr = 0.1});
  for (int i = 0; i < 3; ++i) train(used, sgd);
  used.requires_grad_(false);
  CHECK_NOTHROW(sgd.step());
  const Tensor free = ones({2}).set_requires_grad();
  optim::SGD of_free({free}, {.lr = 0.1});
  CHECK_NOTHROW(of_free.step());
}

TEST_CASE("a parameter that only the optimizer holds is trained by its gradients") {
  optim::SGD sgd({ones({2}).set_requires_grad()}, {.lr = 0.25});
  for (int i = 0; i < 3; ++i) {
    sgd.zero_grad();
    (sgd.parameters(0)[0] * 2).sum().backward();
    CHECK_NOTHROW(sgd.step());
  }
  CHECK(sgd.parameters(0)[0].sum().item<double>() == -1);
}

TEST_CASE("a scheduler's step before the optimizer's first warns, once") {
  std::vector<std::string> given;
  const WarningHandler before =
      set_warning_handler([&](std::string_view text) { given.emplace_back(text); });
  const auto param = ones({2}).set_requires_grad();
  const auto count = [&] { return given.size(); };

  // None: in the usual order, with schedulers of schedulers, with a scaler that skips the step.
  {
    optim::SGD sgd({param}, {.lr = 0.1});
    optim::SequentialLR scheduler(sgd,
                                  {std::make_shared<optim::LinearLR>(sgd),
                                   std::make_shared<optim::CosineAnnealingLR>(sgd, 9)},
                                  {2});
    for (int i = 0; i < 4; ++i) {
      sgd.step();
      scheduler.step();
    }
    optim::SGD scaled({param}, {.lr = 0.1});
    optim::StepLR steps(scaled, 10);
    optim::GradScaler scaler;
    (scaler.scale(param.sum()) * INFINITY).backward();
    scaler.step(scaled);
    scaler.update();
    steps.step();
    CHECK(param.sum().item<double>() == 2);
    // A resumed run.
    optim::SGD resumed({param}, {.lr = 0.1});
    optim::StepLR continued(resumed, 10);
    resumed.load_state_dict(scaled.state_dict());
    continued.load_state_dict(steps.state_dict());
    continued.step();
  }
  CHECK(count() == 0);

  optim::SGD sgd({param}, {.lr = 0.1});
  optim::StepLR first(sgd, 10), second(sgd, 10);
  first.step();
  first.step();
  second.step();
  REQUIRE(count() == 1);
  CHECK(given[0].starts_with("[StepLR] step() was called before the optimizer's first step"));
  set_warning_handler(before);
}
