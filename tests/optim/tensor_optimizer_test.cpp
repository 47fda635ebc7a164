// Optimizers that users write.
#include "ferrite/optim/tensor_optimizer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

struct SignSGDOptions {
  double lr = 1e-3;
  double momentum = 0.9;

  static constexpr const char* kName = "SignSGD";
  optim::Fields fields() {
    return {{"lr", &lr, optim::kNonNegative}, {"momentum", &momentum, optim::kBelowOne}};
  }
};

class SignSGD final : public optim::TensorOptimizer<SignSGDOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(optim::ParameterStep& p, const SignSGDOptions&) override {
    const Tensor buffer = p.state("momentum_buffer");
    buffer.mul_(p.momentum).add_(p.grad);
    p.param.sub_(p.lr * sign(buffer));
  }
};

struct RowSGDOptions {
  double lr = 0.1;

  static constexpr const char* kName = "RowSGD";
  optim::Fields fields() { return {{"lr", &lr, optim::kNonNegative}}; }
};

/// Divides each row by the root of the mean square of its gradients so far: state of a shape of its
/// own, a step count, and a matrix product, which autocast must not round.
class RowSGD final : public optim::TensorOptimizer<RowSGDOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  Shape state_shape(std::string_view, const Tensor& p) const override { return {p.size(0), 1}; }
  void update(optim::ParameterStep& p, const RowSGDOptions&) override {
    CHECK(!p.momentum.defined());
    const Tensor squares = p.state("squares");
    squares.add_(
        (p.grad * p.grad)
            .mm(ones({p.grad.size(1), 1}, {.dtype = p.grad.dtype(), .device = p.grad.device()})));
    p.param.sub_(p.lr * p.grad / sqrt(squares / p.step()));
  }
};

/// Notes what it is given.
class PlainSGD final : public optim::TensorOptimizer<RowSGDOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;
  int calls = 0;
  Tensor seen;

 private:
  void update(optim::ParameterStep& p, const RowSGDOptions&) override {
    ++calls;
    seen = p.param;
    p.param.sub_(p.lr * p.grad);
  }
};

Tensor parameter(const Tensor& values, const Device& device = {}, DType dtype = kFloat32) {
  return values.to(device, dtype).clone().set_requires_grad();
}

const Tensor& start() {
  static const Tensor values = from_vector<float>({1, -2, 0.5, 3, -0.25, 4}, {2, 3});
  return values;
}
const Tensor& gradient() {
  static const Tensor values = from_vector<float>({0.5, 1, -2, 0.25, 0, -1}, {2, 3});
  return values;
}

}  // namespace

TEST_CASE("a step in tensors, in groups whose rates and momenta change") {
  for (const Device& device : test::optim_devices()) {
    const Tensor a = parameter(start(), device), b = parameter(start(), device);
    SignSGD optimizer({{{a}, {.lr = 0.5}}, {{b}, {.lr = 0.25, .momentum = 0}}});
    const auto step = [&](double factor) {
      for (const Tensor& p : {a, b}) p.set_grad((gradient() * factor).to(device));
      optimizer.step();
    };
    step(1);
    check_close(a, {0.5, -2.5, 1, 2.5, -0.25, 4.5});
    check_close(b, {0.75, -2.25, 0.75, 2.75, -0.25, 4.25});
    optimizer.set_lr(1);
    step(-0.5);  // the first buffer is 0.9 - 0.5 = 0.4 of the gradient
    check_close(a, {-0.5, -3.5, 2, 1.5, -0.25, 5.5});
    check_close(b, {1.75, -1.25, -0.25, 3.75, -0.25, 3.25});
    optimizer.set_momentum(0.25, 0);
    step(-0.25);  // 0.1 - 0.25
    check_close(a, {0.5, -2.5, 1, 2.5, -0.25, 4.5});
    CHECK(optimizer.momentum(1) == 0);
    CHECK_THROWS_WITH_AS(optimizer.set_momentum(1),
                         doctest::Contains("expected momentum to be in [0, 1)"), ValueError);
    check_equal(a.grad().cpu(), gradient() * -0.25);
    const StateDict dict = optimizer.state_dict();
    CHECK(dict.at("state.1.step").item<int>() == 3);
    CHECK(dict.at("param_groups.0.momentum").item<double>() == 0.25);
    CHECK(dict.at("state.0.momentum_buffer").device() == device);
  }
}

TEST_CASE("under a loss scaler: in place on the host, which skips steps; on copies elsewhere") {
  for (const Device& device : test::optim_devices()) {
    const Tensor p = parameter(start(), device);
    PlainSGD optimizer({p}, {.lr = 1});
    p.set_grad(gradient().to(device));
    optimizer.step({}, zeros({}));
    CHECK(optimizer.seen.is_same(p) == device.is_host());
    check_equal(p.detach().cpu(), start() - gradient());
    optimizer.step({}, ones({1}));
    CHECK(optimizer.calls == (device.is_host() ? 1 : 2));
    check_equal(p.detach().cpu(), start() - gradient());
    CHECK(optimizer.state_dict().at("state.0.step").item<int>() == 1);
  }
}

TEST_CASE("state of other shapes, step counts, no autocast") {
  const Tensor p = parameter(start());
  RowSGD optimizer({p});
  const auto step = [&](const Tensor& grad) {
    const AutocastGuard region({.dtype = kBFloat16});
    p.set_grad(grad);
    optimizer.step();
  };
  step(gradient());
  step(gradient() * 1.001);
  std::vector<double> expected = start().to_vector<double>(), squares(2);
  for (int n = 1; n <= 2; ++n) {
    const std::vector<double> g = (n == 1 ? gradient() : gradient() * 1.001).to_vector<double>();
    for (std::size_t i = 0; i < 6; ++i) squares[i / 3] += g[i] * g[i];
    for (std::size_t i = 0; i < 6; ++i) expected[i] -= 0.1 * g[i] / std::sqrt(squares[i / 3] / n);
  }
  check_close(p.detach(), expected, 1e-6, 1e-7);

  const Tensor q = parameter(start());
  RowSGD resumed({q});
  no_grad([&] { q.copy_(p); });
  StateDict dict = optimizer.state_dict();
  CHECK(dict.at("state.0.squares").shape() == Shape{2, 1});
  resumed.load_state_dict(dict);
  q.set_grad(gradient());
  resumed.step();
  step(gradient());
  check_equal(q.detach(), p.detach());
  dict.insert_or_assign("state.0.squares", zeros({2, 3}));
  CHECK_THROWS_WITH_AS(RowSGD({parameter(start())}).load_state_dict(dict),
                       doctest::Contains("state.0.squares: expected [2, 1], got [2, 3]"),
                       ShapeError);
}

TEST_CASE("16 bits, masters, loss scales and views: the float32 steps, rounded") {
  for (const DType half : {kFloat16, kBFloat16})
    for (const bool masters : {false, true}) {
      const Tensor wide = zeros({2, 6}, {.dtype = half});
      const Tensor view = wide.slice(1, 0, 6, 2).detach();  // not dense
      view.copy_(start());
      view.set_requires_grad();
      const Tensor exact = parameter(start());
      RowSGD a({view}), b({exact});
      if (masters) a.use_master_weights();
      const Tensor inv_scale = full({1}, 0.25), overflow = ones({1}), fine = zeros({});
      for (int n = 0; n < 3; ++n) {
        view.set_grad(full({2, 3}, INFINITY).to(half));
        a.step(inv_scale, overflow);
        view.set_grad((gradient() * 4).to(half));
        exact.set_grad(gradient());
        a.step(inv_scale, fine);
        b.step();
        if (n > 0 && !masters) break;  // rounded state and weights go other ways
        check_equal(view.detach(), exact.detach().to(half));
        CHECK(a.state_dict().at("state.0.step").item<int>() == n + 1);
      }
      if (masters) check_equal(a.master_parameters()[0].detach(), exact.detach());
      check_equal(wide.slice(1, 1, 6, 2), zeros({2, 3}, {.dtype = half}));
    }
}
