#include "ferrite/nn/transformer.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/programs/recorded.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/hash.h"

using namespace ferrite;
using test::check_close;

namespace {

Tensor values(std::uint32_t seed, const Shape& shape) {
  return test::hash_uniform(shape, seed, 3).to(kFloat64).set_requires_grad();
}

Tensor causal(std::int64_t size) {
  return nn::Transformer::generate_square_subsequent_mask(size, {.dtype = kFloat64});
}

/// What PyTorch 2.15 gives in float64 for the weights of test::set_weights: sums of the output and
/// of its magnitudes, its fourth element, and sums of the magnitudes of the gradients of parameters
/// and inputs where the output's is values(99).
using Recorded = std::array<double, 5>;

template <class Net, class Call>
void check_recorded(const char* name, Net&& net, const std::vector<Tensor>& inputs, Call&& call,
                    const Recorded& recorded) {
  CAPTURE(name);
  test::set_weights(net);
  net.to(kFloat64);
  const Tensor out = call(net);
  out.backward(values(99, out.shape()).detach());
  Recorded found{out.sum().item<double>(), out.abs().sum().item<double>(),
                 out.reshape({-1})[3].item<double>()};
  for (const Tensor& p : net.parameters()) found[3] += p.grad().abs().sum().item<double>();
  for (const Tensor& x : inputs) found[4] += x.grad().abs().sum().item<double>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(recorded[i]).epsilon(1e-10));
  }
}

const Tensor& padding() {
  static const Tensor mask = ge(arange(5), tensor({{5}, {3}}));
  return mask;
}

}  // namespace

TEST_CASE("transformer layers agree with PyTorch") {
  const nn::TransformerLayerOptions plain{.dim_feedforward = 16, .dropout = 0};
  Tensor x = values(70, {5, 2, 8});
  check_recorded(
      "encoder layer", nn::TransformerEncoderLayer(8, 2, plain), {x},
      [&](auto& net) { return net(x, {.mask = causal(5), .src_key_padding_mask = padding()}); },
      {1.0879062836568645, 66.34532448766598, 0.5839329805228509, 382.97262131895127,
       60.51024293917273});
  x = values(70, {2, 5, 8});
  check_recorded("encoder layer, norm first",
                 nn::TransformerEncoderLayer(8, 2,
                                             {.dim_feedforward = 16,
                                              .dropout = 0,
                                              .activation = "gelu",
                                              .layer_norm_eps = 1e-3,
                                              .batch_first = true,
                                              .norm_first = true,
                                              .bias = false}),
                 {x}, [&](auto& net) { return net(x, {.mask = causal(5), .is_causal = true}); },
                 {-0.9333570827842914, 63.210308840401865, 0.6495137515427044, 427.2635049627566,
                  64.77569110842529});
  Tensor y = values(70, {4, 2, 8}), memory = values(71, {5, 2, 8});
  check_recorded("decoder layer", nn::TransformerDecoderLayer(8, 2, plain), {y, memory},
                 [&](auto& net) {
                   return net(y, memory,
                              {.tgt_mask = causal(4),
                               .memory_mask = values(72, {4, 5}).detach(),
                               .memory_key_padding_mask = padding()});
                 },
                 {-1.9798841512221865, 55.61647303706845, 0.866586674757005, 346.86272439078846,
                  46.40352386932446});
  y = values(70, {4, 2, 8}), memory = values(71, {5, 2, 8});
  check_recorded(
      "decoder layer, norm first",
      nn::TransformerDecoderLayer(8, 2,
                                  {.dim_feedforward = 16,
                                   .dropout = 0,
                                   .activation = [](const Tensor& t) { return tanh(t); },
                                   .norm_first = true}),
      {y, memory},
      [&](auto& net) { return net(y, memory, {.tgt_mask = causal(4), .tgt_is_causal = true}); },
      {0.557733027700861, 52.30148252484733, -0.18201477675151911, 494.0820764661635,
       62.774908019442606});
}

TEST_CASE("Transformer agrees with PyTorch: results, names, initial weights, dropout") {
  const nn::TransformerOptions options{.d_model = 8,
                                       .nhead = 2,
                                       .num_encoder_layers = 2,
                                       .num_decoder_layers = 2,
                                       .dim_feedforward = 12,
                                       .dropout = 0};
  const Tensor src = values(70, {5, 2, 8}), tgt = values(71, {4, 2, 8});
  nn::Transformer net(options);
  CHECK(net.parameters().size() == 64);
  CHECK(net.named_parameters()[12].first == "encoder.layers.1.self_attn.in_proj_weight");
  CHECK(net.get_parameter("decoder.layers.1.multihead_attn.out_proj.bias").shape() == Shape{8});
  CHECK(net.get_parameter("encoder.norm.weight").shape() == Shape{8});
  const Tensor first = net.get_parameter("encoder.layers.0.linear1.weight").detach();
  CHECK(first.abs().max().item<double>() <= std::sqrt(6.0 / 20));
  CHECK((first - net.get_parameter("encoder.layers.1.linear1.weight")).abs().max().item<double>() >
        0.01);
  check_recorded("transformer", net, {src, tgt},
                 [&](auto& t) {
                   return t(src, tgt,
                            {.tgt_mask = causal(4),
                             .src_key_padding_mask = padding(),
                             .memory_key_padding_mask = padding()});
                 },
                 {0.4472594909182126, 54.829643910678115, 0.43615538404040255, 1883.854115449139,
                  94.55551684063803});
  const auto copy = net.clone();
  test::check_equal((*copy)(src, tgt), net(src, tgt));

  nn::TransformerEncoder dropping(nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 12}), 2);
  const Tensor x = src.detach().to(kFloat32);
  CHECK((dropping(x) - dropping(x)).abs().max().item<double>() > 1e-3);
  dropping.eval();
  test::check_equal(dropping(x), dropping(x));
  CHECK_THROWS_AS(nn::TransformerEncoderLayer(8, 2, {.activation = "elu"}), ValueError);
  CHECK_THROWS_AS(nn::TransformerEncoderLayer(8, 3), ValueError);
  CHECK_THROWS_AS(dropping(x, {.is_causal = true}), ValueError);
}

TEST_CASE("MultiheadAttention with appended keys agrees with PyTorch, with and without weights") {
  for (const bool weights : {false, true}) {
    const Tensor x = values(70, {5, 2, 8}), y = values(71, {5, 2, 8});
    check_recorded(
        "attention", nn::MultiheadAttention(8, 2, {.add_bias_kv = true, .add_zero_attn = true}),
        {x, y},
        [&](nn::MultiheadAttention& net) {
          const auto [out, shares] = net(x, y, y,
                                         {.key_padding_mask = padding(),
                                          .need_weights = weights,
                                          .attn_mask = triu(ones({5, 5}, {.dtype = kBool}), 1)});
          CHECK(shares.defined() == weights);
          if (weights) {
            CHECK(shares.shape() == Shape{2, 5, 7});
            CHECK(shares[0][0][0].item<double>() == doctest::Approx(0.3240953707238547));
          }
          return out;
        },
        {3.2106602169388636, 16.287745727717645, 0.25418596697015894, 75.54266707809349,
         13.357616037122302});
  }
}

TEST_CASE("RMSNorm agrees with PyTorch") {
  const Tensor x = values(70, {2, 3, 4});
  nn::RMSNorm norm(4, {.eps = 1e-3});
  CHECK(norm.str() == "RMSNorm((4,), eps=0.001, elementwise_affine=True)");
  CHECK(nn::RMSNorm({2, 4}, {.elementwise_affine = false}).str() ==
        "RMSNorm((2, 4), eps=None, elementwise_affine=False)");
  norm.to(kFloat64);
  no_grad([&] { norm.weight.copy_(values(71, {4})); });
  const Tensor y = norm(x);
  y.backward(values(99, y.shape()).detach());
  check_close(y.reshape({-1}).narrow(0, 0, 3),
              {0.6375644453668574, -0.0908709250461358, -0.9367313016598927}, 1e-12);
  CHECK(y.sum().item<double>() == doctest::Approx(3.0770536038773995).epsilon(1e-12));
  CHECK(x.grad().abs().sum().item<double>() == doctest::Approx(12.499997708358913).epsilon(1e-11));
  check_close(norm.weight.grad(),
              {1.1748681222448407, -0.4446069043447739, 2.4343089948845797, 1.438254745147267},
              1e-11);
}
