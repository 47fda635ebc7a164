// Schedules where they begin, end, are resumed or meet others, with the rates of PyTorch 2.15.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/core/warning.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/lbfgs.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/sgd.h"

using namespace ferrite;
using namespace ferrite::optim;

namespace {

SGD sgd_of(double lr = 0.1, double momentum = 0, bool nesterov = false) {
  static const Tensor weight = zeros({1}).set_requires_grad();
  return SGD({weight}, {.lr = lr, .momentum = momentum, .nesterov = nesterov});
}

/// The rates of a scheduler's epochs, the present one first.
void check_rates(LRScheduler& scheduler, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(scheduler.optimizer().lr() == doctest::Approx(expected[i]).epsilon(1e-9));
    scheduler.optimizer().step();
    scheduler.step();
  }
}

}  // namespace

TEST_CASE("a resumed run has the rate that it had, whatever set it last") {
  struct Run {
    SGD sgd = sgd_of(0.1, 0.9);
    std::unique_ptr<StepLR> drops;
    std::unique_ptr<CyclicLR> cycles;

    void make() {
      drops = std::make_unique<StepLR>(sgd, 2, 0.5);
      cycles = std::make_unique<CyclicLR>(
          sgd, CyclicLROptions{.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 3});
    }
    void step() {
      sgd.step();
      cycles->step();
      drops->step();
    }
  };
  for (const bool by_hand : {false, true}) {
    CAPTURE(by_hand);
    Run whole;
    whole.make();
    for (int i = 0; i < 3; ++i) whole.step();
    if (by_hand) {
      whole.sgd.set_lr(0.7);
      whole.sgd.set_momentum(0.3);
    }
    const StateDict sgd = whole.sgd.state_dict().clone(), drops = whole.drops->state_dict(),
                    cycles = whole.cycles->state_dict();
    for (const std::string order : {"make sgd schedules", "sgd make schedules",
                                    "make schedules sgd", "make sgd schedules again"}) {
      CAPTURE(order);
      Run run;
      const auto load_schedules = [&] {
        run.drops->load_state_dict(drops);
        run.cycles->load_state_dict(cycles);
      };
      if (order.starts_with("make")) run.make();
      if (order == "make schedules sgd") load_schedules();
      run.sgd.load_state_dict(sgd);
      if (order == "sgd make schedules") run.make();
      if (order != "make schedules sgd") load_schedules();
      if (order.ends_with("again")) {
        run.step();
        run.sgd.load_state_dict(sgd);
        load_schedules();
      }
      CHECK(run.sgd.lr() == whole.sgd.lr());
      CHECK(run.sgd.momentum() == whole.sgd.momentum());
    }
    Run run;
    run.make();
    run.sgd.load_state_dict(sgd);
    run.drops->load_state_dict(drops);
    run.cycles->load_state_dict(cycles);
    for (int i = 0; i < 4; ++i) {
      run.step();
      whole.step();
      CHECK(run.sgd.lr() == whole.sgd.lr());
    }
  }
}

TEST_CASE("a scheduler that is loaded alone gives the optimizer its rate") {
  SGD sgd = sgd_of(), other = sgd_of();
  StepLR scheduler(sgd, 2, 0.5), alone(other, 2, 0.5);
  for (int i = 0; i < 2; ++i) sgd.step(), scheduler.step();
  alone.load_state_dict(scheduler.state_dict());
  CHECK(other.lr() == 0.05);
}

TEST_CASE("a scheduler that is loaded alone after a resume does so as well") {
  SGD first = sgd_of();
  StepLR drops(first, 2, 0.5);
  const StateDict optimizer = first.state_dict().clone(), schedule = drops.state_dict();
  SGD sgd = sgd_of();
  StepLR resumed(sgd, 2, 0.5);
  sgd.load_state_dict(optimizer);
  resumed.load_state_dict(schedule);
  for (int i = 0; i < 4; ++i) sgd.step(), resumed.step();
  CHECK(sgd.lr() == doctest::Approx(0.025));
  resumed.load_state_dict(schedule);
  CHECK(sgd.lr() == doctest::Approx(0.1));

  // An optimizer with a step of its own forgets what was loaded before it.
  const Tensor weight = zeros({1}).set_requires_grad();
  LBFGS lbfgs({weight}, {.lr = 0.5});
  StepLR halves(lbfgs, 1, 0.5);
  lbfgs.load_state_dict(lbfgs.state_dict().clone());
  halves.load_state_dict(halves.state_dict());
  lbfgs.step([&] { return weight.sum(); });
  halves.step();
  halves.load_state_dict(halves.state_dict());
  CHECK(lbfgs.lr() == doctest::Approx(0.25));
}

TEST_CASE("warm restarts go on after any epoch") {
  for (const std::int64_t factor : {1, 2})
    for (const std::int64_t last_epoch : {0, 3, 4, 5, 9, 13, 14, 15, 40}) {
      CAPTURE(factor);
      CAPTURE(last_epoch);
      SGD sgd = sgd_of(), other = sgd_of();
      CosineAnnealingWarmRestarts whole(sgd, 5, factor);
      for (std::int64_t i = 0; i <= last_epoch; ++i) sgd.step(), whole.step();
      other.set_initial_lr(0.1, 0);
      CosineAnnealingWarmRestarts rest(other,
                                       {.T_0 = 5, .T_mult = factor, .last_epoch = last_epoch});
      other.step();
      for (int i = 0; i < 12; ++i, whole.step(), rest.step())
        CHECK(other.lr() == doctest::Approx(sgd.lr()).epsilon(1e-12));
    }
  SGD sgd = sgd_of();
  sgd.set_initial_lr(0.1, 0);
  CosineAnnealingWarmRestarts scheduler(sgd, {.T_0 = 5, .last_epoch = 13});
  check_rates(scheduler, {0.0095491503, 0.1, 0.0904508497});
  CHECK_THROWS_AS(CosineAnnealingWarmRestarts(sgd, {.T_0 = 0, .last_epoch = 3}), ValueError);
}

TEST_CASE("SWALR begins to anneal an epoch after the milestone") {
  SGD sgd = sgd_of();
  ConstantLR constant(sgd, 1.0, 1);
  SWALR swa(sgd, {.swa_lr = 0.02, .anneal_epochs = 4, .anneal_strategy = "linear"});
  SequentialLR scheduler(sgd, {constant, swa}, {3});
  check_rates(scheduler, {.1, .1, .1, .1, .08, .06, .04, .02, .02});
  SGD other = sgd_of();
  ConstantLR before(other, 1.0, 1);
  SWALR cosine(other, {.swa_lr = 0.02, .anneal_epochs = 2});
  SequentialLR second(other, {before, cosine}, {2});
  check_rates(second, {.1, .1, .1, .06, .02, .02});
}

TEST_CASE("milestones of 0 and equal milestones leave members out") {
  SGD sgd = sgd_of();
  LinearLR warmup(sgd, {.total_iters = 0});
  CosineAnnealingLR cosine(sgd, 10);
  SequentialLR scheduler(sgd, {warmup, cosine}, {0});
  check_rates(scheduler, {.1, .0975528258, .0904508497, .0793892626});
  SGD other = sgd_of();
  ConstantLR first(other, .5, 9);
  ExponentialLR none(other, .9);
  StepLR last(other, 1, .5);
  SequentialLR equal(other, {first, none, last}, {2, 2});
  check_rates(equal, {.05, .05, .1, .05, .025, .0125});
  CHECK_THROWS_WITH_AS(SequentialLR(other, {first, none, last}, {2, 1}),
                       doctest::Contains("milestones of 0 or more that do not fall, got 1"),
                       ValueError);
  CHECK_THROWS_AS(SequentialLR(other, {first, last}, {-1}), ValueError);
}

TEST_CASE("a factor for no epochs stays, and may be 0") {
  SGD a = sgd_of(), b = sgd_of(), c = sgd_of();
  LinearLR linear(a, {.start_factor = .25, .total_iters = 0});
  check_rates(linear, {.025, .025, .025});
  ConstantLR constant(b, .25, 0);
  check_rates(constant, {.025, .025, .025});
  ConstantLR zero(c, 0.0, 2);
  check_rates(zero, {0, 0, .1, .1});
  CHECK_THROWS_AS(ConstantLR(c, -0.1), ValueError);
  CHECK_THROWS_AS(LinearLR(c, {.total_iters = -1}), ValueError);
}

TEST_CASE("momentum passes through 0 with Nesterov's form") {
  SGD sgd = sgd_of(0.1, 0.9, true);
  CyclicLR scheduler(sgd, {.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 2, .base_momentum = 0});
  const Tensor p = sgd.parameters()[0];
  for (const double momentum : {0.9, 0.45, 0.0, 0.45, 0.9}) {
    CHECK(sgd.momentum() == doctest::Approx(momentum).epsilon(1e-12));
    p.set_grad(ones({1}));
    const double before = p.item<double>(), lr = sgd.lr();
    sgd.step();
    if (momentum == 0) CHECK(before - p.item<double>() == doctest::Approx(lr).epsilon(1e-5));
    scheduler.step();
  }
  CHECK_THROWS_AS(sgd.set_momentum(-0.1), ValueError);
  CHECK_THROWS_AS(SGD({p}, {.nesterov = true}), ValueError);
}

TEST_CASE("ReduceLROnPlateau does not warn of steps before the optimizer's first") {
  int count = 0;
  const WarningHandler before = set_warning_handler([&](std::string_view) { ++count; });
  SGD sgd = sgd_of();
  ReduceLROnPlateau scheduler(sgd);
  for (int i = 0; i < 3; ++i) scheduler.step(1.0);
  set_warning_handler(before);
  CHECK(count == 0);
}

TEST_CASE("a schedule that gives a rate below 0 is named") {
  SGD sgd = sgd_of();
  LambdaLR scheduler(sgd, [](std::int64_t epoch) { return 1 - static_cast<double>(epoch); });
  sgd.step();
  scheduler.step();
  CHECK_THROWS_WITH_AS(
      scheduler.step(),
      doctest::Contains("[LambdaLR] expected a learning rate of 0 or more, the schedule gives "
                        "group 0 -0.1 in epoch 2"),
      ValueError);
  CHECK(scheduler.last_epoch() == 1);
  CHECK(scheduler.get_last_lr() == std::vector<double>{0});
}
