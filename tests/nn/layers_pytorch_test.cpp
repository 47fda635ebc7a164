// Layers and losses against PyTorch's: their printed form, by which record_layers.py recorded them,
// their state dicts, values and gradients.
#include <doctest/doctest.h>

#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::nn;
using test::check_close;

namespace {

const test::Golden& recorded_layers() {
  static const test::Golden g("layers");
  return g;
}

/// The first result of module(x, the inputs recorded beside x...).
template <class M>
Tensor call_recorded(M& module, const std::string& name, const Tensor& x) {
  const auto more = [&](int i) { return recorded_layers().get(name, "more" + std::to_string(i)); };
  const auto has = [&](int i) { return recorded_layers().has(name, "more" + std::to_string(i)); };
  if constexpr (requires { module(x, x, x, x); })
    if (has(2)) return module(x, more(0), more(1), more(2));
  if constexpr (requires { module(x, x, x); })
    if (has(1)) return module(x, more(0), more(1));
  if constexpr (requires { module(x, x); })
    if (has(0)) {
      if constexpr (requires { Tensor(module(x, x)); }) return module(x, more(0));
      if constexpr (requires { module(x, x).output; }) return module(x, more(0)).output;
    }
  return static_cast<Module&>(module)(x);
}

template <class M>
void check_layer(M&& module, const std::string& note = "", double rtol = 1e-10) {
  std::string name = module.str();
  if (const auto children = name.find("\n"); children != std::string::npos)
    name = name.substr(0, children) + ")";
  name += note;
  CAPTURE(name);
  const test::Golden& golden = recorded_layers();
  REQUIRE(golden.has(name, "x"));
  module.to(kFloat64);
  StateDict state;
  for (const auto& [key, t] : module.state_dict())
    state.insert(key, golden.get(name, "state." + key));
  REQUIRE(module.load_state_dict(state).complete());
  const Tensor x = golden.get(name, "x");
  if (is_floating(x.dtype())) x.set_requires_grad();
  const Tensor y = call_recorded(module, name, x);
  check_close(y, golden.get(name, "y"), rtol / 10, rtol / 100);
  CHECK(y.shape() == golden.get(name, "y").shape());
  y.backward(golden.get(name, "dy"));
  for (const auto& [key, p] : module.named_parameters()) {
    CAPTURE(key);
    REQUIRE(p.grad().defined());
    check_close(p.grad(), golden.get(name, "grad." + key), rtol, rtol / 10);
  }
  if (is_floating(x.dtype())) check_close(x.grad(), golden.get(name, "dx"), rtol, rtol / 10);
  for (const auto& [key, b] : module.named_buffers())
    check_close(b, golden.get(name, "after." + key), 1e-12);
}

template <class M>
M evaluating(M module) {
  module.eval();
  return module;
}

/// The weight that was recorded with a loss, which prints none of its options.
template <class Loss>
Tensor recorded_weight(const char* note = "") {
  return recorded_layers().get(Loss().str() + note, "state.weight");
}

}  // namespace

TEST_CASE("layers as PyTorch: convolutions and padding in one to three dimensions") {
  check_layer(Conv1d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}));
  check_layer(Conv1d(
      4, 2, 4, {.padding = Padding1d::same, .dilation = 2, .padding_mode = PadMode::circular}));
  check_layer(Conv2d(4, 2, {3, 2}, {.padding = {2, 1}, .padding_mode = PadMode::reflect}));
  check_layer(Conv3d(4, 6, {2, 3, 2}, {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .groups = 2}));
  check_layer(
      Conv3d(4, 2, {2, 1, 3}, {.padding = Padding3d::same, .dilation = {2, 1, 1}, .bias = false}));
  check_layer(Conv3d(4, 2, 2, 1, 1, 1, 1, true, PadMode::replicate));
  check_layer(
      ConvTranspose1d(4, 6, 3, {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2}));
  check_layer(ConvTranspose3d(
      4, 2, {3, 2, 2},
      {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .output_padding = {1, 0, 1}, .groups = 2}));
  check_layer(ConvTranspose3d(4, 3, {2, 1, 2}, {.bias = false, .dilation = {2, 1, 2}}));
  check_layer(ZeroPad1d({1, 2}));
  check_layer(ConstantPad2d({1, 0, 2, -1}, 3.5));
  check_layer(ReflectionPad3d(1));
  check_layer(ReplicationPad2d({1, 2, 0, 3}));
  check_layer(CircularPad1d(2));
  CHECK_THROWS_AS(Conv3d(3, 4, 2, {.groups = 2}), ValueError);
}

TEST_CASE("layers as PyTorch: pooling in one to three dimensions") {
  check_layer(MaxPool1d(3, 2, 1));
  check_layer(
      MaxPool3d({2, 3, 2}, {.stride = {1, 2, 1}, .padding = {1, 1, 0}, .dilation = {2, 1, 1}}));
  check_layer(MaxPool3d(2, {.ceil_mode = true}));
  check_layer(AvgPool1d(3, {.padding = 1, .ceil_mode = true}));
  check_layer(AvgPool3d({2, 3, 2}, {.stride = {2, 1, 2}, .padding = {1, 1, 0}, .ceil_mode = true}));
  check_layer(AvgPool3d(3, {.padding = 1, .count_include_pad = false}), " inside");
  check_layer(AvgPool3d(3, {.divisor_override = 5}), " by 5");
  check_layer(AdaptiveAvgPool1d(3));
  check_layer(AdaptiveMaxPool1d(3));
  check_layer(AdaptiveMaxPool2d({2, 4}));
  check_layer(AdaptiveAvgPool3d({2, 3, 4}));
  check_layer(AdaptiveMaxPool3d({2, 3, 4}));
  check_layer(LPPool1d(3, 2));
  check_layer(LPPool2d(1.5, {3, 2}, {.stride = 2, .ceil_mode = true}));
  check_layer(LPPool3d(2, {2, 1, 2}));
  check_layer(MaxUnpool1d(2));
  check_layer(MaxUnpool2d(2));
  check_layer(MaxUnpool3d(2));
  const auto check_indices = [](const std::string& name, auto&& pool) {
    CAPTURE(name);
    const auto [pooled, indices] = pool.forward_with_indices(recorded_layers().get(name, "x"));
    check_close(pooled, recorded_layers().get(name, "pooled"), 0);
    test::check_equal(indices, recorded_layers().get(name, "indices"));
  };
  check_indices("indices 1", MaxPool1d(2));
  check_indices("indices 2", MaxPool2d(2));
  check_indices("indices 3", MaxPool3d(2));
  check_indices("adaptive indices 1", AdaptiveMaxPool1d(3));
  check_indices("adaptive indices 2", AdaptiveMaxPool2d(3));
  check_indices("adaptive indices 3", AdaptiveMaxPool3d(3));
}

TEST_CASE("layers as PyTorch: fractional pooling") {
  const auto check = [](const std::string& name, auto kernel, auto options, auto&& pool) {
    CAPTURE(name);
    const test::Golden& golden = recorded_layers();
    const Tensor x = golden.get(name, "x");
    x.set_requires_grad();
    options.random_samples = golden.get(name, "samples");
    const auto [pooled, indices] = pool(kernel, options).forward_with_indices(x);
    check_close(pooled, golden.get(name, "pooled"), 0);
    test::check_equal(indices, golden.get(name, "indices"));
    pooled.backward(golden.get(name, "dy"));
    check_close(x.grad(), golden.get(name, "dx"), 1e-15);
  };
  check("fractional 2", Pair(2, 3), FractionalMaxPool2dOptions{.output_size = {5, 4}},
        [](Pair k, const auto& o) { return FractionalMaxPool2d(k, o); });
  check("fractional 3", Triple(2, 2, 3), FractionalMaxPool3dOptions{.output_size = {3, 5, 4}},
        [](Triple k, const auto& o) { return FractionalMaxPool3d(k, o); });
  // By ratio, at random places: values of the input, the largest among them.
  const Tensor x = randn({3, 9, 8});
  const Tensor y = FractionalMaxPool2d(2, {.output_ratio = {{0.5, 0.7}}})(x);
  CHECK(y.shape() == Shape{3, 4, 5});
  check_close(y.amax(), x.amax(), 0);
  CHECK_THROWS_AS(FractionalMaxPool2d(2, {})(x), ValueError);
  CHECK_THROWS_AS(FractionalMaxPool2d(2, {.output_ratio = {{0.5, 1.0}}})(x), ValueError);
  CHECK_THROWS_AS(FractionalMaxPool2d(3, {.output_size = 7})(x), ShapeError);
  CHECK_THROWS_AS(FractionalMaxPool2d(2, {.output_size = 3, .random_samples = zeros({3, 2})})(x),
                  ShapeError);
}

TEST_CASE("layers as PyTorch: adaptive softmax") {
  AdaptiveLogSoftmaxWithLoss layer(9, 12, {4, 7}, {.div_value = 3, .head_bias = true});
  check_layer(layer);
  const test::Golden& golden = recorded_layers();
  const Tensor x = golden.get("AdaptiveLogSoftmaxWithLoss()", "x"),
               classes = golden.get("AdaptiveLogSoftmaxWithLoss()", "more0");
  check_close(layer.log_prob(x), golden.get("adaptive", "log_prob"), 1e-12);
  test::check_equal(layer.predict(x), golden.get("adaptive", "predict"));
  check_close(layer(x[2], classes[2]).output, golden.get("adaptive", "one"), 1e-12);
  check_close(layer(x, classes).loss, golden.get("adaptive", "loss"), 1e-12);
  CHECK_THROWS_AS(layer(x, classes + 1), IndexError);
  CHECK_THROWS_AS(layer(x, classes.to(kInt32)), DTypeError);
  CHECK_THROWS_AS(layer(x, classes.slice(0, 0, 2)), ShapeError);
  CHECK_THROWS_AS(AdaptiveLogSoftmaxWithLoss(9, 12, {4, 4}), ValueError);
  CHECK_THROWS_AS(AdaptiveLogSoftmaxWithLoss(9, 12, {12}), ValueError);
  CHECK_THROWS_AS(AdaptiveLogSoftmaxWithLoss(9, 12, {}), ValueError);
  CHECK_THROWS_AS(AdaptiveLogSoftmaxWithLoss(3, 12, {4, 8}), ValueError);
}

TEST_CASE("layers as PyTorch: norms") {
  check_layer(BatchNorm3d(4, {.momentum = 0.3}));
  check_layer(InstanceNorm1d(4));
  const InstanceNormOptions tracked{.momentum = 0.3, .affine = true, .track_running_stats = true};
  check_layer(InstanceNorm2d(4, tracked));
  check_layer(evaluating(InstanceNorm2d(4, tracked)), " eval");
  check_layer(InstanceNorm3d(4, {.eps = 0.1, .affine = true}));
  check_layer(LocalResponseNorm(3, {.alpha = 0.5, .beta = 0.6, .k = 2}));
  check_layer(LocalResponseNorm(2, {.alpha = 0.5}));
  CHECK_THROWS_AS(InstanceNorm1d(4)(zeros({2, 4, 1})), ShapeError);
  CHECK_THROWS_AS(InstanceNorm2d(4, {.affine = true})(zeros({2, 3, 2, 2})), ShapeError);
  CHECK_THROWS_AS(BatchNorm3d(4)(zeros({2, 4, 2, 2})), ShapeError);
  CHECK(InstanceNorm1d(4)(ones({4, 3})).shape() == Shape{4, 3});
}

TEST_CASE("layers as PyTorch: activations") {
  // PyTorch keeps the constants of these two in float32.
  constexpr double kFloat = 1e-6;
  check_layer(ELU(0.7)), check_layer(CELU(1.3), "", kFloat), check_layer(SELU());
  check_layer(Hardtanh(-0.5, 0.7)), check_layer(ReLU6()), check_layer(Hardshrink(0.6));
  check_layer(Softshrink(0.6)), check_layer(Tanhshrink()), check_layer(Threshold(0.3, 2.5));
  check_layer(Softplus(2, 5)), check_layer(Softsign()), check_layer(Hardswish());
  check_layer(Hardsigmoid(), "", kFloat), check_layer(Mish()), check_layer(GLU(1));
  check_layer(LogSigmoid()), check_layer(Softmin(1)), check_layer(PReLU());
  check_layer(PReLU(4)), check_layer(evaluating(RReLU(0.1, 0.4))), check_layer(Softmax2d());
  CHECK_THROWS_AS(CELU(0), ValueError);
  CHECK_THROWS_AS(Softshrink(-1), ValueError);
  CHECK_THROWS_AS(Softmax2d()(zeros({2, 3})), ShapeError);
}

TEST_CASE("layers as PyTorch: others") {
  check_layer(Unflatten(1, {2, 2}));
  check_layer(PixelShuffle(2)), check_layer(PixelUnshuffle(2)), check_layer(ChannelShuffle(2));
  check_layer(UpsamplingNearest2d({.scale_factor = 2}));
  check_layer(UpsamplingBilinear2d({.size = {7, 9}}));
  check_layer(Bilinear(4, 3, 2)), check_layer(CosineSimilarity());
  check_layer(PairwiseDistance());
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    check_layer(EmbeddingBag(6, 3, {.mode = mode}));
    check_layer(EmbeddingBag(6, 3, {.mode = mode, .include_last_offset = true, .padding_idx = 4}));
    check_layer(EmbeddingBag(6, 3, {.mode = mode}), " rows");
  }
  check_layer(EmbeddingBag(6, 3, {.mode = BagMode::sum}), " weighted");
  check_layer(RNN(4, 3, {.num_layers = 2, .batch_first = true, .bidirectional = true}));
  check_layer(RNN(4, 3, {.bias = false}, Nonlinearity::relu));
  check_layer(RNNCell(4, 3));
  check_layer(RNNCell(4, 3, {.bias = false}, Nonlinearity::relu));
}

TEST_CASE("layers as PyTorch: losses") {
  check_layer(BCELoss({.weight = recorded_weight<BCELoss>()}));
  check_layer(HuberLoss({.delta = 0.7}));
  check_layer(KLDivLoss({.reduction = Reduction::sum}));
  check_layer(PoissonNLLLoss({.full = true}));
  check_layer(PoissonNLLLoss({.log_input = false, .reduction = Reduction::none}), " of counts");
  check_layer(GaussianNLLLoss({.full = true}));
  check_layer(GaussianNLLLoss({.eps = 0.5, .reduction = Reduction::sum}), " of rows");
  check_layer(HingeEmbeddingLoss({.margin = 0.8}));
  check_layer(SoftMarginLoss());
  check_layer(MarginRankingLoss({.margin = 0.3}));
  check_layer(CosineEmbeddingLoss({.margin = 0.1, .reduction = Reduction::none}));
  check_layer(TripletMarginLoss({.p = 3, .swap = true}));
  check_layer(TripletMarginWithDistanceLoss({.margin = 2}));
  check_layer(MultiMarginLoss({.margin = 0.5}));
  check_layer(
      MultiMarginLoss(
          {.p = 2, .weight = recorded_weight<MultiMarginLoss>(" 2"), .reduction = Reduction::none}),
      " 2");
  check_layer(MultiLabelMarginLoss(Reduction::none));
  check_layer(MultiLabelSoftMarginLoss({.weight = recorded_weight<MultiLabelSoftMarginLoss>()}));
  check_layer(CTCLoss({.zero_infinity = true}));
  check_layer(CTCLoss({.reduction = Reduction::none}), " each");
  check_layer(CTCLoss({.blank = 3, .reduction = Reduction::sum}), " flat");
}

TEST_CASE("alpha dropout keeps mean and variance, whole channels by FeatureAlphaDropout") {
  manual_seed(0);
  const Tensor x = selu(randn({200, 50, 4})), y = AlphaDropout(0.3)(x);
  CHECK(y.mean().item<double>() == doctest::Approx(x.mean().item<double>()).epsilon(0.05));
  CHECK(var(y).item<double>() == doctest::Approx(var(x).item<double>()).epsilon(0.05));
  const Tensor channels = FeatureAlphaDropout(0.3)(ones({200, 50, 4}));
  check_close(channels.select(2, 0), channels.select(2, 3), 0);
  CHECK(channels.min().item<double>() < 0);
  check_close(evaluating(AlphaDropout())(x), x, 0);
  CHECK(Dropout3d(0.25)(ones({2, 3, 1, 2, 2})).shape() == Shape{2, 3, 1, 2, 2});
  const Tensor slopes = RReLU(0.2, 0.4)(full({1000}, -1.0)) * -1;
  CHECK(slopes.min().item<double>() >= 0.2);
  CHECK(slopes.max().item<double>() < 0.4);
  CHECK(slopes.mean().item<double>() == doctest::Approx(0.3).epsilon(0.03));
}
