// Schedules and optimizers that PyTorch began (tests/data/make_pth.py), and that go on here, or the
// other way round.
#include <functional>
#include <map>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/data/pth.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/lbfgs.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/muon.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;
using namespace ferrite::optim;

namespace {

using data::Value;

constexpr std::size_t kSteps = 10, kSavedAt = 4;
constexpr std::array<double, kSteps> kMetrics = {1, .9, .95, .93, .92, .91, .9, .8, .85, .86};

template <class Scheduler, class... Options>
std::function<std::shared_ptr<LRScheduler>(SGD&)> made(const Options&... options) {
  return [=](SGD& o) { return std::make_shared<Scheduler>(o, options...); };
}

/// Those of tests/data/torch_schedulers.py.
const std::map<std::string, std::function<std::shared_ptr<LRScheduler>(SGD&)>>& schedulers() {
  static const std::map<std::string, std::function<std::shared_ptr<LRScheduler>(SGD&)>> all = {
      {"StepLR", made<StepLR>(2, 0.5)},
      {"MultiStepLR", made<MultiStepLR>(MultiStepLROptions{{2, 5, 5}, 0.3})},
      {"ExponentialLR", made<ExponentialLR>(0.8)},
      {"ConstantLR", made<ConstantLR>(0.5, 5)},
      {"LinearLR", made<LinearLR>(LinearLROptions{.start_factor = 0.2, .total_iters = 6})},
      {"CosineAnnealingLR", made<CosineAnnealingLR>(8, 1e-4)},
      {"CosineAnnealingWarmRestarts", made<CosineAnnealingWarmRestarts>(2, 2)},
      {"PolynomialLR", made<PolynomialLR>(8, 2.0)},
      {"LambdaLR",
       made<LambdaLR>([](std::int64_t epoch) { return 1 / (1 + static_cast<double>(epoch)); })},
      {"MultiplicativeLR", made<MultiplicativeLR>([](std::int64_t) { return 0.9; })},
      {"OneCycleLR", made<OneCycleLR>(OneCycleLROptions{
                         .max_lr = {0.1, 0.2}, .total_steps = 12, .three_phase = true})},
      {"CyclicLR", made<CyclicLR>(CyclicLROptions{.base_lr = 0.001,
                                                  .max_lr = 0.05,
                                                  .step_size_up = 2,
                                                  .step_size_down = 3,
                                                  .mode = CyclicMode::exp_range,
                                                  .gamma = 0.9})},
      {"SWALR", made<SWALR>(SWALROptions{.swa_lr = 0.01, .anneal_epochs = 6})},
      {"ReduceLROnPlateau", made<ReduceLROnPlateau>(ReduceLROnPlateauOptions{
                                .factor = 0.5, .patience = 1, .cooldown = 1})},
      {"SequentialLR",
       [](SGD& o) {
         const LinearLROptions warmup{.start_factor = 0.1, .total_iters = 3};
         return std::make_shared<SequentialLR>(
             o,
             LRSchedulers{std::make_shared<LinearLR>(o, warmup),
                          std::make_shared<MultiStepLR>(o, MultiStepLROptions{{1, 3}, 0.3})},
             std::vector<std::int64_t>{6});
       }},
      {"ChainedScheduler",
       [](SGD& o) {
         return std::make_shared<ChainedScheduler>(LRSchedulers{
             std::make_shared<StepLR>(o, 2, 0.5), std::make_shared<ConstantLR>(o, 0.5, 5)});
       }},
  };
  return all;
}

/// Two groups and a schedule for them.
struct Run {
  Tensor first = ones({2}).requires_grad_(), second = ones({3}).requires_grad_();
  SGD sgd{{{{first}, {.lr = 0.02, .momentum = 0.9}}, {{second}, {.lr = 0.05, .momentum = 0.9}}}};
  std::shared_ptr<LRScheduler> scheduler;

  explicit Run(const std::string& name) : scheduler(schedulers().at(name)(sgd)) {}

  /// The rates and momenta after each step.
  std::vector<double> steps(std::size_t begin, std::size_t end) {
    std::vector<double> values;
    for (std::size_t i = begin; i < end; ++i) {
      sgd.zero_grad();
      (first.square().sum() + second.square().sum()).backward();
      sgd.step();
      if (auto* const plateau = dynamic_cast<ReduceLROnPlateau*>(scheduler.get()))
        plateau->step(kMetrics[i]);
      else
        scheduler->step();
      values.insert(values.end(), {sgd.lr(0), sgd.lr(1), sgd.momentum(0), sgd.momentum(1)});
    }
    return values;
  }
};

std::vector<double> numbers(const Value& list) {
  std::vector<double> all;
  for (const Value& item : list.items()) all.push_back(item.to_double());
  return all;
}

void check_same(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-9));
}

/// Everything that both have is the same, but for functions, of which PyTorch tells nothing, and
/// the steps, which its warm restarts do not count.
void check_common(const Value& got, const Value& expected, const std::string& name) {
  CAPTURE(name);
  if (expected.is_dict() && !expected.entries().empty()) {
    for (const auto& [key, value] : expected.entries())
      if (got.contains(key) && key.str() != "'lr_lambdas'" && key.str() != "'_step_count'")
        check_common(got[key], value, name + "." + key.str());
  } else if (expected.is_list()) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      check_common(got.items()[i], expected.items()[i], name + "." + std::to_string(i));
  } else if (expected.kind() == Value::Kind::real) {
    CHECK(got.to_double() == doctest::Approx(expected.to_double()).epsilon(1e-12));
  } else if (expected.kind() == Value::Kind::integer) {
    CHECK(got.to_double() == expected.to_double());  // a float where the option may be one
  }
}

}  // namespace

TEST_CASE("schedules that PyTorch began go on with its rates and momenta") {
  const Value file = data::load_pth("tests/data/pth/schedulers.pth");
  for (const auto& [name, make] : schedulers())
    for (const bool optimizer_first : {true, false}) {
      CAPTURE(name);
      CAPTURE(optimizer_first);
      const Value& saved = file[name];
      Run run(name);
      if (optimizer_first) run.sgd.load_state_dict(data::state_of_torch(saved["optimizer"]));
      run.scheduler->load_state_dict(data::state_of_torch(saved["scheduler"]));
      if (!optimizer_first) run.sgd.load_state_dict(data::state_of_torch(saved["optimizer"]));
      CHECK(run.scheduler->last_epoch() == kSavedAt);
      check_same(run.steps(kSavedAt, kSteps), numbers(saved["values"]));
    }
}

TEST_CASE("schedules have what PyTorch's load_state_dict() asks for") {
  const Value file = data::load_pth("tests/data/pth/schedulers.pth");
  for (const auto& [name, make] : schedulers()) {
    CAPTURE(name);
    Run run(name);
    run.steps(0, kSavedAt);
    const Value scheduler = data::state_for_torch(run.scheduler->state_dict()),
                sgd = data::state_for_torch(run.sgd.state_dict());
    check_common(scheduler, file[name]["scheduler"], "scheduler");
    for (std::size_t g = 0; g < 2; ++g)
      check_common(sgd["param_groups"][g], file[name]["optimizer"]["param_groups"][g], "group");
    for (const char* key : {"lr_lambdas", "_scale_fn_custom", "milestones", "_schedulers"})
      CHECK(scheduler.contains(key) == file[name]["scheduler"].contains(key));
    for (const char* key : {"max_lr", "min_lr", "swa_lr"})
      CHECK(sgd["param_groups"][0].contains(key) ==
            file[name]["optimizer"]["param_groups"][0].contains(key));
  }
  Run run("MultiStepLR");
  const Value milestones = data::state_for_torch(run.scheduler->state_dict())["milestones"];
  CHECK(milestones.is_counter());
  CHECK(milestones.str() == "{2: 1, 5: 2}");
  // Of a damaged file, whose counts are no reason to make a list of any length.
  const Value many = Value::dict({{"milestones", Value::dict({{1, std::int64_t{1} << 40}})}});
  CHECK(!data::state_of_torch(many).contains("milestones"));
  Run cycle("OneCycleLR");
  const Value group = data::state_for_torch(cycle.sgd.state_dict())["param_groups"][1];
  CHECK(group["max_lr"].to_double() == 0.2);
  CHECK(group["base_momentum"].to_double() == 0.85);
  const WarmupLR warmup(run.sgd, 4);
  CHECK_THROWS_WITH_AS(data::state_for_torch(warmup.state_dict()),
                       doctest::Contains("PyTorch has no WarmupLR"), ValueError);
}

TEST_CASE("schedules that were begun here go on in PyTorch with the same rates") {
  const char* python = std::getenv("FERRITE_TORCH_PYTHON");
  if (!python) {
    MESSAGE("skipped: FERRITE_TORCH_PYTHON names no Python with PyTorch");
    return;
  }
  const TempDir dir;
  for (const auto& [name, make] : schedulers()) {
    Run run(name);
    run.steps(0, kSavedAt);
    const Value sgd = data::state_for_torch(run.sgd.state_dict().clone()),
                scheduler = data::state_for_torch(run.scheduler->state_dict());
    Value::List values;
    for (const double v : run.steps(kSavedAt, kSteps)) values.emplace_back(v);
    data::save_pth(Value::dict({{"optimizer", sgd},
                                {"scheduler", scheduler},
                                {"values", Value::list(std::move(values))}}),
                   dir / (name + ".pth"));
  }
  const std::string out = (dir / "out").string();
  const int status = std::system((std::string(python) + " tests/data/torch_schedulers.py " +
                                  dir.path().string() + " >" + out + " 2>&1")
                                     .c_str());
  CHECK_MESSAGE(status == 0, read_file(out));
}

TEST_CASE("optimizers with options that are words, from PyTorch and back") {
  const Value file = data::load_pth("tests/data/pth/optimizers.pth");
  const auto losses = [](Optimizer& optimizer, const Tensor& w) {
    std::vector<double> all;
    for (int i = 0; i < 4; ++i)
      all.push_back(optimizer
                        .step([&] {
                          optimizer.zero_grad();
                          Tensor loss = w.pow(4).sum() + (w[0] * w[1]).sum();
                          loss.backward();
                          return loss;
                        })
                        .item<double>());
    return all;
  };
  const auto start = [&](const char* name) {
    return file[name]["w"].to_tensor().clone().requires_grad_();
  };
  for (const char* name : {"LBFGS", "LBFGS_first"}) {
    CAPTURE(name);
    const bool first = name == std::string("LBFGS_first");
    const Tensor w = start(name);
    LBFGS lbfgs({w}, {.line_search_fn = first ? "strong_wolfe" : ""});
    lbfgs.load_state_dict(data::state_of_torch(file[name]["optimizer"]));
    CHECK(lbfgs.options().line_search_fn == (first ? "" : "strong_wolfe"));
    const Value saved = data::state_for_torch(lbfgs.state_dict());
    CHECK(saved["param_groups"][0]["line_search_fn"].str() == (first ? "None" : "'strong_wolfe'"));
    for (const char* list : {"old_dirs", "old_stps", "ro"}) {
      CHECK(saved["state"][0][list].kind() == Value::Kind::list);
      CHECK(saved["state"][0][list].size() == file[name]["optimizer"]["state"][0][list].size());
    }
    const std::vector<double> got = losses(lbfgs, w), expected = numbers(file[name]["losses"]);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
  CHECK(data::state_for_torch(LBFGS({start("LBFGS")}).state_dict())["param_groups"][0]["max_eval"]
            .to_int() == 25);
  const Tensor w = start("Muon");
  Muon muon({w});
  StateDict state = data::state_of_torch(file["Muon"]["optimizer"]);
  muon.load_state_dict(state);
  CHECK(muon.options().adjust_lr_fn == "match_rms_adamw");
  const Value saved = data::state_for_torch(muon.state_dict());
  check_common(saved, file["Muon"]["optimizer"], "");
  CHECK(saved["param_groups"][0]["adjust_lr_fn"].str() == "'match_rms_adamw'");
  CHECK(saved["param_groups"][0]["ns_coefficients"].kind() == Value::Kind::tuple);
  // A word that is none of those allowed changes nothing; older files have none.
  state.insert_or_assign("param_groups.0.adjust_lr_fn", from_vector<std::uint8_t>({'x'}, {1}));
  state.insert_or_assign("param_groups.0.lr", tensor(7.0));
  CHECK_THROWS_WITH_AS(muon.load_state_dict(state),
                       doctest::Contains("adjust_lr_fn: expected one of"), ValueError);
  CHECK(muon.lr() == 0.02);
  state.insert_or_assign("param_groups.0.adjust_lr_fn", tensor(1.0));
  CHECK_THROWS_WITH_AS(muon.load_state_dict(state), doctest::Contains("a word as uint8"),
                       ValueError);
  state.erase("param_groups.0.adjust_lr_fn");
  muon.load_state_dict(state);
  CHECK(muon.options().adjust_lr_fn == "match_rms_adamw");
}

TEST_CASE("load() and save() of an optimizer or a scheduler in PyTorch's files") {
  const TempDir dir;
  const Value file = data::load_pth("tests/data/pth/schedulers.pth")["MultiStepLR"];
  data::save_pth(file["optimizer"], dir / "optimizer.pth");
  data::save_pth(file["scheduler"], dir / "scheduler.pth");
  Run run("MultiStepLR");
  load(run.sgd, dir / "optimizer.pth");
  load(*run.scheduler, dir / "scheduler.pth");
  CHECK(run.sgd.lr(1) == file["optimizer"]["param_groups"][1]["lr"].to_double());
  CHECK(run.scheduler->last_epoch() == kSavedAt);

  save(run.sgd, dir / "optimizer.pt");
  save(*run.scheduler, dir / "scheduler.pt");
  const Value sgd = data::load_pth(dir / "optimizer.pt");
  check_common(sgd, file["optimizer"], "");
  CHECK(sgd["state"][1]["momentum_buffer"].is_tensor());
  CHECK(sgd["param_groups"][0]["params"].str() == "[0]");
  CHECK(data::load_pth(dir / "scheduler.pt")["milestones"].str() == "{2: 1, 5: 2}");
  Run again("MultiStepLR");
  load(again.sgd, dir / "optimizer.pt");
  load(*again.scheduler, dir / "scheduler.pt");
  CHECK(again.steps(kSavedAt, kSteps) == run.steps(kSavedAt, kSteps));
  // Files that earlier versions wrote have the names in one dict.
  data::save_pth(run.sgd.state_dict(), dir / "flat.pth");
  load(again.sgd, dir / "flat.pth");
}

TEST_CASE("groups that are added after the scheduler was made") {
  const auto rates = [](const std::string& name) {
    Run run(name);
    run.steps(0, kSavedAt);
    const Tensor third = ones({2}).requires_grad_();
    run.sgd.add_param_group({third}, {.lr = 0.5, .momentum = 0.9});
    std::vector<double> all;
    for (std::size_t i = kSavedAt; i < kSteps; ++i) {
      run.steps(i, i + 1);
      all.push_back(run.sgd.lr(2));
    }
    CHECK(run.scheduler->get_last_lr().size() == 3);
    CHECK(run.scheduler->base_lrs().size() == 3);
    Run whole(name);
    whole.steps(0, kSteps);
    CHECK(run.sgd.lr(0) == whole.sgd.lr(0));
    const StateDict dict = run.scheduler->state_dict();
    run.scheduler->load_state_dict(dict);
    CHECK(run.sgd.lr(2) == all.back());
    return all;
  };
  // PyTorch's rates of the third group.
  check_same(rates("StepLR"), {0.5, 0.25, 0.25, 0.125, 0.125, 0.0625});
  check_same(rates("MultiStepLR"), {0.045, 0.045, 0.045, 0.045, 0.045, 0.045});
  check_same(rates("ExponentialLR"), {0.4, 0.32, 0.256, 0.2048, 0.16384, 0.131072});
  check_same(rates("ConstantLR"), {1, 1, 1, 1, 1, 1});
  const double end = 0.5 * 0.75 / 0.55;
  check_same(rates("LinearLR"), {0.5 * 0.65 / 0.55, end, end, end, end, end});
  check_same(rates("PolynomialLR"), {0.28125, 0.125, 0.03125, 0, 0, 0});
  check_same(rates("ReduceLROnPlateau"), {0.5, 0.5, 0.25, 0.25, 0.25, 0.125});
  check_same(rates("ChainedScheduler"), {1, 0.5, 0.5, 0.25, 0.25, 0.125});
  const std::vector<double> cosine = rates("CosineAnnealingLR");
  check_same({cosine.begin(), cosine.begin() + 4},
             {0.30869655216069164, 0.14651732008484492, 0.03815262169760777, 0.0001});
  // PyTorch's schedules do not go for another group where they have an option for each.
  for (const char* name : {"LambdaLR", "MultiplicativeLR", "OneCycleLR", "CyclicLR", "SWALR",
                           "CosineAnnealingWarmRestarts"}) {
    CAPTURE(name);
    Run run(name);
    run.sgd.add_param_group({ones({2}).requires_grad_()}, {.lr = 0.5, .momentum = 0.9});
    CHECK_THROWS_WITH_AS(run.scheduler->step(), doctest::Contains("the optimizer has 3"),
                         ValueError);
    CHECK(run.scheduler->last_epoch() == 0);
  }
  Run run("StepLR");
  ReduceLROnPlateau plateau(run.sgd, {.min_lr = {0.01, 0.02}});
  run.sgd.add_param_group({ones({2}).requires_grad_()}, {});
  CHECK_THROWS_AS(plateau.step(1), ValueError);
}
