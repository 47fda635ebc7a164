// Errors of backward: the module whose forward() they belong to, and anomaly mode.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "ferrite/autograd/anomaly.h"
#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/nn/functional_call.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

using namespace ferrite;

namespace {

/// sqrt(x) * weight: where x and weight are 0, the gradient of sqrt is 0 / 0.
class Root : public nn::Cloneable<Root> {
 public:
  Root() { register_parameter("weight", weight); }
  Tensor forward(const Tensor& x) override { return sqrt(x) * weight; }

  Tensor weight = zeros({2});
};

/// Calls a module that it does not register.
class CallsOther : public nn::Cloneable<CallsOther> {
 public:
  explicit CallsOther(nn::Module& other) : other_(&other) {}
  Tensor forward(const Tensor& x) override { return (*other_)(x); }

 private:
  nn::Module* other_;
};

class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("fc", fc);
    register_module("block", block);
  }
  Tensor forward(const Tensor& x) override { return block(fc(x)); }

  nn::Linear fc{2, 2};
  nn::Sequential block{nn::Identity(), Root()};
};

/// A net whose roots are of 0.
Net net_of_zeros() {
  Net net;
  NoGradGuard guard;
  net.fc.weight.zero_();
  net.fc.bias.zero_();
  return net;
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const AutogradError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("anomaly mode finds the backward that gives NaN, its module and its caller") {
  Net net = net_of_zeros();
  net(ones({1, 2})).sum().backward();
  CHECK(std::isnan(net.fc.weight.grad().to_vector<float>()[0]));
  {
    const autograd::DetectAnomalyGuard guard;
    CHECK(autograd::is_anomaly_enabled());
    const std::string message = message_of([&] { net(ones({1, 2})).sum().backward(); });
    INFO(message);
    CHECK(
        message.starts_with("in block.1: [sqrt] its backward gave NaN in the gradient of input 0, "
                            "float32[1, 2]"));
    CHECK(message.find("\nsqrt was called from\n  ") != std::string::npos);
    CHECK(message.find("/test_nn") != std::string::npos);
    CHECK(message.find("+0x") != std::string::npos);
  }
  CHECK(!autograd::is_anomaly_enabled());
  {
    const autograd::DetectAnomalyGuard guard(false);
    CHECK(message_of([&] { net(ones({1, 2})).sum().backward(); }) == "none");
  }
  autograd::set_detect_anomaly(true);
  CHECK(autograd::is_anomaly_check_nan_enabled());
  // Infinities are allowed, as are integers and gradients that are not there.
  const Tensor x = zeros({2}, {.requires_grad = true});
  CHECK(message_of([&] { sqrt(x).sum().backward(); }) == "none");
  CHECK(std::isinf(x.grad().to_vector<float>()[0]));
  autograd::set_detect_anomaly(false);
}

TEST_CASE("anomaly mode finds NaN in any gradient of a node, however it lies in memory") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto check = [&](const Tensor& good, const Tensor& bad) {
    const Tensor a = zeros({2}, {.dtype = kFloat32, .requires_grad = true}), b = zeros_like(a);
    const Tensor c = zeros({2}, {.dtype = kFloat64, .requires_grad = true});
    const Tensor out = zeros({2});
    autograd::record(out, "three", {a, b, c},
                     [=](const Tensor&, autograd::Needs) -> autograd::Gradients {
                       return {good, Tensor(), bad};
                     });
    return message_of([&] { out.sum().backward(); });
  };
  const autograd::DetectAnomalyGuard guard;
  const Tensor infinite = full({2}, -INFINITY), fine = zeros({2}, kFloat64);
  const Tensor wide = tensor({{1.0, nan}, {2.0, 3.0}}, kFloat64);
  const char* const in_last =
      "[three] its backward gave NaN in the gradient of input 2, float64[2]";
  CHECK(check(infinite, fine) == "none");
  CHECK(check(infinite, tensor({INFINITY, -INFINITY}, kFloat64)) == "none");
  CHECK(check(infinite, tensor({0.0, nan}, kFloat64)).find(in_last) != std::string::npos);
  CHECK(check(infinite, full({}, nan, kFloat64).expand({2})).find(in_last) != std::string::npos);
  CHECK(check(infinite, wide.select(1, 1)).find(in_last) != std::string::npos);
  CHECK(check(infinite, wide.select(1, 0)) == "none");  // NaN lies between its elements
  CHECK(check(full({2}, nan), fine).find("of input 0, float32[2]") != std::string::npos);
}

TEST_CASE("errors of backward name the module whose forward they belong to") {
  Net net = net_of_zeros();
  const auto again = [&](nn::Module& module) {
    const Tensor loss = module(ones({1, 2})).sum();
    return message_of([&] {
      loss.backward();
      loss.backward();
    });
  };
  // sum has saved nothing; mul is the first that has.
  CHECK(again(net).starts_with("in block.1: [mul] backward runs a second time"));
  SUBCASE("a part that is called by itself keeps its path") {
    CHECK(again(net.block).starts_with("in block.1: [mul]"));
  }
  SUBCASE("whatever was called first") {
    Net other = net_of_zeros();
    CHECK(again(other.block).starts_with("in 1: [mul]"));
    CHECK(again(other).starts_with("in block.1: [mul]"));
  }
  SUBCASE("a module that becomes a part of another gets a new one") {
    nn::Sequential outer(nn::Identity(), std::move(net));
    CHECK(again(outer).starts_with("in 1.block.1: [mul]"));
    outer.replace("1.block", nn::Sequential(Root()));
    CHECK(again(outer).starts_with("in 1.block.0: [mul]"));
  }
  SUBCASE("copies have those of the original") {
    CHECK(again(*net.clone()).starts_with("in block.1: [mul]"));
  }
  SUBCASE("assigned layers take the place of the old one") {
    nn::Sequential other{Root(), nn::Identity()};
    CHECK(again(other).starts_with("in 0: [mul]"));
    net.block = std::move(other);
    CHECK(again(net).starts_with("in block.0: [mul]"));
  }
  SUBCASE("modules that are registered nowhere have the path of their caller") {
    Root root;
    const Tensor loss = root(ones({2})).sum();
    loss.backward();
    CHECK(message_of([&] { loss.backward(); }).starts_with("[mul] backward"));
    Root unknown;
    nn::Sequential outer{nn::Identity(), CallsOther(unknown)};
    CHECK(again(outer).starts_with("in 1: [mul] backward"));
    nn::Sequential with_name{nn::Identity(), std::move(unknown)};
    CHECK(again(with_name).starts_with("in 1: [mul] backward"));
  }
  SUBCASE("gradients of gradients belong to the same module") {
    const Tensor x = ones({1, 2}, {.requires_grad = true});
    const Tensor y = square(net.block(x)).sum();
    const Tensor first[] = {y}, inputs[] = {x};
    const std::vector<Tensor> g = autograd::grad(first, inputs, {}, false, true);
    const Tensor loss = g[0].sum();
    const std::string message = message_of([&] {
      loss.backward();
      loss.backward();
    });
    CHECK(message.starts_with("in block.1: ["));
  }
  SUBCASE("outside of modules there is no path") {
    const Tensor x = ones({2}, {.requires_grad = true});
    const Tensor loss = (x * x).sum();
    loss.backward();
    CHECK(message_of([&] { loss.backward(); }).starts_with("[mul] backward"));
  }
}
