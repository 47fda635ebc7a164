// LBFGS against PyTorch's results on Rosenbrock's function, and all that differs from optimizers of
// one gradient a step.
#include "ferrite/optim/lbfgs.h"

#include <doctest/doctest.h>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

/// What tests/golden/record_optim.py minimizes.
struct Rosenbrock {
  std::vector<Tensor> params;
  bool negated;
  int calls = 0;

  explicit Rosenbrock(bool negated = false, const Device& device = {}, DType dtype = kFloat64)
      : params{tensor({-1.2, 1.0, 0.5}, kFloat64), tensor({0.3, 2.0}, kFloat64).reshape({2, 1})},
        negated(negated) {
    for (Tensor& p : params) p = p.to(device, dtype).set_requires_grad();
  }
  Tensor loss() {
    ++calls;
    for (const Tensor& p : params) p.set_grad(Tensor());
    const Tensor x = cat({params[0], params[1].reshape({-1})});
    const Tensor from = x.narrow(0, 0, 4), to = x.narrow(0, 1, 4);
    const Tensor loss = (square(to - square(from)) * 100 + square(1 - from)).sum();
    const Tensor result = negated ? neg(loss) : loss;
    result.backward();
    return result;
  }
  std::function<Tensor()> closure() {
    return [this] { return loss(); };
  }
};

struct Case {
  const char* name;
  optim::LBFGSOptions options;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"lbfgs", {.lr = 0.02, .max_iter = 7, .history_size = 3}},
      {"lbfgs_wolfe", {.max_iter = 6, .line_search_fn = "strong_wolfe", .maximize = true}},
      {"lbfgs_history",
       {.lr = 0.5, .max_iter = 8, .history_size = 2, .line_search_fn = "strong_wolfe"}},
      {"lbfgs_eval", {.max_iter = 9, .max_eval = 5, .line_search_fn = "strong_wolfe"}},
  };
  return all;
}

}  // namespace

TEST_CASE("LBFGS follows PyTorch, with and without a line search") {
  const test::Golden golden("optim");
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    Rosenbrock problem(c.options.maximize);
    optim::LBFGS lbfgs(problem.params, c.options);
    for (int i = 0; i < 4; ++i)
      check_close(lbfgs.step(problem.closure()).detach(), golden.get(c.name, "losses")[i], 1e-9);
    CHECK(problem.calls == golden.get(c.name, "calls").item<int>());
    for (int i = 0; i < 2; ++i)
      check_close(problem.params[static_cast<std::size_t>(i)].detach(),
                  golden.get(c.name, i == 0 ? "p0" : "p1"), 1e-8);
  }
}

TEST_CASE("LBFGS finds the minimum, on every kind of device") {
  for (const Device& device : test::optim_devices()) {
    Rosenbrock problem(false, device, kFloat32);
    optim::LBFGS lbfgs(problem.params, 1, 100);
    lbfgs.options().line_search_fn = "strong_wolfe";
    for (int i = 0; i < 3; ++i) lbfgs.step(problem.closure());
    CHECK(problem.loss().item<double>() < 4);
    CHECK(problem.params[0].device() == device);
  }
}

TEST_CASE("a run of LBFGS resumed from its state dict ends with the same bits") {
  for (const Case& c : cases()) {
    Rosenbrock whole(c.options.maximize), part(c.options.maximize);
    optim::LBFGS a(whole.params, c.options), b(part.params, c.options);
    a.step(whole.closure());
    a.step(whole.closure());
    for (std::size_t i = 0; i < 2; ++i) no_grad([&] { part.params[i].copy_(whole.params[i]); });
    const StateDict dict = a.state_dict();
    CHECK(dict.at("state.0.func_evals").item<int>() == whole.calls);
    CHECK(dict.at("state.0.old_dirs.0").shape() == Shape{5});
    b.load_state_dict(dict);
    a.step(whole.closure());
    b.step(part.closure());
    for (std::size_t i = 0; i < 2; ++i)
      check_equal(part.params[i].detach(), whole.params[i].detach());

    StateDict wrong = dict;
    wrong.insert_or_assign("state.0.d", zeros({4}));
    CHECK_THROWS_WITH_AS(b.load_state_dict(wrong), doctest::Contains("state.0.d: expected [5]"),
                         ShapeError);
    wrong.erase("state.0.d");
    CHECK_THROWS_AS(b.load_state_dict(wrong), ValueError);
  }
}

TEST_CASE("every optimizer takes a closure; LBFGS takes nothing else") {
  Rosenbrock problem;
  optim::SGD sgd(problem.params, 1e-4);
  const double first = sgd.step(problem.closure()).item<double>();
  CHECK(problem.calls == 1);
  CHECK(problem.loss().item<double>() < first);

  optim::LBFGS lbfgs(problem.params);
  CHECK_THROWS_WITH_AS(lbfgs.step(), doctest::Contains("a step needs the closure"), ValueError);
  CHECK_THROWS_AS(lbfgs.step([] { return Tensor(); }), ValueError);
  CHECK_THROWS_AS(optim::LBFGS(problem.params, {.line_search_fn = "wolfe"}), ValueError);
  CHECK_THROWS_AS(optim::LBFGS({zeros({2}, kFloat16).set_requires_grad()}), ValueError);
  optim::LBFGS two({{{problem.params[0]}, {}}, {{problem.params[1]}, {}}});
  CHECK_THROWS_WITH_AS(two.step(problem.closure()), doctest::Contains("one group"), ValueError);
  const Tensor none = zeros({0}).set_requires_grad();
  optim::LBFGS nothing({none});
  CHECK(nothing.step([&] { return none.sum(); }).item<double>() == 0);
}
