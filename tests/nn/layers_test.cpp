#include "ferrite/nn/layers.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;

namespace {

const test::Golden& golden() {
  static const test::Golden g("nn");
  return g;
}

/// Loads the recorded state and checks the output and all gradients.
template <class M>
void check(const std::string& name, M&& module) {
  CAPTURE(name);
  module.to(kFloat64);
  StateDict state;
  for (const auto& [key, t] : module.state_dict())
    state.insert(key, golden().get(name, "state." + key));
  REQUIRE(module.load_state_dict(state).complete());
  const Tensor x = golden().get(name, "x");
  if (is_floating(x.dtype())) x.set_requires_grad();
  const Tensor y = [&] {
    if constexpr (requires { module(x, x); })
      if (golden().has(name, "more0")) return module(x, golden().get(name, "more0"));
    return static_cast<nn::Module&>(module)(x);
  }();
  check_close(y, golden().get(name, "y"), 1e-11, 1e-12);
  y.backward(golden().get(name, "dy"));
  for (const auto& [key, p] : module.named_parameters()) {
    CAPTURE(key);
    REQUIRE(p.grad().defined());
    check_close(p.grad(), golden().get(name, "grad." + key), 1e-10, 1e-11);
  }
  if (is_floating(x.dtype())) check_close(x.grad(), golden().get(name, "dx"), 1e-10, 1e-11);
  for (const auto& [key, b] : module.named_buffers())
    check_close(b, golden().get(name, "after." + key), 1e-12);
}

Tensor ramp(const Shape& shape, double phase) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 0.1 * std::sin(static_cast<double>(i) * 0.37 + phase);
  return from_vector(values, shape);
}

void check_lenet(const std::string& name, const std::vector<Tensor>& params,
                 const std::function<Tensor(const Tensor&)>& net) {
  for (std::size_t i = 0; i < params.size(); ++i)
    no_grad([&] { params[i].copy_(ramp(params[i].shape(), static_cast<double>(i))); });
  const Tensor y = net(ramp({2, 1, 28, 28}, 0.5) * 10);
  check_close(y, golden().get(name, "y"), 1e-10);
  cross_entropy(y, tensor({3, 7})).backward();
  std::vector<double> norms;
  for (const Tensor& p : params) norms.push_back(norm(p.grad()).item<double>());
  check_close(golden().get(name, "grads"), norms, 1e-9);
}

}  // namespace

TEST_CASE("linear layers and convolutions") {
  check("linear", nn::Linear(5, 3));
  check("linear_nobias", nn::Linear(5, 3, {.bias = false}));
  check("conv2d", nn::Conv2d(4, 6, {3, 2}, {.stride = 2, .padding = {1, 0}, .groups = 2}));
  check("conv2d_same",
        nn::Conv2d(3, 2, 3, {.padding = Padding::same, .dilation = 2, .bias = false}));
  check(
      "conv_transpose2d",
      nn::ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  check("embedding", nn::Embedding(6, 3, {.padding_idx = 2}));
  CHECK_THROWS_AS(nn::Conv2d(3, 4, 3, {.groups = 2}), ValueError);
  // Refused by the constructor, also where the layer would pad by itself.
  CHECK_THROWS_WITH_AS(nn::Conv2d(3, 4, 3, {.stride = 2, .padding = "same"}),
                       doctest::Contains("needs a stride of 1, got (2, 2)"), ValueError);
  CHECK_THROWS_AS(
      nn::Conv1d(3, 4, 3, {.stride = 2, .padding = "same", .padding_mode = PadMode::reflect}),
      ValueError);
  CHECK_THROWS_WITH_AS(nn::Conv2d(3, 4, {3, 0}),
                       doctest::Contains("a kernel_size above 0, got (3, 0)"), ValueError);
  CHECK_THROWS_AS(nn::ConvTranspose1d(3, 4, -1), ValueError);
  CHECK_THROWS_AS(nn::Embedding(3, 4, {.padding_idx = 3}), ValueError);
}

TEST_CASE("normalisation") {
  check("batch_norm2d", nn::BatchNorm2d(3));
  check("batch_norm2d_cumulative", nn::BatchNorm2d(3, {.momentum = {}}));
  nn::BatchNorm2d cumulative(1, {.momentum = {}});
  cumulative(ramp({2, 1, 2, 2}, 1).to(kFloat32));
  const Tensor mean = cumulative.running_mean.clone(), var = cumulative.running_var.clone();
  cumulative(empty({0, 1, 2, 2}));  // a batch without values changes nothing
  check_close(cumulative.running_mean, mean, 0, 0);
  check_close(cumulative.running_var, var, 0, 0);
  nn::BatchNorm2d eval(3);
  eval.eval();
  check("batch_norm2d_eval", eval);
  nn::BatchNorm2d plain(3, {.affine = false, .track_running_stats = false});
  plain.eval();
  CHECK(plain.state_dict().empty());
  check("batch_norm2d_plain", plain);
  check("batch_norm1d", nn::BatchNorm1d(3, {.eps = 1e-3, .momentum = 0.3}));
  check("layer_norm", nn::LayerNorm({3, 4}));
  check("group_norm", nn::GroupNorm(2, 6));
  nn::GroupNorm bare(3, 6, {.eps = 0.1, .affine = false});
  CHECK(bare.state_dict().empty());
  check("group_norm_plain", bare);
  CHECK(bare.str() == "GroupNorm(3, 6, eps=0.1, affine=False)");
  CHECK_THROWS_AS(nn::GroupNorm(4, 6), ValueError);
  CHECK_THROWS_AS(nn::GroupNorm(0, 6), ValueError);
  CHECK_THROWS_AS(bare(zeros({2, 9, 3})), ShapeError);
  CHECK_THROWS_AS(eval(zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(nn::BatchNorm1d(3)(zeros({2, 3, 4, 4})), ShapeError);
}

TEST_CASE("pooling and activations") {
  check("max_pool2d", nn::MaxPool2d(3, {.stride = 2, .padding = 1}));
  check("avg_pool2d", nn::AvgPool2d(2));
  check("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d({2, 1}));
  check("relu", nn::ReLU());
  check("leaky_relu", nn::LeakyReLU(0.2));
  check("sigmoid", nn::Sigmoid());
  check("tanh", nn::Tanh());
  check("gelu", nn::GELU());
  check("gelu_tanh", nn::GELU(GeluApproximation::tanh));
  check("silu", nn::SiLU());
  check("softmax", nn::Softmax(1));
  check("log_softmax", nn::LogSoftmax(-1));
  check("flatten", nn::Flatten({.start_dim = 0}));
  nn::Dropout dropout(0.5);
  dropout.eval();
  check("dropout_eval", dropout);
  CHECK_THROWS_AS(nn::Dropout(1.5), ValueError);
}

TEST_CASE("adaptive poolings keep the sizes that are not given") {
  const Tensor image = rand({1, 2, 4, 7}), volume = rand({2, 3, 4, 5});
  nn::AdaptiveAvgPool2d pool({None, 3});
  check_close(pool(image), adaptive_avg_pool2d(image, {4, 3}), 0);
  CHECK(pool.extra_repr() == "output_size=(None, 3)");
  CHECK(nn::AdaptiveAvgPool2d({2, std::nullopt})(image).shape() == Shape{1, 2, 2, 7});
  CHECK(nn::AdaptiveMaxPool2d({std::nullopt, 1}).forward_with_indices(image).second.shape() ==
        Shape{1, 2, 4, 1});
  CHECK(nn::AdaptiveMaxPool3d({2, std::nullopt, 1})(volume).shape() == Shape{2, 2, 4, 1});
  CHECK(nn::AdaptiveAvgPool1d(std::nullopt)(image[0]).shape() == Shape{2, 4, 7});
  CHECK(nn::AdaptiveAvgPool2d(Pair(2, 1)).extra_repr() == "output_size=(2, 1)");
  CHECK(nn::AdaptiveAvgPool1d({5}).extra_repr() == "output_size=5");
  CHECK_THROWS_AS(pool(ones({3})), ShapeError);
}

TEST_CASE("transposed convolutions to a given size") {
  nn::ConvTranspose2d up(1, 1, 3, {.stride = 2, .padding = 1, .bias = false});
  up.weight.detach().fill_(1);
  const Tensor x = from_vector<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  const Tensor higher = up(x, Shape{4, 3});
  CHECK(higher.shape() == Shape{1, 1, 4, 3});
  check_close(higher, {1, 3, 2, 4, 10, 6, 3, 7, 4, 3, 7, 4});
  check_close(up(x, Shape{1, 1, 4, 4}), {1, 3, 2, 2, 4, 10, 6, 6, 3, 7, 4, 4, 3, 7, 4, 4});
  check_close(up(x, Shape{3, 3}), up(x), 0);
  CHECK(up(x[0], Shape{1, 4, 3}).shape() == Shape{1, 4, 3});
  CHECK_THROWS_WITH_AS(up(x, Shape{5, 3}), doctest::Contains("from [3, 3] to [4, 4]"), ValueError);
  CHECK_THROWS_AS(up(x, Shape{2, 3}), ValueError);
  CHECK_THROWS_AS(up(x, Shape{4}), ValueError);
  CHECK(nn::ConvTranspose1d(1, 1, 2, {.stride = 2})(ones({1, 3}), Shape{7}).shape() == Shape{1, 7});
}

TEST_CASE("whole channels are dropped, only in training") {
  manual_seed(0);
  const auto check_channels = [](nn::Module&& dropout, const Shape& shape, std::int64_t inner) {
    const Tensor y = dropout(ones(shape)).reshape({-1, inner});
    check_close(y.sum({1}), y.select(1, 0) * static_cast<double>(inner), 1e-6);
    const double kept = y.select(1, 0).mean().item<double>();
    CHECK(kept == doctest::Approx(1).epsilon(0.1));
    CHECK(kept != 1);
    dropout.eval();
    check_close(dropout(ones(shape)), ones(shape), 0);
  };
  check_channels(nn::Dropout2d(0.25), {50, 20, 3, 2}, 6);
  check_channels(nn::Dropout1d(0.25), {50, 20, 4}, 4);
  check_channels(nn::Dropout1d(0.25), {1000, 4}, 4);
  CHECK(nn::Dropout2d().str() == "Dropout2d(p=0.5, inplace=False)");
  CHECK_THROWS_AS(nn::Dropout1d(-1), ValueError);
  CHECK_THROWS_AS(nn::Dropout2d(2), ValueError);
  CHECK_THROWS_AS(nn::Dropout1d()(ones({1, 2, 3, 4})), ShapeError);
}

TEST_CASE("dropout drops only in training") {
  manual_seed(0);
  nn::Sequential net(nn::Dropout(0.25));
  const Tensor x = ones({10000});
  CHECK(net(x).sum().item<double>() == doctest::Approx(10000).epsilon(0.03));
  CHECK(net(x).max().item<double>() == doctest::Approx(4.0 / 3));
  net.eval();
  check_close(net(x), x, 0);
}

TEST_CASE("containers") {
  check("sequential",
        nn::Sequential(nn::Linear(4, 5), nn::Tanh(),
                       std::make_unique<nn::Sequential>(nn::Linear(5, 2), nn::Softmax(1))));
  nn::Sequential net;
  check_close(net(ones({2})), {1, 1});
  nn::Linear& linear = net.push_back(nn::Linear(2, 3));
  CHECK(&net[0] == &linear);
  CHECK(net.size() == 1);
  CHECK_THROWS_AS(net[1], IndexError);
}

namespace {

/// Not exactly a Linear: runs its own forward.
class Doubled : public nn::Cloneable<Doubled, nn::Linear> {
 public:
  using Cloneable::Cloneable;
  Tensor forward(const Tensor& input) override { return nn::Linear::forward(input) * 2; }
};

/// Rows as images of one channel.
class Image : public nn::Cloneable<Image> {
 public:
  Tensor forward(const Tensor& input) override {
    return input.reshape({1, 1, input.size(0), input.size(1)});
  }
};

}  // namespace

TEST_CASE("a container fuses a layer with its activation, with the same results") {
  const auto check_fused = [](nn::Sequential&& net) {
    CAPTURE(net.str());
    net.to(kFloat64);
    const Tensor x = ramp({7, 4}, 0.3).set_requires_grad(), same = ramp({7, 4}, 0.3);
    same.set_requires_grad();
    const std::unique_ptr<nn::Sequential> copy = net.clone();
    const Tensor fused = net(x);
    Tensor apart = same;
    for (nn::Module* module : copy->children()) apart = (*module)(apart);
    check_close(fused, apart, 1e-14, 1e-15);
    for (std::size_t i = 0; i < net.buffers().size(); ++i)
      check_close(net.buffers()[i], copy->buffers()[i], 1e-14, 1e-15);
    const Tensor weights = ramp(fused.shape(), 1);
    fused.backward(weights);
    apart.backward(weights);
    check_close(x.grad(), same.grad(), 1e-13, 1e-15);
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      check_close(net.parameters()[i].grad(), copy->parameters()[i].grad(), 1e-13, 1e-15);
    net.eval();
    copy->eval();
    apart = same;
    for (nn::Module* module : copy->children()) apart = (*module)(apart);
    check_close(net(x), apart, 1e-14, 1e-15);
  };
  check_fused(nn::Sequential(nn::Linear(4, 9), nn::ReLU(), nn::Linear(9, 3)));
  check_fused(nn::Sequential(nn::Linear(4, 9, {.bias = false}), nn::ReLU({.inplace = true})));
  check_fused(nn::Sequential(nn::Linear(4, 9), nn::GELU(), nn::Linear(9, 3), nn::ReLU()));
  check_fused(nn::Sequential(nn::Linear(4, 3), nn::GELU(GeluApproximation::tanh)));
  check_fused(nn::Sequential(nn::ReLU(), nn::Linear(4, 3), nn::Sigmoid()));
  check_fused(nn::Sequential(Doubled(4, 3), nn::ReLU()));
  check_fused(nn::Sequential(Image(), nn::Conv2d(1, 5, {2, 1}, {.stride = {2, 1}, .padding = 1}),
                             nn::ReLU(), nn::Conv2d(5, 4, 1, {.groups = 1, .bias = false}),
                             nn::ReLU({.inplace = true}), nn::Flatten()));
  check_fused(nn::Sequential(Image(), nn::BatchNorm2d(1), nn::ReLU(), nn::Conv2d(1, 3, 2),
                             nn::BatchNorm2d(3), nn::ReLU({.inplace = true}),
                             nn::Conv2d(3, 2, 2, {.bias = false}),
                             nn::BatchNorm2d(2, {.momentum = std::nullopt}), nn::Tanh()));
  check_fused(nn::Sequential(Image(), nn::Conv2d(1, 3, 2, {.padding = 1}),
                             nn::BatchNorm2d(3, {.track_running_stats = false})));
}

TEST_CASE("losses") {
  check("cross_entropy", nn::CrossEntropyLoss({.weight = ones({4}), .label_smoothing = 0.1}));
  check("nll", nn::NLLLoss());
  check("mse", nn::MSELoss());
  check("l1", nn::L1Loss(Reduction::sum));
  check("smooth_l1", nn::SmoothL1Loss({.beta = 0.5}));
  check("bce", nn::BCEWithLogitsLoss({.pos_weight = ones({4})}));
}

TEST_CASE("LeNet-5") {
  nn::LeNet5 net;
  net.to(kFloat64);
  check_lenet("lenet5", net.parameters(), [&](const Tensor& x) { return net(x); });
  net.to(kChannelsLast);
  net.zero_grad();
  check_lenet("lenet5", net.parameters(), [&](const Tensor& x) { return net(x); });
  using Options = nn::LeNet5Options;
  nn::LeNet5 classic({.classes = 26,
                      .in_channels = 3,
                      .activation = Options::Activation::tanh,
                      .pooling = Options::Pooling::average});
  CHECK(classic(zeros({2, 3, 28, 28})).shape() == Shape{2, 26});
}

TEST_CASE("LeNet of Dive into Deep Learning: as a function and as a module") {
  manual_seed(5);
  std::vector<Tensor> params = nn::lenet_parameters();
  manual_seed(5);
  nn::D2LLeNet net;
  REQUIRE(net.parameters().size() == params.size());
  for (std::size_t i = 0; i < params.size(); ++i)
    test::check_equal(net.parameters()[i].detach(), params[i].detach());
  CHECK(net.named_parameters()[6].first == "W4");
  for (Tensor& p : params) p = p.detach().to(kFloat64).set_requires_grad();
  check_lenet("d2l", params, [&](const Tensor& x) { return nn::lenet(x, params); });
  net.to(kFloat64);
  check_lenet("d2l", net.parameters(), [&](const Tensor& x) { return net(x); });
  CHECK_THROWS_AS(nn::lenet(zeros({1, 1, 28, 28}), std::span(params).first(7)), ValueError);
}
