// Batch norms folded into the layers before them, against the modules run one by one.
#include "ferrite/nn/inference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/activation.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/init.h"
#include "ferrite/nn/models/registry.h"
#include "ferrite/nn/weight_norm.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

using namespace ferrite;

namespace {

/// Statistics and weights as training leaves them: none is that of a new norm.
void train_norms(nn::Module& net) {
  NoGradGuard guard;
  net.apply<nn::BatchNorm>([](nn::BatchNorm& bn) {
    if (bn.running_mean.defined()) {
      nn::init::uniform_(bn.running_mean, -0.5, 0.5);
      nn::init::uniform_(bn.running_var, 0.5, 2);
    }
    if (bn.weight.defined()) {
      nn::init::uniform_(bn.weight, 0.5, 1.5);
      nn::init::uniform_(bn.bias, -0.5, 0.5);
    }
  });
}

double scale_of(const Tensor& t) { return std::max(1e-30, abs(t).max().item<double>()); }

/// The largest difference, relative to the largest value.
double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return abs(a - b).max().item<double>() / scale_of(b);
}

std::ptrdiff_t norms_in(const nn::Module& net) {
  const auto norms = net.modules<nn::BatchNorm>();
  return std::ranges::count_if(norms, [](auto* bn) { return !bn->is_identity(); });
}

template <class Layer, class Norm>
void check_fused(Layer layer, Norm norm, const Shape& input) {
  layer.to(kFloat64);
  norm.to(kFloat64);
  train_norms(norm);
  layer.eval();
  norm.eval();
  NoGradGuard guard;
  const Tensor x = randn(input, {.dtype = kFloat64});
  const Tensor before = layer.weight.clone();
  Layer fused = [&] {
    if constexpr (std::is_same_v<Layer, nn::Linear>)
      return nn::utils::fuse_linear_bn_eval(layer, norm);
    else
      return nn::utils::fuse_conv_bn_eval(layer, norm);
  }();
  CHECK(difference(fused(x), norm(layer(x))) < 1e-14);
  CHECK(equal(layer.weight, before));
  CHECK(fused.bias.defined());
}

struct Block : nn::Cloneable<Block> {
  Block() {
    register_module("conv", conv);
    register_module("bn", bn);
  }
  nn::Conv2d conv{3, 4, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d bn{4};
};

/// Also uses the convolution's output itself.
struct Shortcut : nn::Cloneable<Shortcut, Block> {
  Tensor forward(const Tensor& x) override {
    const Tensor y = conv(x);
    return bn(y) + y;
  }
};

/// Calls both twice.
struct Twice : nn::Cloneable<Twice, Block> {
  Tensor forward(const Tensor& x) override { return bn(conv(x)) - bn(conv(x * 2)); }
};

/// Changes the output before the norm.
struct Changed : nn::Cloneable<Changed, Block> {
  Tensor forward(const Tensor& x) override {
    const Tensor y = conv(x);
    y.mul_(3);
    return bn(y);
  }
};

/// The norm comes first, whatever the order of registration.
struct NormFirst : nn::Cloneable<NormFirst> {
  NormFirst() {
    register_module("conv", conv);
    register_module("bn", bn);
  }
  Tensor forward(const Tensor& x) override { return conv(bn(x)); }
  nn::Conv2d conv{3, 3, 1};
  nn::BatchNorm2d bn{3};
};

/// Decodes by the encoder's weight, after its call or before it.
template <bool first>
struct Tied : nn::Cloneable<Tied<first>> {
  Tied() {
    this->register_module("enc", enc);
    this->register_module("bn", bn);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor wide = first ? linear(linear(x, enc.weight), enc.weight.t()) : x;
    const Tensor h = relu(bn(enc(wide)));
    return first ? h : linear(h, enc.weight.t());
  }
  nn::Linear enc{5, 4};
  nn::BatchNorm1d bn{4};
};

/// Gives a parameter of the convolution, or of the norm, back.
template <bool of_norm>
struct Penalty : nn::Cloneable<Penalty<of_norm>, Block> {
  Tensor forward(const Tensor& x) override {
    const Tensor y = this->bn(this->conv(x));
    if (of_norm) return y + this->bn.weight.sum();
    return this->conv.bias.defined() ? y + this->conv.bias.sum() : y;
  }
};

/// Its output for zeros is NaN.
struct Normalized : nn::Cloneable<Normalized, Shortcut> {
  Tensor forward(const Tensor& x) override { return Shortcut::forward(x / x.norm()); }
};

template <class Net>
void check_left_alone(const Shape& shape = {2, 3, 5, 5}, bool zero_example = false) {
  Net net;
  train_norms(net);
  net.eval();
  NoGradGuard guard;
  const Tensor x = randn(shape);
  const auto optimized = nn::optimize_for_inference(net, zero_example ? zeros(shape) : x);
  CHECK(norms_in(*optimized) == 1);
  CHECK(difference((*optimized)(x), net(x)) < 1e-6);
}

}  // namespace

TEST_CASE("a norm is folded into convolutions of any kind, and linear layers") {
  manual_seed(0);
  using namespace nn;
  check_fused(Conv1d(4, 6, 3, {.groups = 2}), BatchNorm1d(6), {2, 4, 9});
  check_fused(Conv2d(4, 6, 3, {.padding = 1, .bias = false}), BatchNorm2d(6), {2, 4, 7, 6});
  check_fused(Conv2d(3, 5, 3), BatchNorm2d(5, {.eps = 0.1, .affine = false}), {2, 3, 7, 6});
  check_fused(Conv3d(2, 3, 2), BatchNorm3d(3), {1, 2, 4, 4, 3});
  check_fused(ConvTranspose1d(3, 4, 3), BatchNorm1d(4), {2, 3, 5});
  check_fused(ConvTranspose2d(4, 6, 3, {.stride = 2, .groups = 2, .bias = false}), BatchNorm2d(6),
              {2, 4, 5, 4});
  check_fused(ConvTranspose3d(2, 3, 2), BatchNorm3d(3), {1, 2, 3, 3, 3});
  check_fused(Linear(5, 4), BatchNorm1d(4), {6, 5});
}

TEST_CASE("what cannot be folded is an error") {
  nn::Conv2d conv(3, 4, 3);
  nn::BatchNorm2d bn(4);
  CHECK_THROWS_AS(nn::utils::fuse_conv_bn_eval(conv, bn), ValueError);  // in training mode
  conv.eval();
  bn.eval();
  nn::BatchNorm2d other(5), untracked(4, {.track_running_stats = false});
  other.eval();
  untracked.eval();
  CHECK_THROWS_AS(nn::utils::fuse_conv_bn_eval(conv, other), ShapeError);
  CHECK_THROWS_AS(nn::utils::fuse_conv_bn_eval(conv, untracked), ValueError);
  nn::utils::weight_norm(conv);
  CHECK_THROWS_WITH_AS(nn::utils::fuse_conv_bn_eval(conv, bn),
                       doctest::Contains("call remove_weight_norm()"), ValueError);
  nn::utils::remove_weight_norm(conv);
  CHECK_NOTHROW(nn::utils::fuse_conv_bn_eval(conv, bn));
  nn::Linear linear(3, 4);
  nn::utils::weight_norm(linear, "bias").eval();
  CHECK_THROWS_WITH_AS(nn::utils::fuse_linear_bn_eval(linear, bn),
                       doctest::Contains("the bias of Linear"), ValueError);
  nn::Linear spectral(3, 4);
  nn::utils::spectral_norm(spectral).eval();
  CHECK_THROWS_AS(nn::utils::fuse_linear_bn_eval(spectral, bn), ValueError);
  struct Unnamed : nn::Module {};
  CHECK_THROWS_AS(nn::optimize_for_inference(Unnamed(), ones({1})), Error);
}

TEST_CASE("every network for images is folded to rounding, and stays as it is") {
  for (const std::string& name : nn::image_model_names()) {
    // One of each family: the others differ in depth and width.
    static const std::vector<std::string> families{
        "alexnet",         "vgg11",         "vgg11_bn",     "resnet18",        "resnet50",
        "resnext50_32x4d", "squeezenet1_1", "mobilenet_v2", "efficientnet_b0", "vit_b_32"};
    if (std::ranges::find(families, name) == families.end()) continue;
    CAPTURE(name);
    manual_seed(1);
    const bool small = name.starts_with("res") || name.starts_with("vit");
    const std::int64_t size =
        small || name.starts_with("mobile") || name.starts_with("eff") ? 32 : 64;
    const auto net = nn::make_image_model(
        name, {.classes = 10, .image_size = size, .small_images = small, .width = 0.25});
    train_norms(*net);
    const Tensor x = rand({2, 3, size, size});
    const bool has_norms = norms_in(*net) > 0;
    const auto optimized = nn::optimize_for_inference(*net, x);
    CHECK(net->is_training());
    net->eval();
    const InferenceMode guard;
    CHECK(norms_in(*optimized) == 0);
    CHECK((norms_in(*net) > 0) == has_norms);
    CHECK_FALSE(optimized->is_training());
    const Tensor expected = (*net)(x);
    CHECK(difference((*optimized)(x), expected) < 2e-5);
    CHECK(difference((*optimized)(x.contiguous(kChannelsLast)), expected) < 2e-5);
    CHECK(difference((*optimized)(x.slice(0, 0, 1)), expected.slice(0, 0, 1)) < 2e-5);
  }
}

TEST_CASE("norms whose input is not one layer's output alone are left alone") {
  manual_seed(2);
  check_left_alone<Shortcut>();
  check_left_alone<Twice>();
  check_left_alone<Changed>();
  check_left_alone<NormFirst>();
  check_left_alone<Normalized>({2, 3, 5, 5}, true);
}

TEST_CASE("norms and layers whose parameters the network also uses itself are left alone") {
  manual_seed(6);
  check_left_alone<Tied<false>>({3, 5});
  check_left_alone<Tied<true>>({3, 5});
  check_left_alone<Tied<false>>({3, 5}, true);
  check_left_alone<Penalty<false>>();
  check_left_alone<Penalty<true>>();

  // Another pair is folded all the same.
  nn::Sequential net(nn::Linear(5, 5), nn::BatchNorm1d(5), Tied<false>());
  train_norms(net);
  net.eval();
  NoGradGuard guard;
  const Tensor x = randn({3, 5});
  const auto optimized = nn::optimize_for_inference(net, x);
  CHECK(norms_in(*optimized) == 1);
  CHECK(difference((*optimized)(x), net(x)) < 1e-5);
}

TEST_CASE("of several norms those that can be folded are") {
  manual_seed(3);
  nn::Sequential net(nn::Conv2d(3, 3, 1), nn::BatchNorm2d(3), Shortcut(), nn::Flatten(),
                     nn::Linear(100, 4), nn::BatchNorm1d(4), nn::ReLU());
  train_norms(net);
  net.eval();
  NoGradGuard guard;
  const Tensor x = randn({2, 3, 5, 5});
  const auto optimized = nn::optimize_for_inference(net, x);
  CHECK(norms_in(*optimized) == 1);
  CHECK(difference((*optimized)(x), net(x)) < 1e-5);
  CHECK(optimized->str().find("(1): Identity()") != std::string::npos);
  CHECK(optimized->state_dict().contains("0.bias"));
  CHECK_FALSE(optimized->state_dict().contains("1.running_mean"));
  CHECK(optimized->num_trainable_parameters() == 0);

  // A copy of the copy computes the same.
  CHECK(difference((*optimized->clone())(x), net(x)) < 1e-5);
}

TEST_CASE("weights that are shared or computed, and modules with hooks, are left alone") {
  manual_seed(4);
  NoGradGuard guard;
  const Tensor x = randn({2, 3, 5, 5});
  int calls = 0;
  Block block;
  nn::Sequential hooked(nn::Conv2d(3, 4, 1), nn::BatchNorm2d(4));
  nn::utils::weight_norm(static_cast<nn::Conv2d&>(hooked[0]));
  hooked.eval();
  CHECK(norms_in(*nn::optimize_for_inference(hooked, x)) == 1);
  hooked[1].register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { ++calls; });
  hooked(x);
  CHECK(calls == 1);  // clones have no hooks: the original keeps its own
}

TEST_CASE("convolutions of weights with the output channels innermost") {
  manual_seed(5);
  const Tensor x = randn({2, 6, 9, 7});
  const Tensor w = randn({35, 6, 3, 3}), b = randn({35});
  const Tensor innermost = w.permute({2, 3, 1, 0}).contiguous().permute({3, 2, 0, 1});
  const Tensor channels_last = w.contiguous(kChannelsLast);  // other layouts have other engines
  const Tensor expected = conv2d(x, channels_last, b, {.padding = 1});
  const Tensor out = conv2d(x, innermost, b, {.padding = 1});
  CHECK(out.is_contiguous(kChannelsLast));
  CHECK(equal(out, expected));
  CHECK(equal(conv2d(x, innermost, b, {.stride = 2}), conv2d(x, channels_last, b, {.stride = 2})));
}
