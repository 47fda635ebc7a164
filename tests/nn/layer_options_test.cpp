// Options of layers against PyTorch's, as record_layer_options.py recorded them: limited rows of
// tables, norms without a bias, projected LSTMs, activations and dropouts in place, custom parts of
// a transformer.
#include <doctest/doctest.h>

#include <type_traits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/transformer.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::nn;
using test::check_close;
using test::check_equal;

namespace {

const test::Golden& golden() {
  static const test::Golden g("layer_options");
  return g;
}

using Named = std::vector<std::pair<std::string, Tensor>>;

/// A recorded input, to be differentiated where its gradient was recorded.
Tensor input(const std::string& name, const std::string& key, const Device& device = {}) {
  if (!golden().has(name, key)) return {};
  const Tensor t = golden().get(name, key).clone().to(device);
  return golden().has(name, "grad_" + key) ? t.set_requires_grad() : t;
}

void load(const std::string& name, Module& module) {
  module.to(kFloat64);
  StateDict state;
  for (const auto& [key, t] : module.state_dict())
    state.insert(key, golden().get(name, "state." + key));
  REQUIRE(module.load_state_dict(state).complete());
}

/// Checks outputs, then the gradients of inputs and parameters, and the state that was left.
void check_recorded(const std::string& name, const Named& outputs, const Named& inputs,
                    const Module* module, double rtol = 1e-10) {
  std::vector<Tensor> results, given;
  for (const auto& [key, y] : outputs) {
    CAPTURE(key);
    CHECK(y.shape() == golden().get(name, key).shape());
    check_close(y.cpu(), golden().get(name, key), rtol, rtol / 10);
    results.push_back(y);
    given.push_back(golden().get(name, "d_" + key).to(y.device()));
  }
  Tensor loss = sum(results[0] * given[0]);
  for (std::size_t i = 1; i < results.size(); ++i) loss = loss + sum(results[i] * given[i]);
  loss.backward();
  for (const auto& [key, x] : inputs) {
    CAPTURE(key);
    if (x.defined() && x.requires_grad())
      check_close(x.grad().cpu(), golden().get(name, "grad_" + key), rtol, rtol / 10);
  }
  if (!module) return;
  for (const auto& [key, p] : module->named_parameters()) {
    CAPTURE(key);
    check_close(p.grad().cpu(), golden().get(name, "grad." + key), rtol, rtol / 10);
  }
  for (const auto& [key, t] : module->state_dict()) {
    CAPTURE(key);
    check_close(t.cpu(), golden().get(name, "after." + key), 1e-12, 1e-13);
  }
}

template <class M>
void check(const std::string& name, M&& module, const Device& device = {}, bool training = true) {
  CAPTURE(name);
  load(name, module);
  module.to(device);
  module.train(training);
  const Tensor x = input(name, "x", device), first = input(name, "more0", device),
               second = input(name, "more1", device);
  Tensor y;
  if constexpr (requires { module(x, first, second); })
    y = first.defined() ? module(x, first, second) : module(x);
  else
    y = module(x);
  check_recorded(name, {{"y", y}}, {{"x", x}, {"more0", first}, {"more1", second}}, &module);
}

void check_lstm(const std::string& name, LSTM&& lstm) {
  CAPTURE(name);
  load(name, lstm);
  lstm.eval();
  const Tensor x = input(name, "x"), h_0 = input(name, "h_0"), c_0 = input(name, "c_0");
  const auto [output, state] = lstm(x, {h_0, c_0});
  check_recorded(name, {{"output", output}, {"h_n", state.h}, {"c_n", state.c}},
                 {{"x", x}, {"h_0", h_0}, {"c_0", c_0}}, &lstm);
}

void check_tables(const Device& device) {
  check("Embedding", Embedding(6, 3, {.max_norm = 1, .scale_grad_by_freq = true}), device);
  check("Embedding padded",
        Embedding(6, 3,
                  {.padding_idx = -2, .max_norm = 0.5, .norm_type = 1, .scale_grad_by_freq = true}),
        device);
  check("Embedding largest",
        Embedding(6, 3, {.max_norm = 0.4, .norm_type = std::numeric_limits<double>::infinity()}),
        device);
  const auto bag = [](BagMode mode) {
    return EmbeddingBag(6, 3,
                        {.max_norm = 0.7,
                         .norm_type = 3,
                         .scale_grad_by_freq = mode != BagMode::max,
                         .mode = mode});
  };
  check("EmbeddingBag sum", bag(BagMode::sum), device);
  check("EmbeddingBag mean", bag(BagMode::mean), device);
  check("EmbeddingBag max", bag(BagMode::max), device);
  check("EmbeddingBag rows", EmbeddingBag(6, 3, {.scale_grad_by_freq = true, .padding_idx = 4}),
        device);
  check("EmbeddingBag weighted",
        EmbeddingBag(6, 3, {.max_norm = 1, .scale_grad_by_freq = true, .mode = BagMode::sum}),
        device);
}

}  // namespace

TEST_CASE("tables of limited rows agree with PyTorch") {
  check_tables({});
  CHECK(Embedding(5, 3, {.padding_idx = 1, .max_norm = 1, .norm_type = 1.5}).str() ==
        "Embedding(5, 3, padding_idx=1, max_norm=1.0, norm_type=1.5)");
  CHECK(EmbeddingBag(5, 3, {.max_norm = 0.5, .scale_grad_by_freq = true, .padding_idx = 1}).str() ==
        "EmbeddingBag(5, 3, max_norm=0.5, scale_grad_by_freq=True, mode='mean', padding_idx=1)");
}

TEST_CASE("tables of limited rows on a CUDA device") {
  REQUIRE_CUDA(1);
  check_tables(Device("cuda:0"));
}

TEST_CASE("max_norm changes the rows that are looked up, in place and off the tape") {
  const Tensor weight = full({4, 2}, 3.0, {.dtype = kFloat64}).set_requires_grad();
  const Tensor squares = square(weight).sum();
  const auto version = weight.version();
  const Tensor y = embedding(tensor({1, 3, 1}), weight, {.max_norm = 1});
  CHECK(weight.version() > version);
  const Tensor norms = weight.detach().norm(2, {1});
  check_close(norms, {std::sqrt(18.0), 1.0, std::sqrt(18.0), 1.0}, 1e-6);
  check_close(y.norm(2, {1}), {1.0, 1.0, 1.0}, 1e-6);
  y.sum().backward();
  check_close(weight.grad().sum(1), {0.0, 4.0, 0.0, 2.0}, 0);
  CHECK_THROWS_AS(squares.backward(), AutogradError);  // it needs the old rows

  // Rows within the limit stay bitwise as they are, of any dtype.
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    const Tensor small = randn({5, 3}).to(dtype), before = small.clone();
    embedding(tensor({0, 2, 2}), small, {.max_norm = 100});
    check_equal(small, before);
    embedding(tensor({{4}, {1}}), small, {.max_norm = 0.25});
    check_close(small.to(kFloat64).norm(2, {1}).slice(0, 4, 5), {0.25}, 0.01);
    check_equal(small[0], before[0]);
  }
  const Tensor none = zeros({0}, {.dtype = kInt64});
  CHECK(embedding(none, weight, {.max_norm = 1}).shape() == Shape{0, 2});
  CHECK_THROWS_WITH_AS(embedding(tensor({4}), weight, {.max_norm = 1}),
                       doctest::Contains("[embedding] index 4"), IndexError);
  CHECK_THROWS_AS(embedding(tensor({1}), weight, {.max_norm = -1}), ValueError);
  CHECK_THROWS_AS(embedding(tensor({1}), zeros({2, 2}, {.dtype = kInt64}), {.max_norm = 1}),
                  DTypeError);
  CHECK_THROWS_AS(embedding_bag(tensor({{4}}), weight, {}, {.max_norm = 1}), IndexError);
  CHECK_THROWS_AS(Embedding(4, 2, {.max_norm = -1}), ValueError);
  CHECK_THROWS_AS(EmbeddingBag(4, 2, {.scale_grad_by_freq = true, .mode = BagMode::max}),
                  ValueError);
  CHECK_THROWS_AS(embedding_bag(tensor({{1}}), weight.detach(), {},
                                {.scale_grad_by_freq = true, .mode = BagMode::max}),
                  ValueError);
}

TEST_CASE("gradients through tables with options, to the second order") {
  const auto weight = [] { return rand({4, 3}, {.dtype = kFloat64}).set_requires_grad(); };
  // Numbers agree where no row changes, and none occurs twice.
  const EmbeddingOptions options{.padding_idx = 0, .max_norm = 50, .scale_grad_by_freq = true};
  CHECK(autograd::gradcheck(
      [&](const std::vector<Tensor>& in) {
        return square(embedding(tensor({3, 1, 2}), in[0] * 1.0, options));
      },
      {weight()}, {.second_order = true}));
  CHECK(autograd::gradcheck(
      [&](const std::vector<Tensor>& in) {
        return square(embedding_bag(tensor({3, 1, 2}), in[0] * 1.0, tensor({0, 2}),
                                    {.max_norm = 50, .scale_grad_by_freq = true}));
      },
      {weight()}, {.second_order = true}));
}

TEST_CASE("norms without a bias agree with PyTorch") {
  const LayerNorm norm({2, 3}, {.bias = false});
  CHECK(norm.str() == "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=False)");
  CHECK(norm.named_parameters().size() == 1);
  check("LayerNorm", LayerNorm({2, 3}, {.bias = false}));
  check("GroupNorm", GroupNorm(2, 4, {.bias = false}));
  check("BatchNorm1d", BatchNorm1d(4, {.bias = false}));
  check("BatchNorm2d", BatchNorm2d(4, {.bias = false}));
  check("BatchNorm2d eval", BatchNorm2d(4, {.bias = false}), {}, false);
  check("InstanceNorm1d", InstanceNorm1d(4, {.affine = true, .bias = false}));
  CHECK(GroupNorm(2, 4, {.bias = false}).str() ==
        "GroupNorm(2, 4, eps=1e-05, affine=True, bias=False)");
  CHECK(BatchNorm2d(4, {.bias = false}).str() ==
        "BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=False, "
        "track_running_stats=True)");
  BatchNorm2d bn(2, {.bias = false});
  bn.to(kFloat64);
  CHECK(autograd::gradcheck(
      [&](const std::vector<Tensor>& in) { return bn(in[0]); },
      {randn({3, 2, 2, 1}, {.dtype = kFloat64}).set_requires_grad(), bn.weight}));
}

TEST_CASE("an LSTM with projected hidden states agrees with PyTorch") {
  check_lstm("LSTM", LSTM(3, 5, {.proj_size = 2}));
  const RNNOptions deep{
      .num_layers = 2, .batch_first = true, .dropout = 0.3, .bidirectional = true, .proj_size = 2};
  check_lstm("LSTM deep", LSTM(3, 5, deep));
  check_lstm("LSTM bare", LSTM(3, 5, {.num_layers = 2, .bias = false, .proj_size = 4}));

  LSTM lstm(3, 5, deep);
  CHECK(lstm.str() ==
        "LSTM(3, 5, proj_size=2, num_layers=2, batch_first=True, dropout=0.3, bidirectional=True)");
  CHECK(lstm.named_parameters()[4].first == "weight_hr_l0");
  CHECK(lstm.get_parameter("weight_hr_l1_reverse").shape() == Shape{2, 5});
  CHECK(lstm.get_parameter("weight_hh_l1").shape() == Shape{20, 2});
  CHECK(lstm.get_parameter("weight_ih_l1").shape() == Shape{20, 4});
  const auto [output, state] = lstm(ones({2, 4, 3}));
  CHECK(output.shape() == Shape{2, 4, 4});
  CHECK(state.h.shape() == Shape{4, 2, 2});
  CHECK(state.c.shape() == Shape{4, 2, 5});
  lstm.eval();
  check_equal((*lstm.clone())(ones({2, 4, 3})).output, lstm(ones({2, 4, 3})).output);
  // 8 rows; per direction 20 rows of weights and 2 of the projection.
  const Tensor x = ones({2, 4, 3});
  CHECK(lstm.multiply_adds({&x, 1}, {&output, 1}) == 8 * 2 * (20 * (3 + 2 + 4 + 2) + 2 * 2 * 5));

  LSTM small(2, 3, {.proj_size = 1});
  small.to(kFloat64);
  CHECK(autograd::gradcheck(
      [&](const std::vector<Tensor>& in) {
        const auto [y, s] = small(in[0]);
        return sum(y * y) + sum(s.h) * sum(s.c);
      },
      {randn({3, 2, 2}, {.dtype = kFloat64}).set_requires_grad(), small.parameters()[4]},
      {.second_order = true}));
  CHECK_THROWS_AS(LSTM(3, 5, {.proj_size = 5}), ValueError);
  CHECK_THROWS_AS(LSTM(3, 5, {.proj_size = -1}), ValueError);
  CHECK_THROWS_AS(GRU(3, 5, {.proj_size = 2}), ValueError);
  CHECK_THROWS_AS(RNN(3, 5, {.proj_size = 2}), ValueError);
  CHECK_THROWS_AS(lstm(x, {ones({4, 2, 5}), {}}), ShapeError);
}

namespace {

/// The module overwrites its input: with PyTorch's values and gradients, which is an error of
/// leaves, and of other ops that need the old values.
template <class M>
void check_overwrites(M&& module) {
  const std::string name = module.str();
  CAPTURE(name);
  module.eval();
  const Tensor x = input(name, "x"), h = x * 1.5;
  const Tensor y = module(h);
  CHECK(y.is_same(h));
  // PyTorch keeps some constants in float32.
  check_recorded(name, {{"y", y}}, {{"x", x}}, nullptr, 1e-6);

  CHECK_THROWS_AS(module(randn({3}).set_requires_grad()), AutogradError);
  const Tensor leaf = randn({3}).set_requires_grad(), s = sigmoid(leaf);
  const Tensor overwritten = module(s);
  CHECK_THROWS_AS(overwritten.sum().backward(), AutogradError);
  NoGradGuard guard;
  CHECK(module(leaf).is_same(leaf));
}

/// A dropout in place gives the values and gradients of one that is not; none in evaluation.
template <class M>
void check_dropout(const Shape& shape) {
  M plain(0.4), inplace(0.4, true);
  CAPTURE(inplace.str());
  CHECK(plain.str() == inplace.name() + "(p=0.4, inplace=False)");
  CHECK(inplace.str() == inplace.name() + "(p=0.4, inplace=True)");
  const Tensor x = randn(shape).set_requires_grad();
  const auto run = [&](M& module, Tensor& grad) {
    manual_seed(3);
    const Tensor h = x * 2, y = module(h);
    CHECK(y.is_same(h) == (&module == &inplace));
    x.set_grad({});
    square(y).sum().backward();
    grad = x.grad();
    return y.detach();
  };
  Tensor grads[2];
  check_equal(run(inplace, grads[0]), run(plain, grads[1]));
  check_equal(grads[0], grads[1]);
  CHECK_THROWS_AS(inplace(x), AutogradError);
  M all(1, true);
  CHECK_THROWS_AS(all(x), AutogradError);
  check_equal(all(x.detach().clone()), zeros(shape));
  const Tensor s = sigmoid(x);
  inplace(s);
  CHECK_THROWS_AS(s.sum().backward(), AutogradError);
  inplace.eval();
  CHECK(inplace(x).is_same(x));  // not changed
}

}  // namespace

TEST_CASE("activations overwrite their input as PyTorch's do") {
  const InplaceOptions inplace{.inplace = true};
  check_overwrites(ReLU({.inplace = true})), check_overwrites(ReLU6({.inplace = true}));
  check_overwrites(LeakyReLU(0.2, true)), check_overwrites(ELU(0.7, true)),
      check_overwrites(SELU(inplace));
  check_overwrites(CELU(1.3, true)), check_overwrites(Hardtanh(-0.5, 0.7, true));
  check_overwrites(Hardswish(inplace)), check_overwrites(Hardsigmoid(inplace));
  check_overwrites(SiLU(inplace)), check_overwrites(Mish(inplace)),
      check_overwrites(RReLU(0.1, 0.4, true));
  check_overwrites(Threshold(0.3, 2.5, true));
  check_overwrites(ReLU(true)), check_overwrites(ReLU6(true)), check_overwrites(SELU(true));
  check_overwrites(SiLU(true)), check_overwrites(Mish(true)), check_overwrites(Hardswish(true));
  check_overwrites(Hardsigmoid(true));
  CHECK(ReLU(false).str() == "ReLU()");
  static_assert(!std::is_constructible_v<ReLU, double> && !std::is_constructible_v<ReLU6, int>);
  CHECK(LeakyReLU({.negative_slope = 0.2, .inplace = true}).str() ==
        "LeakyReLU(negative_slope=0.2, inplace=True)");
  SiLU silu(inplace);
  CHECK_THROWS_AS(silu(tensor({1, 2})), DTypeError);

  // Drawn slopes, and second derivatives of those with kernels of their own.
  manual_seed(1);
  const Tensor x = randn({50}) * 2;
  manual_seed(2);
  const Tensor y = RReLU()(x);
  manual_seed(2);
  check_equal(RReLU(1.0 / 8, 1.0 / 3, true)(x.clone()), y);
  for (const auto& activation : std::vector<std::function<Tensor(const Tensor&)>>{
           hardsigmoid_, hardswish_, mish_, [](const Tensor& t) { return silu_(t); }})
    CHECK(autograd::gradcheck(
        [&](const std::vector<Tensor>& in) {
          const Tensor h = in[0] * 2;
          activation(h);
          return h * h;
        },
        {randn({7}, {.dtype = kFloat64}).set_requires_grad()}, {.second_order = true}));
}

TEST_CASE("dropouts overwrite their input in training") {
  check_dropout<Dropout>({3, 4, 5}), check_dropout<Dropout1d>({3, 4, 5});
  check_dropout<Dropout2d>({3, 4, 5, 2}), check_dropout<Dropout3d>({3, 4, 2, 2, 2});
  check_dropout<AlphaDropout>({3, 4, 5}), check_dropout<FeatureAlphaDropout>({3, 4, 5});
  CHECK_THROWS_AS(dropout1d_(ones({3})), ShapeError);
  CHECK_THROWS_AS(alpha_dropout_(tensor({1, 2})), DTypeError);
}

namespace {

class MixingEncoder : public Cloneable<MixingEncoder> {
 public:
  MixingEncoder() { register_module("fc", fc); }
  using Module::forward;
  Tensor forward(const Tensor& src, const TransformerEncoderArguments& a) {
    return tanh(fc(a.mask.defined() ? matmul(a.mask, src) : src));
  }
  Linear fc{4, 4};
};

class ScalingDecoder : public Cloneable<ScalingDecoder> {
 public:
  ScalingDecoder() { register_module("fc", fc); }
  using Module::forward;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderArguments& a) {
    return fc(tgt) * matmul(a.memory_mask, memory).mean(0);
  }
  Linear fc{4, 4, {.bias = false}};
};

}  // namespace

TEST_CASE("a transformer of custom parts agrees with PyTorch") {
  const std::string name = "Transformer";
  Transformer net({.d_model = 4,
                   .nhead = 2,
                   .custom_encoder = MixingEncoder(),
                   .custom_decoder = ScalingDecoder()});
  load(name, net);
  const Tensor src = input(name, "src"), tgt = input(name, "tgt");
  const TransformerArguments arguments{.src_mask = input(name, "src_mask"),
                                       .memory_mask = input(name, "memory_mask")};
  const Tensor y = net(src, tgt, arguments);
  check_recorded(name, {{"y", y}}, {{"src", src}, {"tgt", tgt}}, &net);
  CHECK(net.named_parameters()[0].first == "encoder.fc.weight");
  CHECK(net.encoder.layers.size() == 0);
  CHECK(net.get_submodule("decoder").name() == "ScalingDecoder");

  // Clones and moved ones have parts of their own; the module that was given stays as it is.
  const auto copy = net.clone();
  check_equal((*copy)(src, tgt, arguments), y);
  no_grad([&] { copy->get_parameter("encoder.fc.weight").zero_(); });
  Transformer moved = std::move(net);
  check_equal(moved(src, tgt, arguments), y);
  int calls = 0;
  const auto handle = moved.get_submodule("encoder").register_forward_hook(
      [&](Module&, std::span<const Tensor>, std::span<Tensor>) { ++calls; });
  moved(src, tgt, arguments);
  CHECK(calls == 1);

  // One custom part, beside a stack.
  Transformer half(
      {.d_model = 4, .nhead = 2, .num_decoder_layers = 1, .custom_encoder = MixingEncoder()});
  CHECK(half.encoder.layers.size() == 0);
  CHECK(half.get_parameter("decoder.norm.weight").shape() == Shape{4});
  CHECK(half(ones({3, 2, 4}), ones({5, 2, 4})).shape() == Shape{5, 2, 4});
}
