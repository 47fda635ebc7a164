// What surrounds a module's forward(): backward hooks, other tensors for a call, computed weights,
// and the path of an error.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/functional_call.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/nn/weight_norm.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Grads = std::span<Tensor>;
using ConstGrads = std::span<const Tensor>;

/// a * scale and b + 1.
class Pairwise : public nn::Cloneable<Pairwise> {
 public:
  using Module::forward;
  std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b) { return {a * scale, b + 1}; }
  double scale = 3;
};

float value(const Tensor& t) { return t.sum().item<float>(); }

}  // namespace

TEST_CASE("a full backward hook sees the gradients of inputs and outputs, and may change them") {
  Pairwise net;
  std::vector<float> in, out;
  auto hook = net.register_full_backward_hook([&](nn::Module& m, Grads inputs, ConstGrads outputs) {
    CHECK(&m == &net);
    for (const Tensor& g : inputs) in.push_back(g.defined() ? value(g) : -1);
    for (const Tensor& g : outputs) out.push_back(g.defined() ? value(g) : -1);
    if (inputs[0].defined()) inputs[0] = inputs[0] * 10;
  });
  const Tensor a = full({2}, 1).set_requires_grad(), b = full({2}, 1).set_requires_grad();
  SUBCASE("all gradients are known") {
    const auto [x, y] = net(a, b);
    (x.sum() + (y * 2).sum()).backward();
    CHECK(in == std::vector<float>{6, 4});
    CHECK(out == std::vector<float>{2, 4});
    CHECK(value(a.grad()) == 60);
    CHECK(value(b.grad()) == 4);
  }
  SUBCASE("an input that needs none, and an output that is not used") {
    const auto [x, y] = net(a, full({2}, 1));
    x.sum().backward();
    CHECK(in == std::vector<float>{6, -1});
    CHECK(out == std::vector<float>{2, -1});
  }
  SUBCASE("no input needs one: it runs when the outputs' gradients are known") {
    nn::Linear linear(2, 1);
    int calls = 0;
    linear.register_full_backward_hook([&](nn::Module&, Grads inputs, ConstGrads outputs) {
      ++calls;
      CHECK(inputs.size() == 1);
      CHECK(!inputs[0].defined());
      CHECK(value(outputs[0]) == 4);
    });
    linear(ones({4, 2})).sum().backward();
    CHECK(calls == 1);
    CHECK(value(linear.bias.grad()) == 4);
  }
  SUBCASE("off the tape, and after it was removed, it does not run") {
    {
      NoGradGuard guard;
      net(a, b);
    }
    hook.remove();
    net(a, b).first.sum().backward();
    CHECK(in.empty());
  }
  SUBCASE("a moved module is the one that it sees; a destroyed one is an error") {
    auto first = std::make_unique<nn::Linear>(2, 2);
    const nn::Module* seen = nullptr;
    first->register_full_backward_hook([&](nn::Module& m, Grads, ConstGrads) { seen = &m; });
    const Tensor y = (*first)(ones({1, 2}));
    auto second = std::make_unique<nn::Linear>(std::move(*first));
    first.reset();
    y.sum().backward(/*gradient=*/{}, /*retain_graph=*/true);
    CHECK(seen == second.get());
    second.reset();
    CHECK_THROWS_WITH_AS(y.sum().backward(), doctest::Contains("must live until backward"),
                         AutogradError);
  }
}

TEST_CASE("what backward hooks enclose is not changed in place") {
  const auto see = [](nn::Module& module) {
    module.register_full_backward_hook([](nn::Module&, Grads, ConstGrads) {});
  };
  const Tensor x = rand({3, 2}).set_requires_grad();
  const auto message = doctest::Contains("a module with backward hooks");
  nn::Sequential net(nn::Linear(2, 2), nn::ReLU({.inplace = true}));
  see(net[0]);
  CHECK_THROWS_WITH_AS(net(x), message, AutogradError);
  CHECK_THROWS_WITH_AS(net[0](x)[0].mul_(2), message, AutogradError);  // a view of a result
  nn::Sequential other(nn::Linear(2, 2), nn::ReLU({.inplace = true}));
  see(other[1]);  // whose forward() changes its input
  CHECK_THROWS_WITH_AS(other(x), message, AutogradError);
  NoGradGuard guard;
  CHECK(net(x).shape() == Shape{3, 2});
  CHECK(other(x).shape() == Shape{3, 2});
}

TEST_CASE("a backward hook has a place for each result, also if no gradient reaches any") {
  /// Its input may reach the loss by another way than its result.
  class Aside : public nn::Cloneable<Aside> {
   public:
    Tensor forward(const Tensor& x) override {
      aside = x * 2;
      return x * 3;
    }
    Tensor aside;
  };
  Aside net;
  std::vector<std::size_t> outputs;
  bool reached = true;
  net.register_full_backward_hook([&](nn::Module&, Grads, ConstGrads grads) {
    outputs.push_back(grads.size());
    reached = grads[0].defined();
  });
  const Tensor y = net(full({2}, 1).set_requires_grad()).sum(), aside = net.aside.sum();
  aside.backward({}, true);
  CHECK(!reached);
  y.backward({}, true);
  CHECK(reached);
  aside.backward();  // not with the gradients of the pass before
  CHECK(!reached);
  CHECK(outputs == std::vector<std::size_t>{1, 1, 1});
}

TEST_CASE("functional_call computes with other tensors, which get the gradients") {
  nn::Sequential net(nn::Linear(2, 2), nn::ReLU(), nn::Linear(2, 1));
  const Tensor weight = full({1, 2}, 2).set_requires_grad();
  StateDict other;
  other.insert("2.weight", weight);
  const Tensor x = rand({3, 2});
  const Tensor before = net(x).detach().clone();
  const Tensor y = nn::functional_call(net, other, x);
  y.sum().backward();
  const Tensor hidden = net[1](net[0](x));
  check_close(y, (hidden * 2).sum(1, true) + net[2].as<nn::Linear>().bias, 1e-6);
  check_close(weight.grad(), hidden.sum(0, true), 1e-6);
  CHECK(!net[2].as<nn::Linear>().weight.grad().defined());
  check_close(net(x), before, 0);

  StateDict wrong;
  wrong.insert("2.weigh", weight);
  CHECK_THROWS_WITH_AS(nn::functional_call(net, wrong, x),
                       doctest::Contains("the closest is '2.weight'"), ValueError);
  StateDict shape;
  shape.insert("0.bias", weight);
  CHECK_THROWS_WITH_AS(nn::functional_call(net, shape, x), doctest::Contains("for '0.bias'"),
                       ShapeError);
  CHECK_THROWS_AS(nn::functional_call(net, other, ones({3, 5})), ShapeError);
  check_close(net(x), before, 0);
}

TEST_CASE("weight_norm learns length and direction") {
  manual_seed(1);
  nn::Linear net(3, 2);
  const Tensor weight = net.weight.detach().clone();
  nn::utils::weight_norm(net);
  std::vector<std::string> names;
  for (const auto& [name, p] : net.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"bias", "weight_g", "weight_v"});
  CHECK(net.get_parameter("weight_g").shape() == Shape{2, 1});
  const Tensor x = rand({4, 3});
  net(x);
  check_close(net.weight, weight, 1e-6);

  net.get_parameter("weight_g").detach().mul_(2);
  net(x).sum().backward();
  check_close(net.weight, weight * 2, 1e-6);
  CHECK(net.get_parameter("weight_g").grad().defined());
  CHECK(net.get_parameter("weight_v").grad().defined());
  // The direction's gradient has no part along it.
  const Tensor v = net.get_parameter("weight_v");
  CHECK(std::abs(value(v.grad() * v.detach())) < 1e-5);

  const auto clone = net.clone();
  clone->get_parameter("weight_g").detach().zero_();
  (*clone)(x);
  check_close(clone->weight, zeros({2, 3}), 0);
  check_close(net.weight, weight * 2, 1e-6);

  nn::utils::remove_weight_norm(net);
  CHECK(net.state_dict().size() == 2);
  check_close(net.weight, weight * 2, 1e-6);
  CHECK(net.weight.is_leaf());
  CHECK(!net.has_hooks());

  auto conv = nn::utils::weight_norm(nn::Conv2d(2, 4, 3), "weight", std::nullopt);
  CHECK(conv.get_parameter("weight_g").dim() == 0);
  const auto whole = nn::utils::weight_norm(nn::Linear(3, 2), "weight", -1);  // as None in PyTorch
  CHECK(whole.get_parameter("weight_g").dim() == 0);
  CHECK_THROWS_AS(nn::utils::weight_norm(nn::Linear(3, 2), "weight", 2), IndexError);
  CHECK_THROWS_WITH_AS(nn::utils::weight_norm(conv, "wait"), doctest::Contains("got 'wait'"),
                       ValueError);
  // Fused layers see it too.
  nn::Sequential fused(std::move(conv), nn::ReLU());
  fused[0].get_parameter("weight_g").detach().zero_();
  fused[0].get_parameter("bias").detach().zero_();
  CHECK(value(fused(ones({1, 2, 3, 3}))) == 0);
}

TEST_CASE("weight_norm of short float16 directions") {
  auto net = nn::utils::weight_norm(nn::Linear(1, 1));
  net.to(kFloat16);
  net.get_parameter("weight_v").detach().fill_(0.002);
  net.get_parameter("weight_g").detach().fill_(1);
  net(tensor({{0.5}}, {.dtype = kFloat16})).sum().backward();
  CHECK(net.weight.dtype() == kFloat16);
  check_close(net.get_parameter("weight_g").grad(), {0.5}, 1e-3);
  CHECK(std::abs(value(net.get_parameter("weight_v").grad())) < 0.1);
}

TEST_CASE("spectral_norm divides by the largest singular value") {
  manual_seed(2);
  nn::Linear plain(3, 2, {.bias = false});
  plain.weight.detach().zero_();
  plain.weight.detach()[0][0].fill_(4);
  plain.weight.detach()[1][2].fill_(-2);
  auto net = nn::utils::spectral_norm(std::move(plain), {.n_power_iterations = 30});
  net(ones({1, 3}));
  CHECK(net.weight.to_vector<float>()[0] == doctest::Approx(1));
  CHECK(net.weight.to_vector<float>()[5] == doctest::Approx(-0.5));
  CHECK(net.state_dict().contains("weight_orig"));
  CHECK(net.state_dict().contains("weight_u"));
  net.eval();
  const std::vector<float> u = net.get_buffer("weight_u").to_vector<float>();
  net(ones({1, 3})).sum().backward();
  CHECK(net.get_buffer("weight_u").to_vector<float>() == u);  // no iterations in eval mode
  CHECK(net.get_parameter("weight_orig").grad().defined());
  nn::utils::remove_spectral_norm(net);
  CHECK(net.state_dict().size() == 1);

  const auto outputs = [](auto layer) {
    return nn::utils::spectral_norm(std::move(layer)).get_buffer("weight_u").shape();
  };
  CHECK(outputs(nn::ConvTranspose1d(2, 5, 3)) == Shape{5});
  CHECK(outputs(nn::ConvTranspose2d(2, 5, 3)) == Shape{5});
  CHECK(outputs(nn::ConvTranspose3d(2, 5, 3)) == Shape{5});
  CHECK(outputs(nn::Conv1d(2, 5, 3)) == Shape{5});
}

TEST_CASE("spectral_norm is near 1 from the first call on, and its columns are PyTorch's") {
  manual_seed(4);
  nn::Linear large(64, 48, {.bias = false});
  const auto net = nn::utils::spectral_norm(std::move(large));
  const float largest = linalg::svdvals(net.weight.detach()).max().item<float>();
  CHECK(largest > 0.99f);
  CHECK(largest < 1.1f);

  auto conv = nn::utils::spectral_norm(nn::Conv2d(2, 3, {4, 2}, {.bias = false}),
                                       {.n_power_iterations = 200, .dim = 2});
  // The rows are those of dimension 2, the columns the others in their order.
  const Tensor rows =
      conv.get_parameter("weight_orig").detach().permute({2, 0, 1, 3}).reshape({4, 12});
  const Tensor v = mv(rows.t(), conv.get_buffer("weight_u"));
  check_close(conv.get_buffer("weight_v"), v / norm(v), 1e-4, 1e-4);
}

TEST_CASE("only calls in training advance the iteration of spectral_norm") {
  manual_seed(3);
  auto net = nn::utils::spectral_norm(nn::Linear(3, 4));
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.to_vector<float>() == b.to_vector<float>();
  };
  const auto clone = net.clone();
  CHECK(same(clone->get_buffer("weight_u"), net.get_buffer("weight_u")));
  CHECK(same(clone->weight, net.weight));
  CHECK(!clone->weight.is_same(net.weight));
  const Tensor x = rand({2, 3});
  CHECK(same((*clone)(x), net(x)));

  // A checkpoint runs the layer twice, with one weight.
  autograd::checkpoint([&](const Tensor& t) { return net(t); }, x).sum().backward();
  (*clone)(x).sum().backward();
  CHECK(same(clone->get_buffer("weight_u"), net.get_buffer("weight_u")));
  CHECK(same(clone->get_parameter("weight_orig").grad(), net.get_parameter("weight_orig").grad()));

  const Tensor weight = net.weight.detach().clone();
  nn::utils::remove_spectral_norm(net);  // still in training mode
  check_close(net.weight, weight, 1e-6);
}

TEST_CASE("errors name the module in which they arose") {
  nn::ResNet18 net({.classes = 4, .width = 8});
  const auto message = [&](const Tensor& x) -> std::string {
    try {
      net(x);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(message(ones({2, 5, 32, 32})).starts_with("in conv1: [conv2d"));
  net.layer2[0].as<nn::BasicBlock>().conv2 = nn::Conv2d(7, 16, 3);
  CHECK(message(ones({2, 3, 32, 32})).starts_with("in layer2.0.conv2: [conv2d"));
  net.fc = nn::Linear(3, 4);
  net.layer2[0].as<nn::BasicBlock>().conv2 = nn::Conv2d(16, 16, 3, {.padding = 1});
  CHECK(message(ones({2, 3, 32, 32})).starts_with("in fc: ["));
  try {
    net(ones({2, 3, 32, 32}));
  } catch (const Error& error) {
    CHECK(error.path() == "fc");
  }
  nn::Linear alone(3, 4);
  CHECK_THROWS_WITH_AS(alone(ones({2, 5})), doctest::Contains("[linear"), ShapeError);
}

TEST_CASE("the layers of models are public, and children under torchvision's names") {
  nn::ResNet18 net({.classes = 4, .width = 8});
  std::vector<std::string> names;
  for (const auto& [name, child] : net.named_children()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"conv1", "bn1", "relu", "maxpool", "layer1", "layer2",
                                          "layer3", "layer4", "avgpool", "fc"});
  net.eval();
  const Tensor x = rand({2, 3, 64, 64});
  Tensor y = x;
  for (const auto& [name, child] : net.named_children()) {
    if (name == "fc") y = y.flatten(1);
    y = (*child)(y);
  }
  check_close(y, net(x), 1e-5);
  int calls = 0;
  net.layer1[0].as<nn::BasicBlock>().relu.register_forward_hook(
      [&](nn::Module&, const Tensor&, const Tensor&) { ++calls; });
  check_close(net(x), y, 1e-5);
  CHECK(calls == 2);  // after each convolution of the block
}
