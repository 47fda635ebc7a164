// Lines as users of PyTorch type them: each means what the longer line does.
#include <doctest/doctest.h>
#include <ferrite/ferrite.h>

#include <cmath>
#include <memory>
#include <vector>

using namespace ferrite;

TEST_CASE("a scheduler made of schedulers takes the caller's own") {
  using namespace ferrite::optim;
  const Tensor w = zeros({2}, requires_grad());
  SGD owned({w}, 1.0), shared({w}, 1.0);
  LinearLR warmup(owned, {.start_factor = 0.1, .total_iters = 3});
  ExponentialLR decay(owned, {.gamma = 0.5});
  SequentialLR scheduler(owned, {warmup, decay}, {3});
  SequentialLR expected(
      shared,
      {std::make_shared<LinearLR>(shared, LinearLROptions{.start_factor = 0.1, .total_iters = 3}),
       std::make_shared<ExponentialLR>(shared, ExponentialLROptions{.gamma = 0.5})},
      {3});
  for (int i = 0; i < 6; ++i) {
    CHECK(owned.lr() == shared.lr());
    scheduler.step();
    expected.step();
  }
  CHECK(owned.lr() == doctest::Approx(0.125));
  SGD both({w}, 1.0);
  ConstantLR constant(both, {.factor = 0.5, .total_iters = 100});
  ExponentialLR factor(both, {.gamma = 0.5});
  ChainedScheduler chained({constant, factor});
  chained.step();
  CHECK(both.lr() == doctest::Approx(0.25));
}

TEST_CASE("gradients of one tensor, lists in braces and lists of parameters") {
  nn::Linear net(2, 1);
  const Tensor w = net.weight, loss = (net(ones({1, 2})) * w).sum();
  const Tensor wanted = autograd::grad({loss}, {w}, {}, true)[0];
  for (const auto& gradients : {
           autograd::grad(loss, w, {}, true),
           autograd::grad({loss}, net.parameters(), {}, true, true),
           autograd::grad(loss, net.parameters(), {}, std::nullopt, true),
           autograd::grad({loss}, {w, net.bias}, {}, std::nullopt, true),
           autograd::grad(std::vector<Tensor>{loss}, {w}, {ones({})}, true),
       })
    CHECK(equal(gradients[0], wanted));
  CHECK(autograd::grad({loss}, {w}, {}, std::nullopt, true)[0].requires_grad());
  CHECK(autograd::grad({loss}, net.parameters()).size() == 2);
  CHECK_THROWS_AS(autograd::grad(loss, w), AutogradError);  // the graph is gone
  const Tensor again = (w * w).sum();
  autograd::backward(again, {}, std::nullopt, /*create_graph=*/true);
  CHECK(w.grad().requires_grad());
  w.set_grad({});
  autograd::backward({again, again.clone()});
  CHECK(equal(w.grad().detach(), 4 * w.detach()));
}

TEST_CASE("gradients of one tensor and of lists in braces are clipped") {
  const Tensor w = zeros({2}, requires_grad()), v = zeros({2}, requires_grad());
  const auto set = [&] {
    w.set_grad(full({2}, 3.0));
    v.set_grad(full({2}, 4.0));
  };
  set();
  CHECK(nn::utils::clip_grad_norm_(w, 1.).item<double>() == doctest::Approx(std::sqrt(18.0)));
  CHECK(v.grad()[0].item<float>() == 4);
  set();
  CHECK(nn::utils::clip_grad_norm_({w, v}, 1.).item<double>() == doctest::Approx(std::sqrt(50.0)));
  set();
  nn::utils::clip_grad_value_(w, 1.);
  CHECK(w.grad()[0].item<float>() == 1);
  CHECK(v.grad()[0].item<float>() == 4);
  nn::utils::clip_grad_value_({w, v}, 0.5);
  CHECK(v.grad()[0].item<float>() == 0.5f);
}

TEST_CASE("normalize by named arguments") {
  const Tensor x = randn({2, 3, 4});
  CHECK(equal(F::normalize(x, {.dim = -1}), normalize(x, 2, -1)));
  CHECK(equal(F::normalize(x, {.p = 1, .dim = 0, .eps = 1e-3}), normalize(x, 1, 0, 1e-3)));
}

TEST_CASE("transformers take their norm by value") {
  nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16});
  const nn::LayerNorm norm(8);
  nn::TransformerEncoder encoder(layer, 2, nn::LayerNorm(8)), other(layer, 2, norm);
  CHECK(encoder.state_dict().size() == other.state_dict().size());
  nn::TransformerEncoder moved(layer, 2, std::make_unique<nn::LayerNorm>(8)), none(layer, 2);
  CHECK(encoder.state_dict().size() == moved.state_dict().size());
  CHECK(none.state_dict().size() + 2 == moved.state_dict().size());
  encoder.eval(), moved.eval();
  moved.load_state_dict(encoder.state_dict());
  const Tensor source = randn({3, 1, 8});
  CHECK(equal(encoder(source), moved(source)));
  nn::TransformerDecoder decoder(nn::TransformerDecoderLayer(8, 2), 1, nn::LayerNorm(8));
  CHECK(decoder(source, source).shape() == source.shape());
}
