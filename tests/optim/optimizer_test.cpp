#include "ferrite/optim/optimizer.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/adaptive.h"
#include "ferrite/optim/rmsprop.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

struct Case {
  std::string name;
  Make make;
};

template <class O, class Options>
Make make(const Options& options) {
  return [options](std::vector<Tensor> p) { return std::make_unique<O>(std::move(p), options); };
}

/// Every combination of options in tests/golden/record_optim.py.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int bits = 0; bits < 32; ++bits) {
    const bool m = bits & 16, d = bits & 8, w = bits & 4, n = bits & 2, x = bits & 1;
    if (n && (!m || d)) continue;
    cases.push_back({fmt::format("sgd{:d}{:d}{:d}{:d}{:d}", m, d, w, n, x),
                     make<optim::SGD>(optim::SGDOptions{.lr = 0.1,
                                                        .momentum = 0.9 * m,
                                                        .dampening = 0.1 * d,
                                                        .weight_decay = 0.01 * w,
                                                        .nesterov = n,
                                                        .maximize = x})});
  }
  for (int bits = 0; bits < 8; ++bits) {
    const bool w = bits & 4, a = bits & 2, x = bits & 1;
    const std::string suffix = fmt::format("{:d}{:d}{:d}", w, a, x);
    cases.push_back({"adam" + suffix, make<optim::Adam>(optim::AdamOptions{.lr = 0.05,
                                                                           .betas = {0.8, 0.95},
                                                                           .weight_decay = 0.01 * w,
                                                                           .amsgrad = a,
                                                                           .maximize = x})});
    cases.push_back({"adamw" + suffix,
                     make<optim::AdamW>(optim::AdamWOptions{
                         .lr = 0.05, .weight_decay = 0.01 * w, .amsgrad = a, .maximize = x})});
    cases.push_back(
        {"rmsprop" + suffix, make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.02,
                                                                        .alpha = 0.9,
                                                                        .weight_decay = 0.01 * x,
                                                                        .momentum = 0.9 * w,
                                                                        .centered = a})});
  }
  for (int bits = 0; bits < 4; ++bits) {
    const bool w = bits & 2, x = bits & 1;
    const auto add = [&]<class O, class Options>(const char* name, Options options) {
      if constexpr (requires { options.weight_decay; }) options.weight_decay = 0.01 * w;
      if constexpr (requires { options.betas; }) options.betas = {0.8, 0.95};
      if constexpr (requires { options.decoupled_weight_decay; })
        options.decoupled_weight_decay = x;
      options.maximize = x;
      cases.push_back({fmt::format("{}{:d}{:d}", name, w, x), make<O>(options)});
    };
    add.operator()<optim::Adagrad>(
        "adagrad", optim::AdagradOptions{
                       .lr = 0.1, .lr_decay = 0.1 * w, .initial_accumulator_value = 0.1 * x});
    add.operator()<optim::Adadelta>("adadelta", optim::AdadeltaOptions{.lr = 0.5, .rho = 0.8});
    add.operator()<optim::Adamax>("adamax", optim::AdamaxOptions{.lr = 0.05});
    add.operator()<optim::NAdam>("nadam", optim::NAdamOptions{.lr = 0.05});
    add.operator()<optim::RAdam>("radam", optim::RAdamOptions{.lr = 0.05});
    add.operator()<optim::ASGD>(
        "asgd", optim::ASGDOptions{.lr = 0.05, .lambd = 0.01 + 0.1 * w, .t0 = 5.0 * x});
    optim::RpropOptions rprop{.lr = 0.05};
    if (w) rprop.step_sizes = {1e-3, 0.2};
    add.operator()<optim::Rprop>("rprop", rprop);
  }
  return cases;
}

const test::Golden& golden() {
  static const test::Golden g("optim");
  return g;
}

struct Run {
  std::vector<Tensor> params;
  std::unique_ptr<optim::Optimizer> optimizer;

  Run(const Make& make, const Device& device = {}, DType dtype = kFloat64) {
    for (const char* name : {"start0", "start1"}) {
      params.push_back(golden().get("input", name).to(device, dtype).clone());
      params.back().set_requires_grad();
    }
    optimizer = make(params);
  }

  void step(int number) {
    for (int i = 0; i < 2; ++i) {
      const Tensor& p = params[static_cast<std::size_t>(i)];
      const Tensor grads = golden().get("input", fmt::format("grads{}", i));
      p.set_grad(i == 1 && number == 7 ? Tensor() : grads[number].to(p.device(), p.dtype()));
    }
    optimizer->step();
  }
  void steps(int from, int to) {
    for (int i = from; i < to; ++i) step(i);
  }
  void check(const std::string& name, double rtol, double atol = 0) const {
    CAPTURE(name);
    check_close(params[0], golden().get(name, "p0"), rtol, atol);
    check_close(params[1], golden().get(name, "p1"), rtol, atol);
  }
};

Tensor parameter(const Tensor& values) {
  values.set_requires_grad();
  return values;
}

}  // namespace

TEST_CASE("optimizers follow PyTorch through 20 steps, in every combination of options") {
  for (const Case& c : all_cases()) {
    Run run(c.make);
    run.steps(0, 20);
    run.check(c.name, 1e-12, 1e-14);
  }
}

TEST_CASE("float32, on every kind of device") {
  for (const Device& device : test::optim_devices())
    for (const Case& c : all_cases()) {
      CAPTURE(device.str());
      Run run(c.make, device, kFloat32);
      run.steps(0, 20);
      // Twenty steps of rounding, relative to what the parameters were made of (about 1).
      run.check(c.name, 1e-5, 5e-6);
    }
}

TEST_CASE("16-bit parameters are updated in float") {
  for (DType dtype : {kFloat16, kBFloat16})
    for (const Case& c : all_cases()) {
      CAPTURE(c.name);
      Run half(c.make, {}, dtype), reference(c.make);
      for (std::size_t i = 0; i < 2; ++i)
        no_grad([&] { reference.params[i].copy_(half.params[i]); });
      half.step(0);
      for (std::size_t i = 0; i < 2; ++i)
        reference.params[i].set_grad(half.params[i].grad().to(kFloat64));
      reference.optimizer->step();
      for (std::size_t i = 0; i < 2; ++i)
        check_close(half.params[i], reference.params[i], test::rounding_of(dtype), 1e-4);
    }
}

TEST_CASE("a run resumed from a checkpoint ends with the same bits") {
  const auto path = std::filesystem::temp_directory_path() / "ferrite_optimizer_test.safetensors";
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    Run whole(c.make), first(c.make), second(c.make);
    whole.optimizer->set_lr(0.03);
    first.optimizer->set_lr(0.03);
    whole.steps(0, 20);
    first.steps(0, 9);
    save(first.optimizer->state_dict(), path);
    for (std::size_t i = 0; i < 2; ++i) no_grad([&] { second.params[i].copy_(first.params[i]); });
    second.optimizer->load_state_dict(load(path));
    CHECK(second.optimizer->lr() == 0.03);
    second.steps(9, 20);
    for (std::size_t i = 0; i < 2; ++i) check_equal(second.params[i], whole.params[i]);
  }
  std::filesystem::remove(path);
}

TEST_CASE("state dicts are named as PyTorch's, and PyTorch's SGD state, without steps, loads") {
  Run run(make<optim::Adam>(optim::AdamOptions{}));
  run.step(0);
  run.step(7);  // without a gradient for the second
  const StateDict dict = run.optimizer->state_dict();
  CHECK(dict.at("state.0.step").item<int>() == 2);
  CHECK(dict.at("state.1.step").item<int>() == 1);
  CHECK(dict.at("state.0.exp_avg").shape() == Shape{3, 4});
  CHECK(dict.contains("state.1.exp_avg_sq"));
  CHECK(!dict.contains("state.0.max_exp_avg_sq"));
  CHECK(dict.at("param_groups.0.betas.1").item<double>() == 0.999);
  CHECK(dict.at("param_groups.0.params").to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 1});

  const Make sgd = make<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  Run a(sgd), b(sgd);
  a.steps(0, 3);
  StateDict without = a.optimizer->state_dict();
  for (const char* name : {"state.0.step", "state.1.step"}) REQUIRE(without.erase(name));
  for (std::size_t i = 0; i < 2; ++i) no_grad([&] { b.params[i].copy_(a.params[i]); });
  b.optimizer->load_state_dict(without);
  a.step(3);
  b.step(3);
  for (std::size_t i = 0; i < 2; ++i) check_equal(b.params[i], a.params[i]);
}

TEST_CASE("state dicts that do not fit change nothing") {
  const Make adam = make<optim::Adam>(optim::AdamOptions{});
  Run run(adam), other(adam);
  run.step(0);
  other.step(0);
  const auto rejects = [&]<class E>(StateDict dict, const char* message) {
    dict.insert_or_assign("param_groups.0.lr", tensor(5.0));
    CHECK_THROWS_WITH_AS(run.optimizer->load_state_dict(dict), doctest::Contains(message), E);
    CHECK(run.optimizer->lr() == 1e-3);
  };
  StateDict dict = other.optimizer->state_dict();
  dict.insert_or_assign("state.1.exp_avg_sq", zeros({4}));
  rejects.operator()<ShapeError>(dict, "state.1.exp_avg_sq: expected [5], got [4]");
  dict = other.optimizer->state_dict();
  dict.erase("param_groups.0.eps");
  rejects.operator()<ValueError>(dict,
                                 "lacks param_groups.0.eps: is it the state of another optimizer?");
  dict = other.optimizer->state_dict();
  dict.insert_or_assign("param_groups.0.params", zeros({3}, {.dtype = kInt64}));
  rejects.operator()<ValueError>(dict, "2 parameters, in the dict it has 3");
  dict = other.optimizer->state_dict();
  dict.insert("param_groups.1.params", zeros({0}, {.dtype = kInt64}));
  rejects.operator()<ValueError>(dict, "an optimizer of 1 groups of parameters, the dict has 2");
  for (const double steps : {-1.0, 0x1p32, static_cast<double>(NAN)}) {
    dict = other.optimizer->state_dict();
    dict.insert_or_assign("state.1.step", tensor(steps));
    rejects.operator()<ValueError>(dict, "state.1.step: expected a number from 0 to 2^32 - 1");
  }
}

TEST_CASE("loading writes into the state there is, and a dict without resets it") {
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    CAPTURE(name);
    const Tensor p = parameter(ones({3})), q = parameter(ones({3}));
    const auto used = make({p}), fresh = make({q});
    const StateDict empty = fresh->state_dict();
    const auto step = [](const Tensor& t, optim::Optimizer& optimizer) {
      t.set_grad(tensor({1.0F, -2.0F, 0.5F}));
      optimizer.step();
    };
    step(p, *used);
    step(p, *used);
    const StateDict before = used->state_dict();
    used->load_state_dict(empty);
    for (const auto& [key, value] : used->state_dict())
      if (key.starts_with("state.")) CHECK(value.shares_storage(before.at(key)));
    no_grad([&] { p.copy_(q); });
    step(p, *used);
    step(q, *fresh);
    check_equal(p.detach(), q.detach());
  }
}

TEST_CASE("an optimizer loads its own state dict, with what was changed in it") {
  const auto check_state = [](const StateDict& dict, const StateDict& expected) {
    CHECK(dict.size() == expected.size());
    for (const auto& [name, t] : expected) {
      CAPTURE(name);
      if (name != "param_groups.0.lr") check_equal(dict.at(name), t);
    }
  };
  for (const Device& device : test::optim_devices())
    for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers())
      for (const bool has_master : {false, true}) {
        CAPTURE(device.str());
        CAPTURE(name);
        CAPTURE(has_master);
        const DType dtype = has_master ? kFloat16 : kFloat32;
        const Tensor p = parameter(ones({3}).to(device, dtype));
        const auto optimizer = make({p});
        if (has_master) optimizer->use_master_weights();
        const auto step = [&] {
          p.set_grad(tensor({1.0F, -2.0F, 0.5F}).to(device, dtype));
          optimizer->step();
        };
        step();
        step();
        const Tensor weights = p.detach().clone();
        StateDict dict = optimizer->state_dict();
        const StateDict before = dict.clone();
        CHECK(dict.contains("state.0.master") == has_master);
        dict.insert_or_assign("param_groups.0.lr", tensor(0.125));
        optimizer->load_state_dict(dict);
        CHECK(optimizer->lr() == 0.125);
        check_state(optimizer->state_dict(), before);
        check_equal(p.detach(), weights);
        CHECK(dict.at("state.0.step").item<int>() == 2);
      }
  // One entry that is missing is reset, and the others stay.
  const Tensor p = parameter(ones({3}));
  optim::Adam adam({p});
  p.set_grad(tensor({1.0F, -2.0F, 0.5F}));
  adam.step();
  StateDict dict = adam.state_dict();
  StateDict expected = dict.clone();
  REQUIRE(dict.erase("state.0.exp_avg_sq"));
  expected.insert_or_assign("state.0.exp_avg_sq", zeros({3}));
  adam.load_state_dict(dict);
  check_state(adam.state_dict(), expected);
}

TEST_CASE("groups have options of their own; the learning rate is settable") {
  const Tensor a = parameter(ones({2})), b = parameter(ones({2}));
  optim::SGD sgd({{{a}, {.lr = 0.5}}, {{b}, {.lr = 0.25, .weight_decay = 1}}});
  const auto step = [&] {
    a.set_grad(ones({2}));
    b.set_grad(ones({2}));
    sgd.step();
  };
  step();
  check_close(a, {0.5, 0.5});
  check_close(b, {0.5, 0.5});  // 1 - 0.25 (1 + 1)
  CHECK(sgd.num_groups() == 2);
  CHECK(sgd.lr(1) == 0.25);
  sgd.set_lr(0.1, 1);
  step();
  check_close(a, {0, 0});
  check_close(b, {0.35, 0.35});
  sgd.options(0).lr = 1;
  step();
  check_close(a, {-1, -1});
  sgd.set_lr(0);
  const Tensor c = parameter(ones({1}));
  sgd.add_param_group({c}, {.lr = 1});
  c.set_grad(ones({1}));
  step();
  check_close(a, {-1, -1});
  check_close(c, zeros({1}));
  CHECK(sgd.parameters().size() == 3);
  CHECK_THROWS_AS(sgd.lr(3), IndexError);
  CHECK_THROWS_AS(sgd.set_lr(-1), ValueError);
}

TEST_CASE("gradients are dropped, or zeroed in place when asked") {
  const Tensor a = parameter(ones({2})), b = parameter(ones({2}));
  optim::Adam adam({a, b});
  a.set_grad(ones({2}));
  const Tensor grad = a.grad();
  adam.zero_grad(false);
  CHECK(a.grad().is_same(grad));
  check_close(grad, {0, 0});
  CHECK(!b.grad().defined());
  adam.zero_grad();
  CHECK(!a.grad().defined());
}

TEST_CASE("a loss scaler's factor and overflow flag are read on the device") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    for (const char* device : {"cpu", "cpu:0"}) {
      Run plain(c.make, device, kFloat32), scaled(c.make, device, kFloat32);
      const Tensor inv_scale = full({}, 0.25, {.device = device});
      for (int n = 0; n < 6; ++n) {
        // Overflows come first, in the first step already, and leave no trace.
        if (n % 2 == 0) {
          for (const Tensor& p : scaled.params) p.set_grad(full_like(p, INFINITY).detach());
          scaled.optimizer->step(inv_scale, ones({}, {.device = device}));
        }
        plain.step(n);
        for (std::size_t i = 0; i < 2; ++i) scaled.params[i].set_grad(plain.params[i].grad() * 4);
        scaled.optimizer->step(inv_scale, zeros({1}, {.device = device}));
      }
      for (std::size_t i = 0; i < 2; ++i) check_equal(scaled.params[i], plain.params[i]);
    }
  }
}

TEST_CASE("layouts: channels-last, views, gradients laid out otherwise; state follows") {
  const Make adam = make<optim::Adam>(optim::AdamOptions{.lr = 0.1, .weight_decay = 0.1});
  const Shape shape{3, 4, 5, 2};
  manual_seed(1);
  const Tensor values = randn(shape), grads = randn(shape);
  const auto run = [&](const Tensor& p, const Tensor& g) {
    parameter(p);
    auto optimizer = adam({p});
    for (int i = 0; i < 3; ++i) {
      p.set_grad(g);
      optimizer->step();
      if (i == 1 && p.is_contiguous()) p.set_data(p.detach().to(kChannelsLast));
    }
    return p.detach();
  };
  const Tensor expected = parameter(values.clone());
  auto optimizer = adam({expected});
  for (int i = 0; i < 3; ++i) {
    expected.set_grad(grads);
    optimizer->step();
  }
  check_equal(run(values.to(kChannelsLast), grads), expected.detach());
  check_equal(run(values.clone(), grads.to(kChannelsLast)), expected.detach());
  const Tensor wide = zeros({3, 4, 5, 4});
  const Tensor view = wide.slice(3, 0, 4, 2).detach();
  view.copy_(values);
  check_equal(run(view, grads), expected.detach());
  check_close(wide.select(3, 1), zeros({3, 4, 5}));
}

TEST_CASE("large parameters: the same bits with every number of threads") {
  const int threads = num_threads();
  std::vector<Tensor> results;
  for (int count : {1, 3}) {
    set_num_threads(count);
    manual_seed(2);
    std::vector<Tensor> params;
    for (std::int64_t n : {70001, 1, 0, 513, 100000}) params.push_back(parameter(randn({n})));
    optim::AdamW adamw(params);
    for (const Tensor& p : params) p.set_grad(randn(p.shape()));
    adamw.step();
    adamw.step();
    for (const Tensor& p : params) results.push_back(p.detach());
  }
  set_num_threads(threads);
  for (std::size_t i = 0; i < 5; ++i) check_equal(results[i], results[i + 5]);
}

TEST_CASE("parameters moved after the first step") {
  Run moved(make<optim::Adam>(optim::AdamOptions{})),
      stayed(make<optim::Adam>(optim::AdamOptions{}));
  moved.step(0);
  stayed.step(0);
  for (const Tensor& p : moved.params) p.set_data(p.detach().to("cpu:2"));
  moved.step(1);
  stayed.step(1);
  CHECK(moved.params[0].device() == Device("cpu:2"));
  for (std::size_t i = 0; i < 2; ++i) check_equal(moved.params[i], stayed.params[i]);
}

TEST_CASE("master copies take the place of parameters") {
  const Make make_adam = make<optim::Adam>(optim::AdamOptions{.lr = 0.1});
  Run run(make_adam), stayed(make_adam, {}, kFloat64);
  run.step(0);
  stayed.step(0);
  std::size_t i = 0;
  run.optimizer->replace_parameters([&](const Tensor& p) {
    return run.params[i++] = parameter(p.detach().to(kFloat32).clone());
  });
  run.steps(1, 4);
  stayed.steps(1, 4);
  CHECK(run.optimizer->state_dict().at("state.0.exp_avg").dtype() == kFloat32);
  for (i = 0; i < 2; ++i) check_close(run.params[i], stayed.params[i], 1e-5, 1e-6);
  CHECK_THROWS_AS(run.optimizer->replace_parameters([](const Tensor&) { return ones({7}); }),
                  ShapeError);
  CHECK(run.optimizer->parameters()[0].is_same(run.params[0]));
}

TEST_CASE("bad arguments") {
  const Tensor p = parameter(ones({2}));
  CHECK_THROWS_AS(optim::SGD({p}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(optim::SGD({p}, {.nesterov = true}), ValueError);
  CHECK_THROWS_AS(optim::SGD({p}, {.momentum = -1}), ValueError);
  CHECK_THROWS_AS(optim::Adam({p}, {.betas = {1, 0.9}}), ValueError);
  CHECK_THROWS_AS(optim::AdamW({p}, {.weight_decay = -1}), ValueError);
  CHECK_THROWS_AS(optim::RMSprop({p}, {.alpha = -1}), ValueError);
  CHECK_THROWS_AS(optim::Adagrad({p}, 0.1, -1), ValueError);
  CHECK_THROWS_AS(optim::Adadelta({p}, {.rho = 1.5}), ValueError);
  CHECK_THROWS_AS(optim::Rprop({p}, {.etas = {1.1, 1.2}}), ValueError);
  CHECK_THROWS_AS(optim::Rprop({p}, {.step_sizes = {1, 0.5}}), ValueError);
  CHECK_THROWS_WITH_AS(optim::SGD({p, p}), doctest::Contains("in the optimizer already"),
                       ValueError);
  CHECK_THROWS_AS(optim::SGD({p * 2}), ValueError);
  CHECK_THROWS_AS(optim::SGD({zeros({2}, {.dtype = kInt64})}), ValueError);
  CHECK_THROWS_AS(optim::SGD({Tensor()}), ValueError);
  const std::vector<Tensor> none;
  CHECK_THROWS_WITH_AS(optim::SGD(none, {.lr = 0.1}), doctest::Contains("nothing to optimize"),
                       ValueError);
  CHECK_THROWS_AS(optim::Adam(none, {}), ValueError);
  CHECK_THROWS_AS(optim::AdamW(none, {}), ValueError);
  CHECK_THROWS_AS(optim::RMSprop(none, {}), ValueError);
  CHECK_THROWS_AS(optim::SGD(std::vector<optim::SGD::Group>{}), ValueError);
  CHECK_THROWS_AS(optim::SGD(std::vector<optim::SGD::Group>{{none, {}}}), ValueError);
  // One group of several may be empty: what is not to decay, in a network without biases.
  CHECK(optim::SGD(std::vector<optim::SGD::Group>{{none, {}}, {{p}, {}}}).num_groups() == 2);
  optim::SGD sgd({p});
  CHECK_THROWS_AS(sgd.add_param_group({p}, {}), ValueError);
  CHECK(sgd.num_groups() == 1);
  CHECK_THROWS_AS(sgd.step(ones({2}), {}), ValueError);
  CHECK_THROWS_AS(sgd.step({}, ones({}, {.dtype = kFloat64})), ValueError);
}

TEST_CASE("a step counts as a change in place of what the tape saved") {
  const Tensor p = parameter(full({2}, 3.0));
  optim::SGD sgd({p});
  const Tensor out = p * p;
  p.set_grad(ones({2}));
  sgd.step();
  CHECK_THROWS_WITH_AS(out.backward(ones({2})), doctest::Contains("SGD"), AutogradError);
}
