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

TEST_CASE("matrices, norms and orders under PyTorch's names") {
  const Tensor m = tensor({{2.0, 1.0, 0.0}, {0.0, 3.0, 1.0}, {1.0, 0.0, 4.0}}).to(kFloat64);
  CHECK(equal(det(m), linalg::det(m)));
  CHECK(equal(logdet(m), m.logdet()));
  CHECK(equal(inverse(m), linalg::inv(m)));
  CHECK(equal(pinverse(m), m.pinverse()));
  CHECK(equal(std::get<1>(slogdet(m)), std::get<1>(linalg::slogdet(m))));
  const Tensor definite = m.mm(m.t());
  CHECK(equal(cholesky(definite), linalg::cholesky(definite)));
  CHECK(equal(cholesky(definite, true), linalg::cholesky(definite).t()));

  CHECK(m.norm("fro").item<double>() == doctest::Approx(5.656854));
  CHECK(norm(m, "nuc").item<double>() == doctest::Approx(9.297174));
  CHECK(linalg::norm(m, "nuc").item<double>() == doctest::Approx(9.297174));
  CHECK(equal(m.norm("fro", 1, true), m.norm(2, 1, true)));
  CHECK(equal(norm(m.unsqueeze(0), "nuc", {1, 2}), linalg::matrix_norm(m.unsqueeze(0), "nuc")));
  CHECK_THROWS_AS(m.norm("nuclear"), ValueError);
  CHECK_THROWS_AS(norm(m.unsqueeze(0), "nuc"), ShapeError);

  const Tensor limits = tensor({1.0, 3.0, 5.0}), x = tensor({3.0, 0.0, 9.0});
  CHECK(equal(bucketize(x, limits, true), bucketize(x, limits, {.out_int32 = true})));
  CHECK(equal(bucketize(x, limits, false, true), bucketize(x, limits, {.right = true})));
  CHECK(equal(searchsorted(limits, x, true, true), searchsorted(limits, x, {true, true})));
  CHECK(bucketize(x, limits, {}).dtype() == kInt64);

  CHECK(equal(m.sort(true, 0, true).values, m.sort(0, true).values));
  CHECK(equal(m.sort(std::nullopt, 1, false).indices, sort(m, 1).indices));
  CHECK(equal(m.argsort(true, 1, true), argsort(m, 1, true)));
}

TEST_CASE("options of DistributedSampler are in PyTorch's order") {
  const data::DistributedSampler sampler(
      10, {.num_replicas = 3, .rank = 1, .seed = 1, .drop_last = true});
  CHECK(sampler.size() == 3);
}
