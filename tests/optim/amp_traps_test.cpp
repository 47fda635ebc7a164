// Steps that an Amp would lose sight of: groups added late, a plain step() of scaled gradients,
// scalers' states that are kept.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/engine.h"
#include "ferrite/nn/linear.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::optim::amp;
using test::check_close;

namespace {

/// y = w x with one weight, 1.
struct Toy {
  Toy() { layer.weight.detach().fill_(1); }
  Tensor loss() { return layer(ones({1, 1})).sum(); }
  double weight() const { return layer.weight.item<double>(); }

  nn::Linear layer{1, 1, {.bias = false}};
  optim::SGD sgd{{layer.weight}, {.lr = 0.25}};
};

/// With a scale that gradients of 1 do not overflow with.
Options of(OptLevel level) { return {.opt_level = level, .max_loss_scale = 1024}; }

}  // namespace

TEST_CASE("gradients of groups that were added late are unscaled, if there are no others, too") {
  for (const Options& options : {of(O1), of(O2), Options{.opt_level = O2, .dtype = kBFloat16}}) {
    CAPTURE(name(options.opt_level));
    nn::Linear first(1, 1, {.bias = false}), late(1, 1, {.bias = false});
    optim::SGD sgd({first.weight}, {.lr = 0.25});
    Amp amp = initialize({&first, &late}, {&sgd}, options);
    sgd.add_param_group({late.weight});
    amp.scale(late(ones({1, 1})).sum()).backward();
    const Tensor updated = amp.master_parameters(sgd)[1];
    CHECK(updated.dtype() == kFloat32);
    check_close(updated.grad(), {{1}}, 1e-3);
    amp.step(sgd);
  }
}

TEST_CASE("a plain step() of scaled gradients is an error") {
  for (const OptLevel level : {O1, O2}) {
    CAPTURE(name(level));
    Toy toy;
    Amp amp = initialize(toy.layer, toy.sgd, of(level));
    amp.scale(toy.loss()).backward();
    CHECK_THROWS_WITH_AS(toy.sgd.step(), doctest::Contains("expected amp.step(optimizer)"),
                         ValueError);
    CHECK(toy.weight() == 1);
    amp.step(toy.sgd);
    CHECK(toy.weight() == 0.75);
    CHECK_NOTHROW(toy.sgd.zero_grad());
    CHECK_THROWS_AS(toy.sgd.step([&] {
      toy.sgd.zero_grad();
      const Tensor loss = toy.loss();
      amp.scale(loss).backward();
      return loss;
    }),
                    ValueError);
    CHECK(toy.weight() == 0.75);
    // What was unscaled may be stepped with, and so may what never was scaled.
    amp.master_parameters();
    toy.sgd.step();
    CHECK(toy.weight() == 0.5);
    toy.sgd.zero_grad();
    amp.scale(toy.loss()).backward();
    toy.sgd.zero_grad();
    toy.loss().backward();
    toy.sgd.step();
    CHECK(toy.weight() == 0.25);
    toy.sgd.zero_grad();
    amp.scale(toy.loss()).backward();
    amp.step(toy.sgd);
    toy.sgd.zero_grad();
    toy.loss().backward();
    CHECK_NOTHROW(toy.sgd.step());
    // grad() accumulates nothing, and a module's zero_grad() drops gradients, too.
    toy.sgd.zero_grad();
    autograd::grad({amp.scale(toy.loss())}, {toy.layer.weight});
    toy.loss().backward();
    CHECK_NOTHROW(toy.sgd.step());
    toy.sgd.zero_grad();
    amp.scale(toy.loss()).backward();
    toy.layer.zero_grad();
    CHECK_NOTHROW(toy.sgd.step());
    amp.scale(toy.loss()).backward();
    toy.layer.zero_grad();
    toy.loss().backward();
    CHECK_NOTHROW(toy.sgd.step());
  }
  // Where there is no scale there is nothing to unscale.
  for (const Options& options :
       {Options{.opt_level = O0}, Options{.opt_level = O2, .dtype = kBFloat16},
        Options{.opt_level = O2, .enabled = false}}) {
    Toy toy;
    Amp amp = initialize(toy.layer, toy.sgd, options);
    amp.scale(toy.loss()).backward();
    CHECK_NOTHROW(toy.sgd.step());
    CHECK(toy.weight() == 0.75);
  }
}

TEST_CASE("a plain step() is an error for the optimizers that scaled gradients reach") {
  Toy a, b;
  Amp amp = initialize({&a.layer, &b.layer}, {&a.sgd, &b.sgd},
                       {.opt_level = O1, .num_losses = 2, .max_loss_scale = 1024});
  amp.scale(a.loss(), 0).backward();
  b.loss().backward();
  CHECK_NOTHROW(b.sgd.step());
  CHECK_THROWS_AS(a.sgd.step(), ValueError);
  amp.scale(a.loss(), 1).backward();  // the first gradients are put aside
  CHECK_THROWS_AS(a.sgd.step(), ValueError);
  amp.step(a.sgd);
  CHECK(a.weight() == 0.5);
}

TEST_CASE("later steps leave a scaler's state dict as it was") {
  optim::GradScaler scaler({.init_scale = 4, .growth_interval = 1});
  const Tensor w = ones({1}).set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0.25});
  const auto step = [&](double factor) {
    sgd.zero_grad();
    scaler.scale(w.sum() * factor).backward();
    scaler.step(sgd);
    scaler.update();
  };
  step(1);
  const StateDict dict = scaler.state_dict();
  CHECK(dict.at("scale").item<double>() == 8);
  step(INFINITY);
  step(1);
  CHECK(dict.at("scale").item<double>() == 8);
  CHECK(dict.at("_overflows").item<int>() == 0);
  CHECK(scaler.overflows().item<int>() == 1);
  scaler.load_state_dict(dict);
  CHECK(scaler.get_scale() == 8);

  Toy toy;
  Amp amp = initialize(toy.layer, toy.sgd, of(O1));
  CHECK(amp.overflows().item<int>() == 0);
  amp.scale(toy.loss()).backward();
  const Tensor overflows = amp.overflows();
  const StateDict before = amp.state_dict();
  amp.step(toy.sgd);
  toy.sgd.zero_grad();
  amp.scale(toy.loss() * INFINITY).backward();
  amp.step(toy.sgd);
  CHECK(overflows.item<int>() == 1);
  CHECK(before.at("loss_scaler0.overflows").item<int>() == 0);
  CHECK(before.at("loss_scaler0.loss_scale").item<double>() == 1024);
}
