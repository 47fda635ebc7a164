#include "ferrite/nn/attention.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/nn/linear.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/optim/adam.h"
#include "ferrite/tests/nn/layer_table.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

void check(const std::string& name, nn::MultiheadAttention&& attention,
           nn::AttentionArguments arguments = {}) {
  static const test::Golden golden("sequence");
  CAPTURE(name);
  attention.to(kFloat64);
  StateDict state;
  for (const auto& [key, t] : attention.state_dict())
    state.insert(key, golden.get(name, "state." + key));
  REQUIRE(attention.load_state_dict(state).complete());
  if (golden.has(name, "attn_mask")) arguments.attn_mask = golden.get(name, "attn_mask");
  if (golden.has(name, "key_padding_mask"))
    arguments.key_padding_mask = golden.get(name, "key_padding_mask");
  const auto leaf = [&](const char* key) {
    return golden.get(name, key).clone().set_requires_grad();
  };
  const Tensor query = leaf("query"), key = leaf("key"), value = leaf("value");
  const auto [output, weights] = attention(query, key, value, arguments);
  check_close(output, golden.get(name, "output"), 1e-11, 1e-12);
  check_close(weights, golden.get(name, "weights"), 1e-11, 1e-12);
  (sum(output * golden.get(name, "d_output")) + sum(weights * golden.get(name, "d_weights")))
      .backward();
  for (const auto& [k, p] : attention.named_parameters()) {
    CAPTURE(k);
    check_close(p.grad(), golden.get(name, "grad." + k), 1e-10, 1e-11);
  }
  check_close(query.grad(), golden.get(name, "grad_query"), 1e-10, 1e-11);
  check_close(key.grad(), golden.get(name, "grad_key"), 1e-10, 1e-11);
  check_close(value.grad(), golden.get(name, "grad_value"), 1e-10, 1e-11);
}

std::string names(const nn::Module& module) {
  std::string text;
  for (const auto& [name, p] : module.named_parameters()) text += name + " ";
  return text;
}

}  // namespace

TEST_CASE("MultiheadAttention: output, weights and gradients agree with PyTorch") {
  check("attention", nn::MultiheadAttention(6, 2));
  check("attention_cross",
        nn::MultiheadAttention(6, 3, {.bias = false, .kdim = 5, .vdim = 2, .batch_first = true}),
        {.average_attn_weights = false});
  check("attention_each", nn::MultiheadAttention(6, 2));
  check("attention_causal", nn::MultiheadAttention(6, 1));
}

TEST_CASE("MultiheadAttention: names, initial weights, text, clones") {
  nn::MultiheadAttention attention(8, 2);
  CHECK(names(attention) == "in_proj_weight in_proj_bias out_proj.weight out_proj.bias ");
  CHECK(names(nn::MultiheadAttention(8, 2, {.bias = false, .kdim = 3})) ==
        "q_proj_weight k_proj_weight v_proj_weight out_proj.weight ");
  CHECK(attention.str() ==
        "MultiheadAttention(\n  (out_proj): Linear(in_features=8, out_features=8, bias=True)\n)");
  check_equal(attention.in_proj_bias.detach(), zeros({24}));
  check_equal(attention.out_proj.bias.detach(), zeros({8}));
  const double bound = std::sqrt(6.0 / (24 + 8));
  const double largest = attention.in_proj_weight.detach().abs().max().item<double>();
  CHECK(largest <= bound);
  CHECK(largest > 0.9 * bound);

  const Tensor x = test::make_values({3, 2, 8}, kFloat32, {});
  const std::unique_ptr<nn::MultiheadAttention> copy = attention.clone();
  check_equal((*copy)(x), attention(x));
  check_close(attention(x), attention(x, x, x).output, 1e-5, 1e-6);  // weights kept, or not
  const auto [output, weights] = attention(x, x, x, {.need_weights = false});
  CHECK(!weights.defined());
  check_equal(output, attention(x));
  check_close(attention(x, x, x).weights.sum({-1}), ones({2, 3}), 1e-5);

  const Tensor inputs[] = {x, ones({5, 2, 8}), ones({5, 2, 8})};
  // Three projections; products of 3 queries with 5 keys in each of 2 batches, and of their
  // weights.
  CHECK(attention.multiply_adds(inputs, {}) == 8 * (6 + 10 + 10) * 8 + 2 * 2 * 3 * 5 * 8);

  nn::MultiheadAttention dropping(8, 2, {.dropout = 0.5});
  CHECK((dropping(x) - dropping(x)).abs().max().item<double>() > 1e-4);
  dropping.eval();
  check_equal(dropping(x), dropping(x));
}

TEST_CASE("MultiheadAttention under autocast") {
  nn::MultiheadAttention attention(8, 2);
  const Tensor x = test::make_values({3, 2, 8}, kFloat32, {});
  const Tensor mask = zeros({3, 3});
  const Tensor full = attention(x, x, x, {.attn_mask = mask}).output;
  const AutocastGuard guard({.dtype = kBFloat16});
  const Tensor y = attention(x, x.to(kBFloat16), x, {.attn_mask = mask}).output;
  CHECK(y.dtype() == kBFloat16);
  check_close(y, full, 0.03, 0.03);
  y.sum().backward();
  for (const Tensor& p : attention.parameters()) CHECK(p.grad().dtype() == kFloat32);
}

TEST_CASE("MultiheadAttention of 16-bit types: finite masks stay finite") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    CAPTURE(dtype);
    nn::MultiheadAttention attention(8, 2);
    attention.to(dtype);
    const Tensor x = test::make_values({3, 2, 8}, kFloat32, {}).to(dtype);
    // In PyTorch's float32 the shares of a row of -1e9 are equal; -inf would make them NaN.
    const Tensor mask = full({3, 3}, -1e9), padding = full({2, 3}, -1e9);
    for (const bool both : {false, true}) {
      const auto [output, weights] =
          attention(x, x, x, {.key_padding_mask = both ? padding : Tensor(), .attn_mask = mask});
      CHECK(output.dtype() == dtype);
      check_close(weights.to(kFloat32), full({2, 3, 3}, 1.0 / 3), 0.02, 0.02);
      CHECK(isfinite(output).all().item<bool>());
    }
    // The sum of float16's lowest numbers.
    const Tensor low = full({3, 3}, -65504, {.dtype = dtype});
    CHECK(isfinite(
              attention(x, x, x, {.key_padding_mask = low.slice(0, 0, 2), .attn_mask = low}).output)
              .all()
              .item<bool>());
    const Tensor never = full({3, 3}, -INFINITY);
    never.select(1, 0).fill_(0);
    check_close(attention(x, x, x, {.attn_mask = never}).weights.to(kFloat32).select(2, 0),
                ones({2, 3}), 0);
  }
}

TEST_CASE("MultiheadAttention rejects wrong shapes and dtypes") {
  nn::MultiheadAttention attention(6, 2);
  const Tensor x = ones({4, 3, 6}), y = ones({5, 3, 6});
  CHECK_THROWS_WITH_AS(attention(x, ones({4, 3, 5}), x),
                       "[MultiheadAttention] expected a key of 6 features, got float32[4, 3, 5] on "
                       "cpu",
                       ShapeError);
  CHECK_THROWS_AS(attention(x, y, x), ShapeError);
  CHECK_THROWS_AS(attention(x, ones({4, 2, 6}), ones({4, 2, 6})), ShapeError);
  CHECK_THROWS_AS(attention(x, ones({4, 6}), ones({4, 6})), ShapeError);
  CHECK_THROWS_AS(attention(Tensor()), ShapeError);
  CHECK_THROWS_AS(attention(x, y, y, {.attn_mask = zeros({5, 4})}), ShapeError);
  CHECK_THROWS_AS(attention(x, y, y, {.key_padding_mask = zeros({3, 4})}), ShapeError);
  CHECK_THROWS_AS(attention(x, y, y, {.attn_mask = zeros({4, 5}, {.dtype = kInt64})}), DTypeError);
  CHECK_THROWS_AS(nn::MultiheadAttention(6, 4), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(6, 2, {.dropout = 2}), ValueError);
}

TEST_CASE("attention learns to look up the value of the key that the query names") {
  constexpr std::int64_t kKeys = 4, kBatch = 32, kWidth = 16;
  manual_seed(3);
  nn::Linear query(kKeys, kWidth), key(2 * kKeys, kWidth), head(kWidth, kKeys);
  nn::MultiheadAttention attention(kWidth, 2, {.batch_first = true});
  std::vector<Tensor> parameters = attention.parameters();
  for (nn::Linear* linear : {&query, &key, &head})
    for (const Tensor& p : linear->parameters()) parameters.push_back(p);
  optim::Adam adam(parameters, {.lr = 0.02});
  const Tensor all = one_hot(arange(kKeys), kKeys).to(kFloat32).unsqueeze(0);
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor values = randint(kKeys, {kBatch, kKeys}), asked = randint(kKeys, {kBatch, 1});
    const Tensor pairs =
        cat({all.expand({kBatch, kKeys, kKeys}), one_hot(values, kKeys).to(kFloat32)}, 2);
    const Tensor sources = key(pairs);
    const Tensor found =
        attention(query(one_hot(asked, kKeys).to(kFloat32)), sources, sources).output;
    const Tensor loss =
        cross_entropy(head(found).squeeze(1), values.gather(1, asked).reshape({-1}));
    adam.zero_grad();
    loss.backward();
    adam.step();
    last = loss.item<double>();
  }
  CHECK(last < 0.3);  // by chance: 1.39
}
