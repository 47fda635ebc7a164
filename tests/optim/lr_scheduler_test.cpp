#include "ferrite/optim/lr_scheduler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "ferrite/data/safetensors.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::optim;
using test::check_close;
using test::check_equal;

namespace {

constexpr int kSteps = 50;

Tensor parameter() { return zeros({1}).set_requires_grad(); }

/// As in tests/golden/record_lr_scheduler.py.
std::unique_ptr<SGD> two_groups() {
  return std::make_unique<SGD>(
      std::vector<SGD::Group>{{{parameter()}, {.lr = 0.1, .momentum = 0.5}},
                              {{parameter()}, {.lr = 0.02, .momentum = 0.5}}});
}

template <class S, class... Args>
std::shared_ptr<LRScheduler> make(Args&&... args) {
  return std::make_shared<S>(std::forward<Args>(args)...);
}

/// What a case steps: mostly one scheduler.
using Make = std::function<LRSchedulers(Optimizer&)>;
template <class S, class Options>
Make one(const Options& options) {
  return [options](Optimizer& o) { return LRSchedulers{make<S>(o, options)}; };
}

const std::map<std::string, Make>& cases() {
  using A = AnnealStrategy;
  static const std::map<std::string, Make> all = {
      {"constant", one<ConstantLR>(ConstantLROptions{.factor = 0.25, .total_iters = 7})},
      {"constant_default", one<ConstantLR>(ConstantLROptions{})},
      {"linear", one<LinearLR>(LinearLROptions{0.1, 0.8, 20})},
      {"linear_default", one<LinearLR>(LinearLROptions{})},
      {"step", one<StepLR>(StepLROptions{.step_size = 8, .gamma = 0.3})},
      {"multistep", one<MultiStepLR>(MultiStepLROptions{{30, 10, 30, 45}, 0.5})},
      {"exponential", one<ExponentialLR>(ExponentialLROptions{0.93})},
      {"polynomial", one<PolynomialLR>(PolynomialLROptions{30, 2.5})},
      {"polynomial_default", one<PolynomialLR>(PolynomialLROptions{})},
      {"cosine", one<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 12, .eta_min = 0.001})},
      {"cosine_whole", one<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 50})},
      {"restarts",
       one<CosineAnnealingWarmRestarts>(CosineAnnealingWarmRestartsOptions{5, 2, 0.002})},
      {"restarts_equal",
       one<CosineAnnealingWarmRestarts>(CosineAnnealingWarmRestartsOptions{.T_0 = 9})},
      {"lambda",
       [](Optimizer& o) {
         const auto at = [](std::int64_t e) { return static_cast<double>(e); };
         return LRSchedulers{make<LambdaLR>(
             o, std::vector<LRLambda>{[=](std::int64_t e) { return std::pow(0.9, at(e)); },
                                      [=](std::int64_t e) { return 1 / (1 + at(e)); }})};
       }},
      {"multiplicative",
       [](Optimizer& o) {
         return LRSchedulers{
             make<MultiplicativeLR>(o, [](std::int64_t e) { return e % 2 ? 0.95 : 1.01; })};
       }},
      {"onecycle", one<OneCycleLR>(OneCycleLROptions{.max_lr = {0.5, 0.3}, .total_steps = 50})},
      {"onecycle_linear", one<OneCycleLR>(OneCycleLROptions{.max_lr = 0.4,
                                                            .epochs = 6,
                                                            .steps_per_epoch = 10,
                                                            .pct_start = 0.25,
                                                            .anneal_strategy = A::linear,
                                                            .base_momentum = 0.7,
                                                            .max_momentum = {0.9, 0.95},
                                                            .div_factor = 10,
                                                            .final_div_factor = 100})},
      {"onecycle_three",
       one<OneCycleLR>(OneCycleLROptions{
           .max_lr = 0.4, .total_steps = 53, .cycle_momentum = false, .three_phase = true})},
      {"onecycle_three_momentum",
       one<OneCycleLR>(OneCycleLROptions{
           .max_lr = 0.4, .total_steps = 51, .anneal_strategy = A::linear, .three_phase = true})},
      {"cyclic", one<CyclicLR>(
                     CyclicLROptions{.base_lr = {0.01, 0.02}, .max_lr = 0.2, .step_size_up = 6})},
      {"cyclic2", one<CyclicLR>(CyclicLROptions{.base_lr = 0.01,
                                                .max_lr = {0.2, 0.1},
                                                .step_size_up = 4,
                                                .step_size_down = 9,
                                                .mode = CyclicMode::triangular2,
                                                .base_momentum = 0.6,
                                                .max_momentum = 0.95})},
      {"cyclic_exp", one<CyclicLR>(CyclicLROptions{.base_lr = 0.01,
                                                   .max_lr = 0.2,
                                                   .step_size_up = 7,
                                                   .mode = CyclicMode::exp_range,
                                                   .gamma = 0.97})},
      {"cyclic_own",
       one<CyclicLR>(CyclicLROptions{.base_lr = 0.01,
                                     .max_lr = 0.2,
                                     .step_size_up = 7,
                                     .scale_fn = [](double x) { return 1 / std::pow(5, x * 1e-2); },
                                     .scale_mode = ScaleMode::iterations,
                                     .cycle_momentum = false})},
      {"swa_cos", one<SWALR>(SWALROptions{.swa_lr = {0.05, 0.03}, .anneal_epochs = 13})},
      {"swa_linear", one<SWALR>(SWALROptions{0.005, 20, A::linear})},
      {"swa_at_once", one<SWALR>(SWALROptions{.swa_lr = 0.005, .anneal_epochs = 0})},
      {"two_at_once",
       [](Optimizer& o) {
         return LRSchedulers{make<ExponentialLR>(o, ExponentialLROptions{0.95}),
                             make<StepLR>(o, StepLROptions{11, 0.5})};
       }},
      {"chained",
       [](Optimizer& o) {
         return LRSchedulers{make<ChainedScheduler>(
             LRSchedulers{make<ConstantLR>(o, ConstantLROptions{0.1, 4}),
                          make<ExponentialLR>(o, ExponentialLROptions{0.9}),
                          make<CosineAnnealingLR>(o, CosineAnnealingLROptions{40})})};
       }},
      {"sequential",
       [](Optimizer& o) {
         return LRSchedulers{make<SequentialLR>(
             o,
             LRSchedulers{make<LinearLR>(o, LinearLROptions{.start_factor = 0.01, .total_iters = 10}),
                          make<CosineAnnealingLR>(o, CosineAnnealingLROptions{40})},
             std::vector<std::int64_t>{10})};
       }},
      {"sequential_many",
       [](Optimizer& o) {
         return LRSchedulers{make<SequentialLR>(
             o,
             LRSchedulers{
                 make<ConstantLR>(o, ConstantLROptions{0.1, 3}),
                 make<ExponentialLR>(o, ExponentialLROptions{0.9}),
                 make<StepLR>(o, StepLROptions{4, 0.5}), make<PolynomialLR>(o, PolynomialLROptions{9}),
                 make<CosineAnnealingWarmRestarts>(o, CosineAnnealingWarmRestartsOptions{3})},
             std::vector<std::int64_t>{3, 12, 27, 38})};
       }},
      {"sequential_lambda",
       [](Optimizer& o) {
         return LRSchedulers{make<SequentialLR>(
             o,
             LRSchedulers{
                 make<MultiplicativeLR>(o, [](std::int64_t) { return 0.9; }),
                 make<LambdaLR>(
                     o, [](std::int64_t e) { return std::pow(0.5, static_cast<double>(e)); }),
                 make<MultiStepLR>(o, MultiStepLROptions{{2, 5}}), make<LinearLR>(o)},
             std::vector<std::int64_t>{8, 16, 30})};
       }},
  };
  return all;
}

std::map<std::string, ReduceLROnPlateauOptions> plateaus() {
  using O = ReduceLROnPlateauOptions;
  return {
      {"plateau", {.factor = 0.5, .patience = 3}},
      {"plateau_default", {}},
      {"plateau_max",
       {.mode = O::Mode::max,
        .patience = 2,
        .threshold = 0.01,
        .threshold_mode = O::ThresholdMode::abs,
        .cooldown = 2}},
      {"plateau_min_lr",
       {.factor = 0.3, .patience = 1, .threshold = 0.2, .min_lr = {0.004, 0.001}, .eps = 1e-3}}};
}

/// Rates and momenta of both groups, step after step.
struct Log {
  std::vector<double> lr, momentum;
  void note(const Optimizer& o) {
    for (std::size_t g = 0; g < 2; ++g) {
      lr.push_back(o.lr(g));
      momentum.push_back(o.momentum(g));
    }
  }
};

const test::Golden& golden() {
  static const test::Golden g("lr_scheduler");
  return g;
}

void check(const Log& log, const std::string& name) {
  const auto compare = [&](const std::vector<double>& got, const char* what) {
    check_close(from_vector(got, {static_cast<std::int64_t>(got.size() / 2), 2}),
                golden().get(name, what), 1e-12, 1e-17);
  };
  compare(log.lr, "lr");
  compare(log.momentum, "momentum");
}

void step_all(const LRSchedulers& schedulers) {
  for (const auto& s : schedulers) s->step();
}

StateDict state_of(const LRSchedulers& schedulers) {
  StateDict dict;
  for (std::size_t i = 0; i < schedulers.size(); ++i)
    dict.insert_all(std::to_string(i) + ".", schedulers[i]->state_dict());
  return dict;
}

StateDict part_of(const StateDict& dict, std::size_t i) {
  StateDict part;
  const std::string prefix = std::to_string(i) + ".";
  for (const auto& [name, value] : dict)
    if (name.starts_with(prefix)) part.insert(name.substr(prefix.size()), value);
  return part;
}

}  // namespace

TEST_CASE("schedulers give PyTorch's rates and momenta through 50 steps") {
  for (const auto& [name, make] : cases()) {
    CAPTURE(name);
    const auto sgd = two_groups();
    const LRSchedulers schedulers = make(*sgd);
    Log log;
    log.note(*sgd);
    for (int i = 0; i < kSteps; ++i) {
      step_all(schedulers);
      log.note(*sgd);
      CHECK(schedulers.back()->get_last_lr() == std::vector{sgd->lr(0), sgd->lr(1)});
    }
    check(log, name);
    CHECK(schedulers[0]->last_epoch() == kSteps);
  }
}

TEST_CASE("ReduceLROnPlateau gives PyTorch's rates") {
  const std::vector<double> metrics = golden().get("input", "metric").to_vector<double>();
  for (const auto& [name, options] : plateaus()) {
    CAPTURE(name);
    const auto sgd = two_groups();
    ReduceLROnPlateau scheduler(*sgd, options);
    Log log;
    log.note(*sgd);
    for (std::size_t i = 0; i < kSteps; ++i) {
      if (i == 20) {  // a checkpoint changes nothing
        const StateDict dict = scheduler.state_dict();
        ReduceLROnPlateau(*sgd, options).load_state_dict(dict);
        scheduler.load_state_dict(dict);
      }
      scheduler.step(metrics[i]);
      log.note(*sgd);
    }
    check(log, name);
    CHECK_THROWS_AS(static_cast<LRScheduler&>(scheduler).step(), ValueError);
  }
  const auto sgd = two_groups();
  CHECK_THROWS_AS(ReduceLROnPlateau(*sgd, {.factor = 1}), ValueError);
}

TEST_CASE(
    "a run resumed from a checkpoint has the same rates to the bit, in any order of loading") {
  const auto path =
      std::filesystem::temp_directory_path() / "ferrite_lr_scheduler_test.safetensors";
  for (const auto& [name, make] : cases())
    for (const int at : {0, 1, 9, 12, 31}) {
      CAPTURE(name);
      CAPTURE(at);
      const auto whole = two_groups(), first = two_groups(), second = two_groups(),
                 third = two_groups();
      const LRSchedulers all = make(*whole), begun = make(*first);
      for (int i = 0; i < at; ++i) {
        step_all(all);
        step_all(begun);
      }
      save(state_of(begun), path);
      const StateDict optimizer = first->state_dict(), dict = load(path);
      const LRSchedulers resumed = make(*second);
      second->load_state_dict(optimizer);
      for (std::size_t i = 0; i < resumed.size(); ++i)
        resumed[i]->load_state_dict(part_of(dict, i));
      third->load_state_dict(optimizer);
      const LRSchedulers late = make(*third);
      for (std::size_t i = 0; i < late.size(); ++i) late[i]->load_state_dict(part_of(dict, i));
      for (int i = at; i < kSteps; ++i) {
        step_all(all);
        step_all(resumed);
        step_all(late);
        for (std::size_t g = 0; g < 2; ++g)
          for (const auto* o : {second.get(), third.get()}) {
            CHECK(o->lr(g) == whole->lr(g));
            CHECK(o->momentum(g) == whole->momentum(g));
          }
      }
    }
  std::filesystem::remove(path);
}

TEST_CASE("warm restarts at any epoch; state of a scheduler by name") {
  const auto sgd = two_groups();
  CosineAnnealingWarmRestarts scheduler(*sgd, {.T_0 = 3, .T_mult = 2, .eta_min = 0.001});
  std::vector<double> rates;
  for (int i = 0; i < kSteps; ++i) {
    scheduler.step(i / 4.0);
    rates.insert(rates.end(), {sgd->lr(0), sgd->lr(1)});
  }
  check_close(from_vector(rates, {kSteps, 2}), golden().get("restarts_fractions", "lr"), 1e-12);
  CHECK_THROWS_AS(scheduler.step(-0.5), ValueError);
  const StateDict dict = scheduler.state_dict();
  CHECK(dict.at("last_epoch").item<int>() == 12);
  CHECK(dict.at("T_i").item<double>() == 12);
  CHECK(dict.at("T_0").dtype() == kInt64);
  CHECK(dict.at("base_lrs").to_vector<double>() == std::vector<double>{0.1, 0.02});
  CHECK(sgd->state_dict().at("param_groups.1.initial_lr").item<double>() == 0.02);
}

TEST_CASE("names in state_dict(), by which older checkpoints load") {
  const std::map<std::string, std::string> expected = {
      {"constant", "factor total_iters"},
      {"linear", "start_factor end_factor total_iters"},
      {"step", "step_size gamma"},
      {"multistep", "milestones gamma"},
      {"exponential", "gamma"},
      {"polynomial", "total_iters power"},
      {"cosine", "T_max eta_min"},
      {"restarts", "T_0 T_mult eta_min T_cur T_i"},
      {"lambda", ""},
      {"multiplicative", ""},
      {"onecycle", "total_steps max_lrs"},
      {"cyclic", "total_size step_ratio gamma max_lrs"},
      {"swa_cos", "anneal_epochs swa_lr"}};
  const auto check_names = [](const LRScheduler& scheduler, const std::string& own) {
    std::vector<std::string> names;
    for (const auto& [name, value] : scheduler.state_dict())
      if (!name.starts_with("_schedulers.")) names.push_back(name);
    std::vector<std::string> wanted = {"last_epoch", "_step_count", "base_lrs", "_last_lr"};
    std::istringstream words(own);
    wanted.insert(wanted.end(), std::istream_iterator<std::string>(words), {});
    std::ranges::sort(names);
    std::ranges::sort(wanted);
    CHECK(names == wanted);
  };
  for (const auto& [name, own] : expected) {
    CAPTURE(name);
    const auto sgd = two_groups();
    check_names(*cases().at(name)(*sgd)[0], own);
  }
  const auto sgd = two_groups();
  check_names(ReduceLROnPlateau(*sgd),
              "factor patience threshold cooldown min_lrs eps best num_bad_epochs "
              "cooldown_counter");
  const WarmupLR warmup(*sgd, make<StepLR>(*sgd, StepLROptions{2}), {.warmup_steps = 4});
  check_names(warmup, "warmup_steps start_factor");
  CHECK(warmup.state_dict().contains("_schedulers.0.step_size"));
  CHECK(warmup.state_dict().at("warmup_steps").item<std::int64_t>() == 4);
}

TEST_CASE("warm-up, then another scheduler from its start") {
  const auto sgd = two_groups(), other = two_groups();
  // MultiplicativeLR has no form but the chained one: it starts from the whole rate all the same.
  WarmupLR scheduler(*sgd, make<MultiplicativeLR>(*sgd, [](std::int64_t) { return 0.5; }),
                     {.warmup_steps = 4, .start_factor = 0.2});
  WarmupLR alone(*other, nullptr, {.warmup_steps = 2, .start_factor = 0});
  const std::vector<double> expected = {0.2, 0.4, 0.6, 0.8, 1, 0.5, 0.25}, plain = {0, 0.5, 1, 1};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(sgd->lr(0) == doctest::Approx(0.1 * expected[i]).epsilon(1e-14));
    CHECK(sgd->lr(1) == doctest::Approx(0.02 * expected[i]).epsilon(1e-14));
    CHECK(scheduler.last_epoch() == static_cast<std::int64_t>(i));
    if (i < plain.size()) CHECK(other->lr() == doctest::Approx(0.1 * plain[i]).epsilon(1e-14));
    scheduler.step();
    alone.step();
  }
  const auto none = two_groups();
  WarmupLR at_once(*none, make<StepLR>(*none, StepLROptions{2, 0.5}), {.warmup_steps = 0});
  for (const double factor : {1.0, 1.0, 0.5, 0.5, 0.25}) {
    CHECK(none->lr() == doctest::Approx(0.1 * factor).epsilon(1e-14));
    at_once.step();
  }
  // Composites nest: two cycles of warm-up and fall, one after the other.
  const auto nested = two_groups();
  const auto cycle = [&] {
    return make<WarmupLR>(*nested, make<ExponentialLR>(*nested, ExponentialLROptions{0.5}),
                          WarmupLROptions{.warmup_steps = 1, .start_factor = 0.1});
  };
  const auto chain =
      make<ChainedScheduler>(LRSchedulers{make<ConstantLR>(*nested, ConstantLROptions{0.5, 1}),
                                          make<ExponentialLR>(*nested, ExponentialLROptions{0.5})});
  SequentialLR three(
      *nested,
      {make<SequentialLR>(*nested, LRSchedulers{cycle(), cycle()}, std::vector<std::int64_t>{3}),
       chain},
      {6});
  for (const double factor : {0.1, 1.0, 0.5, 0.1, 1.0, 0.5, 0.5, 0.5, 0.25}) {
    CHECK(nested->lr() == doctest::Approx(0.1 * factor).epsilon(1e-14));
    three.step();
  }
}

TEST_CASE("rates set by hand count; last_epoch needs initial rates") {
  const auto sgd = two_groups();
  ExponentialLR scheduler(*sgd, {0.5});
  sgd->set_lr(1);
  scheduler.step();
  CHECK(sgd->lr(1) == 0.5);
  CHECK(scheduler.base_lrs() == std::vector<double>{0.1, 0.02});
  CHECK_THROWS_WITH_AS(ExponentialLR(*two_groups(), {.gamma = 0.5, .last_epoch = 3}),
                       doctest::Contains("no initial_lr"), ValueError);
}

/// A scheduler that goes on after three steps, with the optimizer's state alone, has the rates of
/// one that is not interrupted.
template <class S, class Options>
void check_resumed(const Options& options) {
  const auto sgd = two_groups(), other = two_groups();
  S whole(*sgd, options);
  for (int i = 0; i < 3; ++i) whole.step();
  other->load_state_dict(sgd->state_dict());
  Options later = options;
  later.last_epoch = 2;
  S rest(*other, later);
  CHECK(rest.last_epoch() == 3);
  for (int i = 0; i < 4; ++i) {
    CHECK(other->lr(0) == doctest::Approx(sgd->lr(0)).epsilon(1e-13));
    CHECK(other->lr(1) == doctest::Approx(sgd->lr(1)).epsilon(1e-13));
    whole.step(), rest.step();
  }
}

TEST_CASE("with last_epoch, the rate that the run before left is that of the next epoch") {
  check_resumed<ExponentialLR>(ExponentialLROptions{0.9});
  check_resumed<LinearLR>(LinearLROptions{0.2, 1, 6});
  check_resumed<PolynomialLR>(PolynomialLROptions{6, 2});
  check_resumed<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 5, .eta_min = 0.01});
  const auto sgd = two_groups();
  sgd->set_initial_lr(0.1, 0), sgd->set_initial_lr(0.02, 1);
  sgd->set_lr(0.03);
  MultiplicativeLR scheduler(
      *sgd, [](std::int64_t) { return 0.5; }, 4);
  CHECK(sgd->lr() == 0.03);
  scheduler.step();
  CHECK(sgd->lr() == 0.015);
}

TEST_CASE("a MultiplicativeLR to which a SequentialLR comes multiplies at once, as PyTorch's") {
  const auto sgd = two_groups();
  const auto times = [&](double factor) {
    return make<MultiplicativeLR>(*sgd, [factor](std::int64_t) { return factor; });
  };
  SequentialLR scheduler(*sgd, {times(0.7), times(0.9)}, {2});
  for (const double factor : {1.0, 0.7, 0.63, 0.567}) {
    CHECK(sgd->lr() == doctest::Approx(0.1 * factor).epsilon(1e-14));
    scheduler.step();
  }
}

TEST_CASE("momentum: the first of Adam's betas, what is refused") {
  const Tensor p = parameter();
  Adam adam({p}, {.lr = 0.1});
  OneCycleLR scheduler(adam, {.max_lr = 0.1, .total_steps = 10});
  CHECK(adam.options().betas.first == 0.95);
  scheduler.step();
  scheduler.step();
  CHECK(adam.options().betas.first == doctest::Approx(0.85).epsilon(1e-14));
  CHECK(adam.options().betas.second == 0.999);
  CHECK_THROWS_AS(adam.set_momentum(1), ValueError);
  CHECK(adam.momentum() == adam.options().betas.first);
  SGD sgd({parameter()}, {.lr = 0.1, .momentum = 0.9, .nesterov = true});
  CHECK_THROWS_AS(sgd.set_momentum(-1), ValueError);
  CHECK(sgd.momentum() == 0.9);
}

TEST_CASE("linear rates never fall below 0; more steps than there are") {
  const auto sgd = two_groups();
  OneCycleLR scheduler(*sgd,
                       {.max_lr = 1, .total_steps = 10, .anneal_strategy = AnnealStrategy::linear});
  for (int i = 0; i < 10; ++i) scheduler.step();
  CHECK(sgd->lr() == 0);
  CHECK_THROWS_AS(scheduler.step(), ValueError);
  CHECK(scheduler.last_epoch() == 10);
  CHECK(scheduler.total_steps() == 10);
}

TEST_CASE("bad arguments and dicts") {
  const auto sgd = two_groups(), other = two_groups();
  Optimizer& o = *sgd;
  CHECK_THROWS_AS(StepLR(o, {.step_size = 0}), ValueError);
  CHECK_THROWS_AS(LinearLR(o, {.start_factor = 0}), ValueError);
  CHECK_THROWS_AS(LinearLR(o, {.end_factor = 2}), ValueError);
  CHECK_THROWS_AS(ConstantLR(o, {.factor = 2}), ValueError);
  CHECK_THROWS_AS(PolynomialLR(o, {.total_iters = 0}), ValueError);
  CHECK_THROWS_AS(CosineAnnealingLR(o, {.T_max = 0}), ValueError);
  CHECK_THROWS_AS(CosineAnnealingWarmRestarts(o, {.T_0 = 0}), ValueError);
  CHECK_THROWS_AS(CosineAnnealingWarmRestarts(o, {.T_0 = 1, .T_mult = 0}), ValueError);
  CHECK_THROWS_AS(OneCycleLR(o, {.max_lr = 1}), ValueError);
  CHECK_THROWS_AS(OneCycleLR(o, {.max_lr = 1, .total_steps = 0}), ValueError);
  CHECK_THROWS_AS(OneCycleLR(o, {.max_lr = 1, .total_steps = 9, .pct_start = 2}), ValueError);
  CHECK_THROWS_AS(CyclicLR(o, {.base_lr = 1, .max_lr = 2, .step_size_up = 0}), ValueError);
  CHECK_THROWS_WITH_AS(CyclicLR(o, {.base_lr = {1, 2, 3}, .max_lr = 2}),
                       doctest::Contains("one base_lr or one for each of the 2 groups, got 3"),
                       ValueError);
  CHECK_THROWS_AS(LambdaLR(o, std::vector<LRLambda>(1)), ValueError);
  CHECK_THROWS_AS(LambdaLR(o, LRLambda()), ValueError);
  CHECK_THROWS_AS(SWALR(o, {.swa_lr = 1, .anneal_epochs = -1}), ValueError);
  CHECK_THROWS_AS(WarmupLR(o, nullptr, {.warmup_steps = -1}), ValueError);
  const auto exponential = make<ExponentialLR>(o, ExponentialLROptions{0.5});
  CHECK_THROWS_AS(SequentialLR(o, {exponential, exponential}, {}), ValueError);
  CHECK_THROWS_AS(SequentialLR(o, {exponential, exponential}, {-1}), ValueError);
  CHECK_THROWS_AS(SequentialLR(*other, {exponential}, {}), ValueError);
  CHECK_THROWS_AS(SequentialLR(o, {nullptr}, {}), ValueError);
  CHECK_THROWS_AS(ChainedScheduler({}), ValueError);
  CHECK_THROWS_WITH_AS(ChainedScheduler({make<ReduceLROnPlateau>(o)}),
                       doctest::Contains("steps by a metric"), ValueError);

  SWALR swa(o, {.swa_lr = 1});
  StepLR step(o, {.step_size = 3});
  const StateDict good = step.state_dict();
  StateDict dict = good;
  dict.erase("gamma");
  dict.insert_or_assign("last_epoch", tensor(std::int64_t{7}));
  CHECK_THROWS_WITH_AS(step.load_state_dict(dict), doctest::Contains("lacks gamma"), ValueError);
  CHECK(step.last_epoch() == 0);
  dict = good;
  dict.insert_or_assign("base_lrs", tensor({1.0}));
  CHECK_THROWS_AS(step.load_state_dict(dict), ValueError);
  dict = good;
  dict.insert_or_assign("gamma", tensor({1.0, 2.0}));
  CHECK_THROWS_AS(step.load_state_dict(dict), ValueError);
  // Before anything changes: what a damaged file has in place of a number.
  for (const auto& [name, value, text] :
       {std::tuple{"step_size", tensor(std::int64_t{0}), "expected it to be above 0, got 0"},
        {"gamma", tensor(std::complex<double>(0, 1)), "complex"}}) {
    dict = good;
    dict.insert_or_assign("last_epoch", tensor(std::int64_t{7}));
    dict.insert_or_assign(name, value);
    CHECK_THROWS_WITH_AS(step.load_state_dict(dict), doctest::Contains(text), Error);
    CHECK(step.last_epoch() == 0);
  }
  StateDict of_optimizer = o.state_dict();
  of_optimizer.insert_or_assign("param_groups.1.momentum", tensor(-1.0));
  of_optimizer.insert_or_assign("param_groups.0.lr", tensor(7.0));
  CHECK_THROWS_WITH_AS(o.load_state_dict(of_optimizer), doctest::Contains("0 or more"), ValueError);
  CHECK(o.lr() != 7);
  dict = good;
  dict.insert("_schedulers.0.last_epoch", tensor(std::int64_t{7}));
  CHECK_THROWS_AS(step.load_state_dict(dict), ValueError);
  sgd->add_param_group({parameter()}, {});
  CHECK_THROWS_WITH_AS(swa.step(), doctest::Contains("made for 2 groups, the optimizer has 3"),
                       ValueError);
  CHECK_THROWS_AS(step.load_state_dict(good), ValueError);
}
