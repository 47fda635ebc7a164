// Forward hooks, and freezing by name.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <tuple>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/warning.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/nn/layer_table.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

class Double : public nn::Cloneable<Double> {
 public:
  Tensor forward(const Tensor& x) override { return x * 2; }
};

struct State {
  Tensor h, c;
};

/// Results of every type, from several inputs.
class Several : public nn::Cloneable<Several> {
 public:
  using Module::forward;
  std::tuple<Tensor, State> forward(const Tensor& a, double scale, Tensor b) {
    return {a * scale, {b, {}}};
  }
  std::vector<Tensor> forward(Tensor& a, const Tensor& b) { return {a, b, a + b}; }
  void forward(int steps, const Tensor& a) { seen = a * steps; }
  std::optional<std::pair<Tensor, int>> forward(const Tensor& a, bool there) {
    if (!there) return {};
    return std::pair(a, 7);
  }

  Tensor seen;
};

using Names = std::vector<std::string>;
using Tensors = std::span<const Tensor>;

/// The names of frozen parameters.
Names frozen(const nn::Module& net) {
  Names names;
  for (const auto& [name, p] : net.named_parameters())
    if (!p.requires_grad()) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("hooks see and replace inputs and outputs, in the order of registration") {
  Double net;
  CHECK(!net.has_hooks());
  std::vector<std::string> calls;
  auto first = net.register_forward_pre_hook([&](nn::Module& m, const Tensor& x) {
    CHECK(&m == &net);
    check_close(x, {1, 2});
    calls.push_back("pre");
    return x + 1;
  });
  auto second = net.register_forward_pre_hook([&](nn::Module&, std::span<Tensor> inputs) {
    REQUIRE(inputs.size() == 1);
    check_close(inputs[0], {2, 3});
    inputs[0] = inputs[0] * 10;
    calls.push_back("pre, of all");
  });
  auto third = net.register_forward_hook([&](nn::Module&, const Tensor& x, const Tensor& y) {
    check_close(x, {20, 30});
    check_close(y, {40, 60});
    calls.push_back("post");
  });
  auto fourth =
      net.register_forward_hook([&](nn::Module&, Tensors inputs, std::span<Tensor> outputs) {
        check_close(inputs[0], {20, 30});
        outputs[0] = outputs[0] + 1;
        calls.push_back("post, of all");
      });
  auto fifth = net.register_forward_hook(
      [](auto&, const auto& x, const auto& y) -> Tensor { return y - x; });
  CHECK(net.has_hooks());

  const Tensor x = tensor({1.0, 2.0});
  x.set_requires_grad();
  const Tensor y = net(x);
  check_close(y, {21, 31});
  CHECK(calls == Names{"pre", "pre, of all", "post", "post, of all"});
  y.backward(ones({2}));
  check_close(x.grad(), {10, 10});
  check_close(static_cast<nn::Module&>(net)(x), {21, 31});  // through the base class
  CHECK(calls.size() == 8);
  check_close(net.forward(x), {2, 4});  // past the hooks, as in PyTorch
  CHECK(calls.size() == 8);

  second.remove();
  second.remove();  // a second call has no effect
  third.remove();
  fourth.remove();
  check_close(net(x), {2, 3});
  first.remove();
  CHECK(net.has_hooks());
  fifth.remove();
  CHECK(!net.has_hooks());
  check_close(net(x), {2, 4});
}

TEST_CASE("hooks of modules with several inputs and outputs") {
  Several net;
  std::size_t inputs = 0, outputs = 0;
  net.register_forward_hook([&](nn::Module&, Tensors in, std::span<Tensor> out) {
    inputs = in.size();
    outputs = out.size();
    for (Tensor& t : out) t = t * 100;
  });
  auto first =
      net.register_forward_pre_hook([](nn::Module&, const Tensor& first) { return first + 1; });
  const Tensor a = tensor({1.0}), b = tensor({5.0});
  const auto [scaled, state] = net(a, 3, b);
  CHECK(inputs == 2);
  CHECK(outputs == 2);  // an undefined tensor does not count
  check_close(scaled, {600});
  check_close(state.h, {500});
  CHECK(!state.c.defined());

  Tensor lvalue = tensor({2.0});
  const std::vector<Tensor> three = net(lvalue, b);
  CHECK(outputs == 3);
  check_close(three[0], {300});
  check_close(three[2], {800});
  check_close(lvalue, {2});

  net(2, a);
  CHECK(inputs == 1);
  CHECK(outputs == 0);
  check_close(net.seen, {4});
  const auto pair = net(a, true);
  CHECK(outputs == 1);
  check_close(pair->first, {200});
  CHECK(pair->second == 7);
  CHECK(!net(a, false));
  CHECK(outputs == 0);

  first.remove();
  auto returns = net.register_forward_hook(
      [](nn::Module&, const Tensor&, const Tensor&) { return ones({1}); });
  CHECK_THROWS_WITH_AS(net(2, a), doctest::Contains("a hook of Several returned"), ValueError);
  returns.remove();

  nn::CrossEntropyLoss loss;
  loss.register_forward_hook([&](nn::Module&, Tensors in, Tensors) { inputs = in.size(); });
  loss(zeros({2, 3}), tensor({0, 2}));
  CHECK(inputs == 2);
  CHECK_THROWS_AS(net.register_forward_hook(nn::ForwardHook()), ValueError);
  CHECK_THROWS_AS(net.register_forward_pre_hook(nn::ForwardPreHook()), ValueError);
}

TEST_CASE("hooks may remove themselves and add others; handles outlive modules") {
  auto net = std::make_unique<Double>();
  int once = 0, later = 0;
  nn::ModuleHook self, other;
  self = net->register_forward_hook([&](nn::Module& m, const Tensor&, const Tensor&) {
    ++once;
    self.remove();
    other = m.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { ++later; });
  });
  for (int i = 0; i < 3; ++i) (*net)(ones({1}));
  CHECK(once == 1);
  CHECK(later == 2);

  // Moved with the module, not cloned.
  CHECK(!net->clone()->has_hooks());
  nn::Sequential list(std::move(*net));
  net.reset();
  list(ones({1}));
  CHECK(later == 3);
  CHECK(list[0].has_hooks());
  CHECK(!list.has_hooks());
  { nn::Sequential gone(std::move(list)); }
  other.remove();
  nn::ModuleHook().remove();
}

TEST_CASE("fused layers run one by one if they have hooks") {
  const auto check = [](nn::Sequential net, const Tensor& x) {
    const Tensor expected = net(x);
    for (std::size_t i = 0; i < net.size(); ++i) {
      CAPTURE(i);
      Tensor before, after;
      auto hook = net[i].register_forward_hook([&](nn::Module&, const Tensor& in, const Tensor& y) {
        before = in;
        after = y;
      });
      check_close(net(x), expected, 1e-5, 1e-6);
      hook.remove();
      REQUIRE(after.defined());
      check_close(net[i](before), after, 1e-5, 1e-6);
    }
  };
  check(nn::Sequential(nn::Linear(4, 5), nn::ReLU(), nn::Linear(5, 3), nn::GELU()),
        make_values({2, 4}, kFloat32, {}));
  check(nn::Sequential(nn::Conv2d(2, 3, 3), nn::BatchNorm2d(3), nn::ReLU(), nn::Conv2d(3, 2, 1),
                       nn::ReLU(), nn::BatchNorm2d(2), nn::ReLU()),
        make_values({2, 2, 5, 5}, kFloat32, {}));

  nn::BasicBlock block(3, 4, 2);
  const Tensor image = make_values({2, 3, 6, 6}, kFloat32, {});
  const auto plain = block.clone();
  int negative = 0;
  for (const char* norm : {"bn1", "bn2"})
    block.get_submodule(norm).register_forward_hook(
        [&](nn::Module&, const Tensor&, const Tensor& y) {
          negative += y.min().item<float>() < 0;
        });
  check_close(block(image), (*plain)(image), 1e-5, 1e-6);
  CHECK(negative == 2);  // the norm's own output, before the activation
  for (std::size_t i = 0; i < block.buffers().size(); ++i)
    check_close(block.buffers()[i], plain->buffers()[i], 1e-6);
}

TEST_CASE("hooks run for every module of every layer and model, and do not change results") {
  for (const Layer& layer : layer_table()) {
    CAPTURE(layer.name);
    const auto net = layer.make();
    net->eval();
    const Tensor x = make_input(layer, kFloat32, {});
    NoGradGuard guard;
    const Tensor expected = (*net)(x.clone());
    std::map<std::string, int> calls;
    for (const auto& [name, module] : net->named_modules()) {
      if (module->name() == "ModuleList") continue;  // which only holds others
      calls[name] = 0;
      module->register_forward_hook(
          [&, name = name](nn::Module&, const Tensor&, const Tensor&) { ++calls[name]; });
    }
    check_close((*net)(x.clone()), expected, 1e-5, 1e-5);
    for (const auto& [name, count] : calls) {
      CAPTURE(name);
      CHECK(count > 0);
    }
  }
}

TEST_CASE("a submodule by its path") {
  nn::ResNet18 net({.classes = 3, .width = 1});
  CHECK(&net.get_submodule("") == &net);
  CHECK(net.get_submodule("layer2.0.downsample.1").name() == "BatchNorm2d");
  CHECK_THROWS_WITH_AS(net.get_submodule("layer2.0.bn3"),
                       doctest::Contains("no module 'layer2.0.bn3'; the closest is 'layer2.0.bn1'"),
                       IndexError);
  CHECK_THROWS_AS(net.get_submodule("layer9"), IndexError);
}

TEST_CASE("freezing by name") {
  nn::LeNet5 net;
  CHECK(net.requires_grad_(false, "conv1") == 2);
  CHECK(frozen(net) == Names{"conv1.weight", "conv1.bias"});
  CHECK(net.requires_grad_(true, "*") == 10);
  CHECK(frozen(net).empty());
  CHECK(net.requires_grad_(false, "*.bias") == 5);
  CHECK(net.num_trainable_parameters() == 61706 - 6 - 16 - 120 - 84 - 10);
  CHECK(net.requires_grad_(true, "fc?.b*s") == 3);
  CHECK(frozen(net) == Names{"conv1.bias", "conv2.bias"});
  CHECK(net.requires_grad_(false, " fc1, fc*.weight ,fc1.bias,") == 4);
  CHECK(frozen(net) ==
        Names{"conv1.bias", "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc3.weight"});
  net.requires_grad_();

  nn::ResNet18 deep({.classes = 3, .width = 1});
  CHECK(deep.requires_grad_(false, "layer1") == 12);
  CHECK(deep.requires_grad_(false, "layer?.0.downsample") == 9);
  CHECK(deep.requires_grad_(true).num_trainable_parameters() == deep.num_parameters());
  CHECK(deep.requires_grad_(false, "bn?,*.bn?,*.downsample.1") == 2 * 20);  // every norm
  CHECK(deep.requires_grad_(false, "layer1*weight") == 8);

  // If any pattern matches nothing, nothing changes.
  CHECK_THROWS_WITH_AS(net.requires_grad_(false, "conv1,conv3"),
                       doctest::Contains("no parameter of LeNet5 matches 'conv3'; the closest "
                                         "names are conv1, conv2, "),
                       ValueError);
  for (const char* pattern :
       {"", " ,", "fc1.", "onv1", "conv", "fc1.weigh", "fc1.weight.x", "????"})
    CHECK_THROWS_AS(net.requires_grad_(false, pattern), ValueError);
  CHECK(frozen(net).empty());
}

TEST_CASE(
    "optimizers do not change parameters frozen between steps; norms still update unless in eval "
    "mode") {
  nn::Sequential net(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  const Tensor x = make_values({5, 3}, kFloat32, {});
  const auto step = [&] {
    sgd.zero_grad();
    net(x).sum().backward();
    sgd.step();
  };
  const auto values = [&](const char* name) {
    return net.state_dict().at(name).to_vector<double>();
  };
  step();
  net.requires_grad_(false, "0,1");
  CHECK(!net.parameters()[0].grad().defined());
  const auto weight = values("0.weight"), scale = values("1.weight"),
             mean = values("1.running_mean"), last = values("2.weight");
  step();
  check_equal(net.state_dict().at("0.weight"), from_vector(weight, {4, 3}).to(kFloat32));
  CHECK(values("1.weight") == scale);
  CHECK(values("1.running_mean") != mean);
  CHECK(values("2.weight") != last);
  net[1].eval();
  const auto still = values("1.running_mean");
  step();
  CHECK(values("1.running_mean") == still);
  net.requires_grad_(true, "0");
  step();
  CHECK(values("0.weight") != weight);
}

TEST_CASE("a scope lasts as long as the call, including hooks and errors") {
  Double model;
  std::vector<std::string> events;
  const auto scope = [&](const std::string& name) {
    return model.register_forward_scope([&events, name] {
      events.push_back("open " + name);
      return std::shared_ptr<void>(nullptr,
                                   [&events, name](void*) { events.push_back("close " + name); });
    });
  };
  nn::ModuleHook first = scope("a");
  scope("b");
  model.register_forward_pre_hook([&](nn::Module&, const Tensor& x) {
    events.push_back("before");
    if (x.numel() == 0) throw ValueError("empty");
  });
  model.register_forward_hook(
      [&](nn::Module&, const Tensor&, const Tensor&) { events.push_back("after"); });
  model(ones({1}));
  CHECK(events ==
        std::vector<std::string>{"open a", "open b", "before", "after", "close b", "close a"});
  events.clear();
  CHECK_THROWS_AS(model(ones({0})), ValueError);
  CHECK(events == std::vector<std::string>{"open a", "open b", "before", "close b", "close a"});
  first.remove();
  events.clear();
  model(ones({1}));
  CHECK(events.front() == "open b");
}

TEST_CASE("a call of forward() that leaves hooks out is noticed by the parts of the module") {
  std::vector<std::string> warnings;
  const auto before =
      set_warning_handler([&](std::string_view text) { warnings.emplace_back(text); });
  nn::LeNet5 net;
  const Tensor x = ones({1, 1, 28, 28});
  net.forward(x);
  int calls = 0;
  nn::ModuleHook hook =
      net.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { ++calls; });
  net(x);
  CHECK(calls == 1);
  CHECK(warnings.empty());
  net.forward(x);
  CHECK(calls == 1);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("[module] 'conv1' was called, but not as a part of a call of"));
  net.forward(x);
  CHECK(warnings.size() == 1);
  set_warning_handler(before);
}
