// nn::GPT: its parts, its errors and what it writes. tests/programs/gpt_test.cpp trains it beside
// PyTorch.
#include "ferrite/nn/models/gpt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/init.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

constexpr nn::GPTOptions kSmall = {
    .vocab_size = 11, .context_length = 5, .num_layers = 2, .num_heads = 2, .hidden_dim = 8};

double deviation(const Tensor& x) { return ferrite::std(x).item<double>(); }

}  // namespace

TEST_CASE("GPT: parameters are those of GPT-2, and the output shares the embedding's weight") {
  const nn::init::SkipGuard skip;
  nn::GPTOptions options;
  const auto parameters = [](const nn::GPTOptions& o) {
    std::int64_t all = 0;
    for (const Tensor& p : nn::GPT(o).parameters()) all += p.numel();
    return all;
  };
  CHECK(parameters(options) == 124'439'808);
  options.tie_weights = false;
  CHECK(parameters(options) == 124'439'808 + 50257 * 768);

  nn::GPT model(kSmall);
  const std::unique_ptr<nn::Module> copy = model.clone();
  auto& twin = copy->as<nn::GPT>();
  CHECK(twin.output.weight.data_ptr() == twin.tokens.weight.data_ptr());
  CHECK(twin.output.weight.data_ptr() != model.output.weight.data_ptr());
  model.to(kFloat64);
  CHECK(model.output.weight.data_ptr() == model.tokens.weight.data_ptr());
}

TEST_CASE("GPT: initial weights") {
  manual_seed(1);
  nn::GPT model({.vocab_size = 500, .context_length = 64, .num_layers = 8, .hidden_dim = 96});
  for (const auto& [name, p] : model.named_parameters()) {
    CAPTURE(name);
    if (name.ends_with("bias")) {
      CHECK(abs(p).sum().item<double>() == 0);
    } else if (p.dim() > 1) {
      const bool adds = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
      CHECK(deviation(p) == doctest::Approx(adds ? 0.005 : 0.02).epsilon(0.05));
    }
  }
}

TEST_CASE("GPT: a logit depends on the tokens up to its own alone") {
  manual_seed(2);
  nn::GPT model(kSmall);
  const NoGradGuard no_grad;
  const Tensor whole = model(tensor({{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}));
  CHECK(whole.shape() == Shape{2, 5, 11});
  check_close(model(tensor({{1, 2, 3}, {6, 7, 8}})), whole.narrow(1, 0, 3), 1e-5);
  check_close(model(tensor({{1, 2, 3, 0, 0}, {6, 7, 8, 0, 0}})).narrow(1, 0, 3),
              whole.narrow(1, 0, 3), 1e-5);
}

TEST_CASE("GPT::generate appends the tokens that its logits give") {
  manual_seed(3);
  nn::GPT model(kSmall);
  const Tensor begin = tensor({{1, 2}, {3, 4}});
  const Tensor ids = model.generate(begin, 7, {.temperature = 0});
  CHECK(ids.shape() == Shape{2, 9});
  CHECK(!ids.requires_grad());
  check_equal(ids.narrow(1, 0, 2), begin);
  const NoGradGuard no_grad;
  for (std::int64_t i = 2; i < 9; ++i) {
    const std::int64_t length = std::min<std::int64_t>(i, kSmall.context_length);
    const Tensor logits = model(ids.narrow(1, i - length, length)).select(1, -1);
    check_equal(argmax(logits, -1), ids.select(1, i));
  }
  check_equal(model.generate(begin, 0), begin);

  Generator first(5), second(5);
  check_equal(model.generate(begin, 20, {}, &first), model.generate(begin, 20, {}, &second));
}

TEST_CASE("GPT refuses what it cannot do") {
  const auto make = [](auto change) {
    nn::GPTOptions o = kSmall;
    change(o);
    return nn::GPT(o);
  };
  CHECK_THROWS_WITH_AS(make([](auto& o) { o.num_layers = 0; }), doctest::Contains("0 layers"),
                       ValueError);
  CHECK_THROWS_AS(make([](auto& o) { o.num_heads = 3; }), ValueError);
  CHECK_THROWS_AS(make([](auto& o) { o.dropout = 2; }), ValueError);
  nn::GPT model(kSmall);
  CHECK_THROWS_WITH_AS(model(zeros({1, 6}, {.dtype = kInt64})), doctest::Contains("at most 5"),
                       ShapeError);
  CHECK_THROWS_AS(model(zeros({6}, {.dtype = kInt64})), ShapeError);
  CHECK_THROWS_WITH_AS(model.generate(zeros({1, 0}, {.dtype = kInt64}), 1),
                       doctest::Contains("above 0"), ShapeError);
  CHECK_THROWS_WITH_AS(model.generate(zeros({1, 1}, {.dtype = kInt64}), -1),
                       doctest::Contains("-1"), ValueError);
}
