#include "ferrite/nn/recurrent.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/functional_call.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/weight_norm.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/adam.h"
#include "ferrite/tests/nn/layer_table.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

const test::Golden& golden() {
  static const test::Golden g("sequence");
  return g;
}

Tensor leaf(const std::string& name, const std::string& key) {
  if (!golden().has(name, key)) return {};
  return golden().get(name, key).clone().set_requires_grad();
}

void load(const std::string& name, nn::Module& module) {
  module.to(kFloat64);
  StateDict state;
  for (const auto& [key, t] : module.state_dict())
    state.insert(key, golden().get(name, "state." + key));
  REQUIRE(module.load_state_dict(state).complete());
}

using Named = std::vector<std::pair<std::string, Tensor>>;

/// Checks outputs and, from the recorded gradients of the outputs, the gradients of parameters and
/// `inputs`.
void check_recorded(const std::string& name, const nn::Module& module, const Named& outputs,
                    const Named& inputs) {
  Tensor loss = zeros({}, {.dtype = kFloat64});
  for (const auto& [key, y] : outputs) {
    CAPTURE(key);
    check_close(y, golden().get(name, key), 1e-11, 1e-12);
    loss = loss + sum(y * golden().get(name, "d_" + key));
  }
  loss.backward();
  for (const auto& [key, p] : module.named_parameters()) {
    CAPTURE(key);
    check_close(p.grad(), golden().get(name, "grad." + key), 1e-10, 1e-11);
  }
  for (const auto& [key, x] : inputs) {
    CAPTURE(key);
    if (x.defined()) check_close(x.grad(), golden().get(name, "grad_" + key), 1e-10, 1e-11);
  }
}

void check(const std::string& name, nn::LSTM&& lstm) {
  CAPTURE(name);
  lstm.eval();
  load(name, lstm);
  const Tensor x = leaf(name, "x"), h_0 = leaf(name, "h_0"), c_0 = leaf(name, "c_0");
  const auto [output, state] = lstm(x, {h_0, c_0});
  check_recorded(name, lstm, {{"output", output}, {"h_n", state.h}, {"c_n", state.c}},
                 {{"x", x}, {"h_0", h_0}, {"c_0", c_0}});
}

void check(const std::string& name, nn::GRU&& gru) {
  CAPTURE(name);
  gru.eval();
  load(name, gru);
  const Tensor x = leaf(name, "x"), h_0 = leaf(name, "h_0");
  const auto [output, h_n] = gru(x, h_0);
  check_recorded(name, gru, {{"output", output}, {"h_n", h_n}}, {{"x", x}, {"h_0", h_0}});
}

/// Of packed sequences.
template <class Layer>
void check_packed(const std::string& name, Layer&& layer, bool enforce_sorted) {
  CAPTURE(name);
  load(name, layer);
  const Tensor x = leaf(name, "x"), h_0 = leaf(name, "h_0"), c_0 = leaf(name, "c_0");
  const nn::PackedSequence packed =
      nn::utils::rnn::pack_padded_sequence(x, golden().get(name, "lengths"), false, enforce_sorted);
  const auto check_part = [&](const char* key, const Tensor& t) {
    CAPTURE(key);
    REQUIRE(t.defined() == golden().has(name, key));
    if (t.defined()) check_equal(t.detach(), golden().get(name, key));
  };
  check_part("data", packed.data);
  check_part("batch_sizes", packed.batch_sizes);
  check_part("sorted_indices", packed.sorted_indices);
  check_part("unsorted_indices", packed.unsorted_indices);
  const auto run = [&] {
    if constexpr (std::is_same_v<Layer, nn::LSTM>) {
      const auto [output, state] = layer(packed, {h_0, c_0});
      return std::pair(output, cat({state.h, state.c}, -1));
    } else {
      const auto [output, h_n] = layer(packed, h_0);
      return std::pair(output, h_n);
    }
  };
  const auto [output, last] = run();
  const auto [padded, lengths] = nn::utils::rnn::pad_packed_sequence(output, false, 0.5);
  check_equal(lengths, golden().get(name, "lengths"));
  check_recorded(name, layer, {{"output", output.data}, {"padded", padded}, {"last", last}},
                 {{"x", x}, {"h_0", h_0}, {"c_0", c_0}});
}

const nn::RNNOptions kDeep{
    .num_layers = 2, .batch_first = true, .dropout = 0.3, .bidirectional = true};

std::string names(const nn::Module& module) {
  std::string text;
  for (const auto& [name, p] : module.named_parameters()) text += name + " ";
  return text;
}

}  // namespace

TEST_CASE("LSTM and GRU: outputs, states and gradients agree with PyTorch") {
  check("lstm", nn::LSTM(3, 4));
  check("lstm_deep", nn::LSTM(3, 4, kDeep));
  check("lstm_bare", nn::LSTM(3, 4, {.bias = false}));
  check("gru", nn::GRU(3, 4));
  check("gru_deep", nn::GRU(3, 4, kDeep));
  check("gru_bare", nn::GRU(3, 4, {.bias = false}));
}

TEST_CASE("packed sequences: outputs, states and gradients agree with PyTorch") {
  check_packed("lstm_packed", nn::LSTM(3, 4, {.num_layers = 2, .bidirectional = true}), false);
  check_packed("lstm_packed_proj", nn::LSTM(3, 4, {.proj_size = 2}), true);
  check_packed("gru_packed", nn::GRU(3, 4, {.bidirectional = true}), true);
  check_packed("rnn_packed", nn::RNN(3, 4, {}, nn::Nonlinearity::relu), false);
}

TEST_CASE("an LSTM agrees with its cell step by step, and has second derivatives") {
  manual_seed(5);
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    nn::LSTM lstm(3, 4, {.bidirectional = reverse});
    lstm.to(kFloat64);
    const std::string suffix = reverse ? "_l0_reverse" : "_l0";
    nn::LSTMCell cell(3, 4);
    cell.to(kFloat64);
    const auto parameter = [&](const std::string& wanted) {
      for (const auto& [name, p] : lstm.named_parameters())
        if (name == wanted + suffix) return p;
      return Tensor();
    };
    cell.weight_ih = parameter("weight_ih"), cell.weight_hh = parameter("weight_hh");
    cell.bias_ih = parameter("bias_ih"), cell.bias_hh = parameter("bias_hh");

    const TensorOptions options{.dtype = kFloat64};
    const Tensor x = randn({5, 2, 3}, options).set_requires_grad(),
                 weights = randn({5, 2, 4}, options), of_c = randn({2, 4}, options);
    Tensor h = zeros({2, 4}, options), c = h, by_cell = zeros({}, options);
    for (std::int64_t i = 0; i < 5; ++i) {
      const std::int64_t t = reverse ? 4 - i : i;
      std::tie(h, c) = cell(x[t], {h, c});
      by_cell = by_cell + sum(h * weights[t]);
    }
    by_cell = by_cell + sum(c * of_c);
    const auto [output, state] = lstm(x);
    const Tensor by_layer =
        sum(output.narrow(2, reverse ? 4 : 0, 4) * weights) + sum(state.c[reverse ? 1 : 0] * of_c);
    check_close(by_layer, by_cell, 1e-12, 1e-13);
    const std::vector<Tensor> inputs{x, cell.weight_ih, cell.weight_hh, cell.bias_ih};
    const std::vector<Tensor> expected = autograd::grad(std::vector{by_cell}, inputs),
                              got = autograd::grad(std::vector{by_layer}, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      check_close(got[i], expected[i], 1e-11, 1e-12);
    }
  }

  nn::LSTM lstm(2, 2);
  lstm.to(kFloat64);
  const auto run = [&](const std::vector<Tensor>& in) {
    const auto [output, state] = lstm(in[0], {in[1], in[2]});
    return sum(output * output) + sum(state.h) * sum(state.c * state.c);
  };
  const auto draw = [](const Shape& shape) {
    return randn(shape, {.dtype = kFloat64}).set_requires_grad();
  };
  CHECK(autograd::gradcheck(run, {draw({3, 2, 2}), draw({1, 2, 2}), draw({1, 2, 2})},
                            {.second_order = true}));
  // The tape notices where what it needs was changed.
  const Tensor x = draw({3, 2, 2});
  const auto [output, state] = lstm(x);
  const Tensor loss = sum(output * output);
  no_grad([&] { output.mul_(2); });
  CHECK_THROWS_AS(loss.backward(), AutogradError);
}

TEST_CASE("LSTMCell and GRUCell agree with PyTorch, and with a step of their layers") {
  nn::LSTMCell lstm(3, 4);
  load("lstm_cell", lstm);
  const Tensor x = leaf("lstm_cell", "x"), h = leaf("lstm_cell", "h"), c = leaf("lstm_cell", "c");
  const auto [h_1, c_1] = lstm(x, {h, c});
  check_recorded("lstm_cell", lstm, {{"h_1", h_1}, {"c_1", c_1}}, {{"x", x}, {"h", h}, {"c", c}});
  nn::GRUCell gru(3, 4, {.bias = false});
  load("gru_cell", gru);
  const Tensor y = leaf("gru_cell", "x"), g = leaf("gru_cell", "h");
  check_recorded("gru_cell", gru, {{"h_1", gru(y, g)}}, {{"x", y}, {"h", g}});

  nn::LSTM layer(3, 4);
  layer.to(kFloat64);
  for (const auto& [name, p] : layer.named_parameters())
    p.detach().copy_(lstm.state_dict().at(name.substr(0, name.size() - 3)));
  check_equal(layer(x.unsqueeze(0)).state.h.select(0, 0), lstm(x).h);
  check_equal(static_cast<nn::Module&>(lstm)(x), lstm(x).h);
  CHECK(names(gru) == "weight_ih weight_hh ");
  CHECK(lstm.str() == "LSTMCell(3, 4)");
  CHECK(gru.str() == "GRUCell(3, 4, bias=False)");
  CHECK_THROWS_AS(lstm(ones({2, 4}, {.dtype = kFloat64})), ShapeError);
  CHECK_THROWS_AS(gru(y, x), ShapeError);
}

TEST_CASE("cells take one sample without a batch") {
  const Tensor x = test::make_values({1, 3}, kFloat32, {}),
               h = test::make_values({1, 4}, kFloat32, {});
  nn::LSTMCell lstm(3, 4);
  const auto [h_1, c_1] = lstm(x[0], {h[0], h[0]});
  const auto [h_2, c_2] = lstm(x, {h, h});
  check_equal(h_1, h_2[0]);
  check_equal(c_1, c_2[0]);
  check_equal(lstm(x[0]).h, lstm(x).h[0]);
  nn::GRUCell gru(3, 4);
  check_equal(gru(x[0], h[0]), gru(x, h)[0]);
  check_equal(gru(x[0]), gru(x)[0]);
  nn::RNNCell rnn(3, 4);
  check_equal(rnn(x[0], h[0]), rnn(x, h)[0]);
  check_equal(rnn(x[0]), rnn(x)[0]);
  CHECK_THROWS_AS(rnn(x[0], h), ShapeError);
  CHECK_THROWS_AS(rnn(x, h[0]), ShapeError);
  CHECK_THROWS_AS(gru(h[0]), ShapeError);
  CHECK_THROWS_AS(gru(x.unsqueeze(0)), ShapeError);
}

TEST_CASE("recurrent layers: names, initial weights, text, clones") {
  const nn::LSTM lstm(3, 4, kDeep);
  CHECK(names(lstm) ==
        "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 weight_ih_l0_reverse "
        "weight_hh_l0_reverse bias_ih_l0_reverse bias_hh_l0_reverse weight_ih_l1 weight_hh_l1 "
        "bias_ih_l1 bias_hh_l1 weight_ih_l1_reverse weight_hh_l1_reverse bias_ih_l1_reverse "
        "bias_hh_l1_reverse ");
  CHECK(lstm.str() ==
        "LSTM(3, 4, num_layers=2, batch_first=True, dropout=0.3, bidirectional=True)");
  CHECK(nn::GRU(5, 6, {.bias = false}).str() == "GRU(5, 6, bias=False)");
  for (const Tensor& p : nn::GRU(30, 25).parameters()) {
    CHECK(p.detach().abs().max().item<double>() <= 0.2);
    CHECK(p.detach().abs().max().item<double>() > 0.18);
    CHECK(std::abs(p.detach().mean().item<double>()) < 0.05);
  }

  const Tensor x = test::make_values({2, 5, 3}, kFloat32, {});
  nn::LSTM original(3, 4, {.batch_first = true});
  const std::unique_ptr<nn::LSTM> copy = original.clone();
  check_equal((*copy)(x).output, original(x).output);
  original.parameters()[1].detach().zero_();
  CHECK(copy->parameters()[1].detach().abs().max().item<double>() > 0);
  nn::Sequential net(std::move(*copy), nn::Linear(4, 2));
  CHECK(net(x).shape() == Shape{2, 5, 2});
}

TEST_CASE("recurrent layers count multiply-adds, and hooks see all outputs") {
  nn::LSTM lstm(3, 4, kDeep);
  int outputs_seen = 0;
  lstm.register_forward_hook(
      [&](nn::Module& module, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
        outputs_seen = static_cast<int>(outputs.size());
        // 10 rows; per direction 16 rows of weights; layers with 3 and 8 inputs, and 4 states.
        CHECK(module.multiply_adds(inputs, outputs) == 10 * 2 * 16 * (3 + 4 + 8 + 4));
      });
  const auto [output, state] = lstm(ones({2, 5, 3}));
  CHECK(outputs_seen == 3);
  const Tensor rows[] = {ones({2, 3}), ones({2, 4})};
  CHECK(nn::GRUCell(3, 4).multiply_adds({rows, 1}, {rows + 1, 1}) == 2 * 12 * (3 + 4));
}

TEST_CASE("an initial state elsewhere than the input is refused") {
  const Tensor x = ones({2, 1, 3}), near = zeros({1, 1, 4}), far = near.to("cpu:0");
  nn::LSTM lstm(3, 4);
  CHECK_THROWS_WITH_AS(lstm(x, {near, far}), doctest::Contains("cpu:0"), DeviceError);
  CHECK_THROWS_AS(lstm(x, {far, near}), DeviceError);
  const auto packed = nn::utils::rnn::pack_sequence({x.squeeze(1)});
  CHECK_THROWS_AS(lstm(packed, {far, near}), DeviceError);
  CHECK_THROWS_AS(nn::GRU(3, 4)(x, far), DeviceError);
}

TEST_CASE("what an LSTM returns is taken apart as in PyTorch and in libtorch") {
  nn::LSTM lstm(3, 4);
  const Tensor x = ones({2, 5, 3});
  auto [output, state] = lstm(x);
  auto [h_n, c_n] = state;
  check_equal(std::get<0>(lstm(x)), output);
  check_equal(std::get<0>(std::get<1>(lstm(x))), h_n);
  Tensor a, b, c;
  std::tie(a, b, c) = lstm(x);
  check_equal(a, output);
  check_equal(b, h_n);
  check_equal(c, c_n);
  nn::LSTMState last;
  std::tie(a, last) = lstm(x);
  check_equal(last.c, c_n);
  // States go on, in any of the forms.
  const Tensor next = lstm(x, state).output;
  CHECK((next - output).abs().max().item<double>() > 1e-3);
  check_equal(lstm(x, {h_n, c_n}).output, next);
  check_equal(lstm(x, std::make_tuple(h_n, c_n)).output, next);
  check_equal(lstm.forward(x, std::make_tuple(h_n, c_n)).output, next);
  std::tuple<Tensor, Tensor> pair = state;
  check_equal(std::get<1>(pair), c_n);
  nn::GRU gru(3, 4);
  std::tie(a, b) = gru(x);
  check_equal(std::get<1>(gru(x)), b);
  auto [g, h] = gru(x, b);
  CHECK(g.shape() == Shape{2, 5, 4});
}

TEST_CASE("recurrent layers take computed and repeated weights under their names") {
  manual_seed(5);
  const Tensor x = rand({5, 2, 3});
  const auto check_computed = [&](auto layer, const std::string& name) {
    CAPTURE(name);
    const Tensor before = layer(x).output.detach();
    nn::utils::weight_norm(layer, name);
    check_close(layer(x).output, before, 1e-5, 1e-6);
    layer(x).output.sum().backward();
    CHECK(layer.get_parameter(name + "_v").grad().defined());
    CHECK(layer.get_parameter(name + "_g").grad().defined());
    check_close((*layer.clone())(x).output, before, 1e-5, 1e-6);
    nn::utils::remove_weight_norm(layer, name);
    check_close(layer(x).output, before, 1e-5, 1e-6);
  };
  const nn::RNNOptions options{.num_layers = 2, .bidirectional = true};
  check_computed(nn::LSTM(3, 4, options), "weight_hh_l0");
  check_computed(nn::LSTM(3, 4, options), "weight_ih_l1_reverse");
  check_computed(nn::LSTM(3, 4, {.proj_size = 2}), "weight_hr_l0");
  check_computed(nn::GRU(3, 3, options), "weight_hh_l0");
  check_computed(nn::GRU(3, 3), "bias_hh_l0");
  check_computed(nn::RNN(3, 3), "weight_ih_l0");

  nn::RNN rnn(3, 4);
  const Tensor bias = rand({4});
  StateDict once, twice;
  once.insert("bias_ih_l0", bias), once.insert("bias_hh_l0", bias.clone());
  twice.insert("bias_ih_l0", bias), twice.insert("bias_hh_l0", bias);
  const Tensor none;
  check_equal(nn::functional_call(rnn, twice, x, none).output,
              nn::functional_call(rnn, once, x, none).output);
}

TEST_CASE("LSTM and GRU under autocast") {
  const auto check_mixed = [](auto&& layer) {
    const Tensor x = test::make_values({5, 2, 3}, kFloat32, {});
    const Tensor full = layer(x).output;
    const AutocastGuard guard({.dtype = kBFloat16});
    check_close(layer(x).output, full, 0.03, 0.03);
    const Tensor y = layer(x.to(kBFloat16)).output;
    check_close(y, full, 0.03, 0.03);
    y.sum().backward();
    for (const Tensor& p : layer.parameters()) CHECK(p.grad().dtype() == kFloat32);
  };
  check_mixed(nn::LSTM(3, 4, {.num_layers = 2}));
  check_mixed(nn::GRU(3, 4, {.bidirectional = true}));
}

TEST_CASE("recurrent layers apply dropout between layers, only in training") {
  manual_seed(1);
  nn::GRU gru(3, 40, {.num_layers = 2, .dropout = 0.5});
  const Tensor x = test::make_values({4, 2, 3}, kFloat32, {});
  const Tensor first = gru(x).output.detach(), second = gru(x).output.detach();
  CHECK((first - second).abs().max().item<double>() > 1e-3);
  gru.eval();
  check_equal(gru(x).output, gru(x).output);
}

TEST_CASE("recurrent layers reject wrong shapes and options") {
  nn::LSTM lstm(3, 4, {.num_layers = 2});
  const Tensor x = ones({5, 2, 3});
  CHECK_THROWS_WITH_AS(lstm(ones({5, 2, 4})),
                       "[LSTM] expected inputs of size 3, got float32[5, 2, 4] on cpu", ShapeError);
  CHECK_THROWS_AS(lstm(ones({3})), ShapeError);
  CHECK_THROWS_AS(lstm(ones({0, 2, 3})), ShapeError);
  CHECK_THROWS_AS(lstm(Tensor()), ShapeError);
  CHECK_THROWS_AS(lstm(x, {ones({1, 2, 4}), ones({2, 2, 4})}), ShapeError);
  CHECK_THROWS_AS(lstm(x, {ones({2, 2, 4}), ones({2, 4})}), ShapeError);
  CHECK_THROWS_AS(lstm(ones({5, 3}), {ones({2, 1, 4}), {}}), ShapeError);
  CHECK_THROWS_AS(nn::LSTM(0, 4), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.num_layers = 0}), ValueError);
  CHECK_THROWS_AS(nn::GRU(3, 4, {.dropout = 1.5}), ValueError);
  CHECK(lstm(ones({5, 0, 3})).state.h.shape() == Shape{2, 0, 4});
}

namespace {

/// The loss after learning to report, at the end of a sequence of random bits, whether the first
/// bit was 1.
template <class Recurrent>
double learn_to_remember() {
  constexpr std::int64_t kSteps = 6, kBatch = 32;
  manual_seed(2);
  Recurrent layer(1, 12);
  nn::Linear head(12, 2);
  std::vector<Tensor> parameters = layer.parameters();
  for (const Tensor& p : head.parameters()) parameters.push_back(p);
  optim::Adam adam(parameters, {.lr = 0.02});
  double last = 0;
  for (int step = 0; step < 120; ++step) {
    const Tensor bits = randint(2, {kSteps, kBatch, 1});
    const Tensor output = layer(bits.to(kFloat32) * 2 - 1).output;
    const Tensor loss = cross_entropy(head(output.select(0, -1)), bits.select(0, 0).reshape({-1}));
    adam.zero_grad();
    loss.backward();
    adam.step();
    last = loss.item<double>();
  }
  return last;
}

}  // namespace

TEST_CASE("LSTM and GRU learn to remember") {
  CHECK(learn_to_remember<nn::LSTM>() < 0.1);  // by chance: 0.69
  CHECK(learn_to_remember<nn::GRU>() < 0.1);
}
