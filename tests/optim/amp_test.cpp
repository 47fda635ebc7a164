#include "ferrite/optim/amp/amp.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/optim/amp/options.h"
#include "ferrite/optim/clip.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::optim::amp;
using test::check_close;
using test::check_equal;

namespace {

struct Net : nn::Cloneable<Net> {
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) override {
    seen = conv(x);
    return fc(max_pool2d(relu(norm(seen)), 2).flatten(1));
  }
  nn::Conv2d conv{1, 4, 3};
  nn::BatchNorm2d norm{4};
  nn::Linear fc{4 * 3 * 3, 3};
  Tensor seen;
};

struct Batch {
  Tensor images, labels;
};
Batch make_batch(std::uint64_t seed, std::int64_t size = 8) {
  Generator generator(seed);
  const Tensor labels = randint(0, 3, {6}, {.dtype = kInt64}, &generator);
  return {randn({6, 1, size, size}, {}, &generator) * 0.5 +
              (labels.to(kFloat32) - 1.0).reshape({6, 1, 1, 1}),
          labels};
}

/// A loss scale that gradients of these sizes do not overflow with.
constexpr double kScale = 1024;

optim::SGDOptions sgd_options() { return {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3}; }

template <class Model = Net>
struct Run {
  explicit Run(const Options& options) : amp(initialize(model, sgd, options)) {}
  Tensor loss_of(const Batch& b) { return cross_entropy(model(b.images), b.labels); }
  double step(const Batch& b, double factor = 1) {
    const Tensor loss = loss_of(b);
    sgd.zero_grad();
    amp.scale(loss * factor).backward();
    amp.step(sgd);
    return loss.item<double>();
  }
  Model model = (manual_seed(3), Model());
  optim::SGD sgd{model.parameters(), sgd_options()};
  Amp amp;
};

std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.detach().clone());
  return out;
}
StateDict copies(const StateDict& dict) {
  StateDict out;
  for (const auto& [name, t] : dict) out.insert(name, t.detach().clone());
  return out;
}
void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) check_equal(a[i].detach(), b[i].detach());
}
void check_same(const StateDict& a, const StateDict& b) {
  for (const auto& [name, t] : a) {
    CAPTURE(name);
    check_equal(t, b.at(name));
  }
}

}  // namespace

TEST_CASE("properties: Apex's levels, overrides, and what contradicts itself") {
  const auto of = [](OptLevel level) { return properties_of({.opt_level = level}); };
  CHECK(of(O0).cast_model_type == kFloat32);
  CHECK(of(O0).loss_scale == LossScale(1.0));
  CHECK(of(O1).autocast);
  CHECK_FALSE(of(O1).cast_model_type);
  CHECK(of(O1).loss_scale.is_dynamic());
  CHECK(of(O2).cast_model_type == kFloat16);
  CHECK(of(O2).keep_batchnorm_fp32 == true);
  CHECK(of(O2).master_weights);
  CHECK(of(O2).loss_scale == optim::amp::dynamic);
  CHECK(of(O3).keep_batchnorm_fp32 == false);
  CHECK_FALSE(of(O3).master_weights);
  CHECK(of(O3).loss_scale == LossScale("1"));
  const Properties p = properties_of({.opt_level = O3,
                                      .dtype = kBFloat16,
                                      .keep_batchnorm_fp32 = true,
                                      .master_weights = true,
                                      .loss_scale = "128.5"});
  CHECK(p.cast_model_type == kBFloat16);
  CHECK(p.keep_batchnorm_fp32 == true);
  CHECK(p.master_weights);
  CHECK(p.loss_scale.value() == 128.5);
  CHECK(properties_of({.opt_level = O2, .dtype = kBFloat16}).loss_scale == LossScale(1.0));
  CHECK(properties_of({.opt_level = O2, .dtype = kBFloat16, .loss_scale = "dynamic"})
            .loss_scale.is_dynamic());
  CHECK_FALSE(properties_of({.opt_level = O2, .enabled = false}).master_weights);
  CHECK(of(O2).str().find("keep_batchnorm_fp32 : True") != std::string::npos);
  CHECK(opt_level("O2") == O2);
  CHECK_THROWS_AS(opt_level("02"), ValueError);
  CHECK_THROWS_AS(LossScale("fast"), ValueError);
  CHECK_THROWS_AS(LossScale(0.0), ValueError);
  CHECK_THROWS_AS(properties_of({.opt_level = O1, .keep_batchnorm_fp32 = true}), ValueError);
  CHECK_THROWS_AS(properties_of({.opt_level = O0, .master_weights = true}), ValueError);
  CHECK_THROWS_AS(properties_of({.dtype = kFloat32}), ValueError);
  CHECK_THROWS_AS(properties_of({.num_losses = 0}), ValueError);
  CHECK_THROWS_AS(properties_of({.min_loss_scale = 8, .max_loss_scale = 4}), ValueError);
}

TEST_CASE("initialize() converts what the level says; calls convert inputs and outputs") {
  struct Expected {
    Options options;
    DType weights, norms, inside;
  };
  for (DType half : {kFloat16, kBFloat16})
    for (const auto& [options, weights, norms, inside] :
         {Expected{{.opt_level = O0, .dtype = half}, kFloat32, kFloat32, kFloat32},
          Expected{{.opt_level = O1, .dtype = half}, kFloat32, kFloat32, half},
          Expected{{.opt_level = O2, .dtype = half}, half, kFloat32, half},
          Expected{
              {.opt_level = O2, .dtype = half, .keep_batchnorm_fp32 = false}, half, half, half},
          Expected{{.opt_level = O3, .dtype = half}, half, half, half},
          Expected{
              {.opt_level = O2, .dtype = half, .enabled = false}, kFloat32, kFloat32, kFloat32}}) {
      CAPTURE(name(options.opt_level));
      Run run(options);
      const Tensor weight = run.model.conv.weight;
      CHECK(weight.dtype() == weights);
      CHECK(run.sgd.parameters()[0].is_same(weight));
      CHECK(run.model.norm.weight.dtype() == norms);
      CHECK(run.model.norm.running_var.dtype() == norms);
      CHECK(run.model.norm.num_batches_tracked.dtype() == kInt64);
      const Tensor out = run.model(make_batch(1).images);
      CHECK(run.model.seen.dtype() == inside);
      CHECK(out.dtype() == kFloat32);
      CHECK_FALSE(is_autocast_enabled(Device()));
      const std::vector<Tensor> masters = run.amp.master_parameters();
      CHECK(masters[0].is_same(weight) == !run.amp.properties().master_weights);
      if (run.amp.properties().master_weights)
        check_equal(masters[0].to(half).detach(), weight.detach());
      const AutocastGuard region = run.amp.autocast();
      CHECK(is_autocast_enabled(Device()) == (run.amp.properties().autocast));
    }
  Run run({.opt_level = O1});
  CHECK_THROWS(run.model(zeros({1, 2, 3})));  // leaves the region too
  CHECK_FALSE(is_autocast_enabled(Device()));
  Net converted;
  converted.to(kFloat16);
  optim::SGD sgd(converted.parameters(), sgd_options());
  CHECK_THROWS_AS(initialize(converted, sgd, O2), ValueError);
  CHECK_THROWS_AS(initialize({&converted, &converted}, {}, {}), ValueError);
  CHECK_THROWS_AS(run.amp.step(sgd), ValueError);
  CHECK_THROWS_AS(run.amp.scale(ones({}), 1), ValueError);
}

TEST_CASE("groups that are added after initialize() have master weights at O2") {
  Net net;
  optim::SGD sgd(net.fc.parameters(), {.lr = 1e-4});
  net.conv.requires_grad_(false);
  Amp amp = initialize(net, sgd, {.opt_level = O2, .dtype = kBFloat16, .loss_scale = 1});
  net.conv.requires_grad_(true);
  sgd.add_param_group({net.conv.parameters(), {.lr = 1e-4}});
  for (const Tensor& p : amp.master_parameters()) CHECK(p.dtype() == kFloat32);
  {
    NoGradGuard guard;
    net.conv.weight.fill_(1);
  }
  sgd.reset_master_weights();
  // Each update alone is too small for 8 bits.
  for (int i = 0; i < 100; ++i) {
    net.conv.weight.set_grad(ones_like(net.conv.weight));
    amp.step(sgd);
  }
  CHECK(net.conv.weight[0][0][0][0].item<double>() == doctest::Approx(0.99).epsilon(0.003));
}

TEST_CASE("LeNet's losses are those of float32 at every level") {
  std::vector<double> expected;
  for (OptLevel level : {O0, O1, O2, O3})
    for (DType half : {kFloat16, kBFloat16}) {
      CAPTURE(name(level));
      Run<nn::LeNet5> run({.opt_level = level, .dtype = half});
      std::vector<double> losses;
      for (std::uint64_t i = 0; i < 4; ++i) losses.push_back(run.step(make_batch(i, 28)));
      if (expected.empty()) expected = losses;
      CHECK(losses.back() < losses.front());
      // Weights in 16 bits and nothing else lose small updates.
      const double tolerance = (half == kFloat16 ? 0.01 : 0.05) * (level == O3 ? 3 : 1);
      for (std::size_t i = 0; i < losses.size(); ++i)
        CHECK(std::abs(losses[i] - expected[i]) < tolerance);
    }
}

TEST_CASE("an overflow skips the step and halves the scale; the next one goes on") {
  for (OptLevel level : {O1, O2}) {
    CAPTURE(name(level));
    for (bool looked_at : {false, true}) {
      Run run({.opt_level = level, .max_loss_scale = kScale});
      run.step(make_batch(0));
      CHECK(run.amp.loss_scale() == kScale);
      CHECK(run.amp.overflow_message().empty());
      const std::vector<Tensor> before = copies(run.amp.master_parameters()),
                                weights = copies(run.model.parameters());
      const StateDict state = copies(run.sgd.state_dict());
      const Tensor loss = run.loss_of(make_batch(1));
      run.sgd.zero_grad();
      run.amp.scale(loss * 1e30).backward();
      if (looked_at) optim::clip_grad_norm_(run.amp.master_parameters(), 1.0);
      run.amp.step(run.sgd);
      check_same(run.amp.master_parameters(), before);
      check_same(run.model.parameters(), weights);
      check_same(run.sgd.state_dict(), state);
      CHECK(run.amp.loss_scale() == kScale / 2);
      CHECK(run.amp.overflows().item<std::int64_t>() == 1);
      CHECK(run.amp.overflow_message().find(
                "skipped a step, loss scaler 0 reduced its scale to 512") != std::string::npos);
      CHECK(run.amp.overflow_message().empty());
      run.step(make_batch(2));
      CHECK(run.amp.loss_scale() == kScale / 2);
      CHECK(run.amp.state_dict().at("loss_scaler0.unskipped").item<std::int64_t>() == 1);
      CHECK_FALSE(allclose(run.amp.master_parameters()[0].detach(), before[0], 1e-5, 0));
    }
  }
  CHECK(Run({.opt_level = O1}).amp.loss_scale() == 65536);
  Run bounded({.opt_level = O2, .min_loss_scale = 16384, .max_loss_scale = 32768});
  CHECK(bounded.amp.loss_scale() == 32768);
  for (std::uint64_t i = 0; i < 3; ++i) bounded.step(make_batch(i), 1e30);
  CHECK(bounded.amp.loss_scale() == 16384);
  CHECK(bounded.amp.overflow_message().find("skipped 3 steps") != std::string::npos);
  // A number stays, and skips nothing.
  Run fixed({.opt_level = O2, .loss_scale = 128.0});
  fixed.step(make_batch(0));
  CHECK(fixed.amp.loss_scale() == 128);
  fixed.step(make_batch(1), 1e30);
  CHECK(fixed.amp.loss_scale() == 128);
  CHECK(std::isnan(fixed.amp.master_parameters()[0].sum().item<double>()));
}

TEST_CASE("gradients accumulate, and are clipped as float32 sees them") {
  const auto train = [](const Options& options, bool clips) {
    Run run(options);
    for (std::uint64_t i = 0; i < 2; ++i) {
      run.amp.zero_grad();
      for (std::uint64_t part = 0; part < 2; ++part)
        run.amp.scale(run.loss_of(make_batch(2 * i + part)) / 2).backward();
      double norm = 0;
      if (clips)
        norm = optim::clip_grad_norm_(run.amp.master_parameters(), 0.25).template item<double>();
      if (clips) CHECK(norm > 0.25);
      if (clips && run.amp.properties().loss_scale != LossScale(1.0))
        CHECK_THROWS_AS(run.amp.unscale_(run.sgd), ValueError);
      run.amp.step(run.sgd);
    }
    return copies(run.amp.model_state_dict(run.model));
  };
  for (bool clips : {false, true}) {
    const StateDict expected = train({.opt_level = O0}, clips);
    for (const Options& options : {Options{.opt_level = O1, .max_loss_scale = kScale},
                                   Options{.opt_level = O2, .max_loss_scale = kScale},
                                   Options{.opt_level = O2, .dtype = kBFloat16},
                                   Options{.opt_level = O2, .loss_scale = kScale}})
      for (const auto& [name, t] : train(options, clips)) {
        CAPTURE(name);
        CHECK(t.dtype() == expected.at(name).dtype());
        check_close(t, expected.at(name), 0, options.dtype == kFloat16 ? 4e-3 : 4e-2);
      }
  }
  // Whether gradients are looked at or not, a step is the same to the bit.
  const Options options{.opt_level = O2, .max_loss_scale = kScale};
  Run a(options), b(options);
  for (std::uint64_t i = 0; i < 2; ++i) {
    a.step(make_batch(i));
    b.amp.zero_grad(true);
    b.amp.scale(b.loss_of(make_batch(i))).backward();
    b.amp.unscale_(b.sgd);
    b.amp.master_parameters();
    b.amp.step(b.sgd);
  }
  check_same(a.amp.master_parameters(), b.amp.master_parameters());
  // A step that was not taken leaves nothing behind.
  b.amp.scale(b.loss_of(make_batch(2))).backward();
  b.amp.unscale_(b.sgd);
  b.sgd.zero_grad();
  a.loss_of(make_batch(2));
  a.step(make_batch(3));
  b.step(make_batch(3));
  check_same(a.amp.master_parameters(), b.amp.master_parameters());
}

TEST_CASE("several losses have scales of their own") {
  for (OptLevel level : {O1, O2}) {
    CAPTURE(name(level));
    Run run({.opt_level = level, .num_losses = 2, .max_loss_scale = kScale}),
        one({.opt_level = level, .max_loss_scale = kScale});
    const auto both = [&](double factor) {
      run.sgd.zero_grad();
      const Tensor first = run.loss_of(make_batch(0)), second = run.loss_of(make_batch(1)),
                   third = run.loss_of(make_batch(2));
      run.amp.scale(first, 0).backward();
      run.amp.scale(second * factor, 1).backward();
      run.amp.scale(third, 0).backward();
      run.amp.step(run.sgd);
    };
    const auto start = copies(run.amp.master_parameters());
    both(1e30);
    CHECK(run.amp.loss_scale(0) == kScale);
    CHECK(run.amp.loss_scale(1) == kScale / 2);
    CHECK(run.amp.overflow_message().find("loss scaler 1") != std::string::npos);
    check_same(run.amp.master_parameters(), start);
    both(1);
    CHECK(run.amp.loss_scale(0) == kScale);
    CHECK(run.amp.state_dict().at("loss_scaler1.unskipped").item<std::int64_t>() == 1);
    CHECK(run.amp.state_dict().at("loss_scaler0.unskipped").item<std::int64_t>() == 2);
    const Tensor sum =
        one.loss_of(make_batch(0)) + one.loss_of(make_batch(1)) + one.loss_of(make_batch(2));
    one.amp.scale(sum).backward();
    one.amp.step(one.sgd);
    const auto masters = run.amp.master_parameters(), expected = one.amp.master_parameters();
    for (std::size_t i = 0; i < masters.size(); ++i)
      check_close(masters[i].detach(), expected[i].detach(), 1e-3, 1e-3);
  }
}

TEST_CASE("gradients of several losses are those of their own step alone") {
  for (OptLevel level : {O1, O2}) {
    CAPTURE(name(level));
    nn::Linear one(1, 1, {.bias = false}), two(1, 1, {.bias = false});
    optim::SGD sgd({one.weight, two.weight}, {.lr = 0});
    Amp amp = initialize({&one, &two}, {&sgd},
                         {.opt_level = level, .num_losses = 2, .max_loss_scale = 16});
    const Tensor x = ones({1, 1});
    const auto add_loss = [&](std::size_t loss_id, double of_one, double of_two) {
      Tensor loss = two(x) * of_two;
      if (of_one != 0) loss = loss + one(x) * of_one;
      amp.scale(loss.sum(), loss_id).backward();
    };
    const auto check_gradients = [&](double of_one, double of_two) {
      const auto masters = amp.master_parameters(sgd);
      CHECK(masters[0].grad().item<double>() == of_one);
      CHECK(masters[1].grad().item<double>() == of_two);
    };
    sgd.zero_grad();
    add_loss(0, 100, 1);
    add_loss(1, 2, 3);
    check_gradients(102, 4);
    amp.step(sgd);
    // The first loss does not reach the first weight this time.
    sgd.zero_grad();
    add_loss(0, 0, 1);
    add_loss(1, 2, 3);
    check_gradients(2, 4);
    amp.step(sgd);
    // Steps that were not taken, and gradients that were zeroed half-way.
    for (const bool set_to_none : {true, false})
      for (const bool unscales : {false, true})
        for (const std::size_t losses : {1, 2}) {
          CAPTURE(set_to_none);
          CAPTURE(unscales);
          CAPTURE(losses);
          sgd.zero_grad(set_to_none);
          add_loss(0, 100, 1);
          add_loss(1, 200, 2);
          if (unscales) amp.unscale_(sgd);
          sgd.zero_grad(set_to_none);
          if (losses == 2) add_loss(0, 10, 20);
          add_loss(1, 1, 2);
          check_gradients(losses == 2 ? 11 : 1, losses == 2 ? 22 : 2);
          amp.step(sgd);
        }
    CHECK(amp.loss_scale(0) == 16);
    CHECK(amp.loss_scale(1) == 16);
  }
}

TEST_CASE("several models and optimizers: gradients count for the optimizer they reach") {
  // A generator and a discriminator: the second loss reaches both.
  const auto train = [](std::vector<double>& scales, OptLevel level) {
    manual_seed(5);
    nn::Linear g(3, 3), d(3, 1);
    optim::SGD sgd_g(g.parameters(), sgd_options()), sgd_d(d.parameters(), sgd_options());
    Amp amp = initialize({&g, &d}, {&sgd_g, &sgd_d},
                         {.opt_level = level, .num_losses = 2, .max_loss_scale = kScale});
    Generator generator(1);
    for (int i = 0; i < 3; ++i) {
      const Tensor noise = randn({4, 3}, {}, &generator), real = randn({4, 3}, {}, &generator);
      const Tensor fake = g(noise);
      d.zero_grad();
      amp.scale(mean(square(d(real) - 1.0)) + mean(square(d(fake.detach()))), 0).backward();
      amp.step(sgd_d);
      g.zero_grad();
      amp.scale(mean(square(d(fake) - 1.0)) * (i == 1 ? 1e30 : 1.0), 1).backward();
      amp.step(sgd_g);
    }
    amp.update();
    scales = {amp.loss_scale(0), amp.loss_scale(1)};
    std::vector<Tensor> all = copies(sgd_g.master_parameters());
    for (const Tensor& t : copies(sgd_d.master_parameters())) all.push_back(t);
    return all;
  };
  std::vector<double> scales;
  const auto plain = [] {  // the second of three steps of the generator is skipped
    manual_seed(5);
    nn::Linear g(3, 3), d(3, 1);
    optim::SGD sgd_g(g.parameters(), sgd_options()), sgd_d(d.parameters(), sgd_options());
    Generator generator(1);
    for (int i = 0; i < 3; ++i) {
      const Tensor noise = randn({4, 3}, {}, &generator), real = randn({4, 3}, {}, &generator);
      const Tensor fake = g(noise);
      d.zero_grad();
      (mean(square(d(real) - 1.0)) + mean(square(d(fake.detach())))).backward();
      sgd_d.step();
      g.zero_grad();
      mean(square(d(fake) - 1.0)).backward();
      if (i != 1) sgd_g.step();
    }
    std::vector<Tensor> all = copies(g.parameters());
    for (const Tensor& t : copies(d.parameters())) all.push_back(t);
    return all;
  }();
  for (OptLevel level : {O1, O2}) {
    CAPTURE(name(level));
    const auto trained = train(scales, level);
    CHECK(scales == std::vector<double>{kScale, kScale / 2});
    for (std::size_t i = 0; i < plain.size(); ++i) check_close(trained[i], plain[i], 0, 5e-3);
  }
}

TEST_CASE("a run that is resumed ends with the bits of one that was not") {
  for (const Options& options : {Options{.opt_level = O1, .max_loss_scale = kScale},
                                 Options{.opt_level = O2, .max_loss_scale = kScale},
                                 Options{.opt_level = O2, .dtype = kBFloat16}}) {
    CAPTURE(name(options.opt_level));
    Run whole(options);
    StateDict model, sgd, amp;
    for (std::uint64_t i = 0; i < 6; ++i) {
      if (i == 3) {
        model = copies(whole.model.state_dict());
        sgd = copies(whole.sgd.state_dict());
        amp = copies(whole.amp.state_dict());
      }
      whole.step(make_batch(i), i == 1 && options.dtype == kFloat16 ? 1e30 : 1);
    }
    Run resumed(options);
    resumed.model.load_state_dict(model);
    resumed.sgd.load_state_dict(sgd);
    resumed.amp.load_state_dict(amp);
    CHECK(resumed.amp.overflow_message().empty());
    for (std::uint64_t i = 3; i < 6; ++i) resumed.step(make_batch(i));
    check_same(resumed.model.state_dict(), whole.model.state_dict());
    check_same(resumed.sgd.state_dict(), whole.sgd.state_dict());
    check_same(resumed.amp.state_dict(), whole.amp.state_dict());
    CHECK(resumed.amp.loss_scale() == (options.dtype == kFloat16 ? kScale / 2 : 1));
  }
  // Float32 values leave O2 for others, and come from others to O2.
  Run run({.opt_level = O2});
  run.step(make_batch(0));
  const StateDict exported = copies(run.amp.model_state_dict(run.model));
  check_equal(exported.at("conv.weight"), run.amp.master_parameters()[0].detach());
  CHECK(exported.at("norm.num_batches_tracked").dtype() == kInt64);
  Net plain;
  plain.load_state_dict(exported);
  Run other({.opt_level = O2});
  optim::SGD fresh(plain.parameters(), sgd_options());
  other.model.load_state_dict(exported);
  other.sgd.load_state_dict(fresh.state_dict());
  check_equal(other.amp.master_parameters()[0].detach(),
              exported.at("conv.weight").to(kFloat16).to(kFloat32));
  CHECK_THROWS_AS(run.amp.load_state_dict({}), ValueError);
  Run two({.opt_level = O2, .num_losses = 2});
  CHECK_THROWS_AS(run.amp.load_state_dict(two.amp.state_dict()), ValueError);
  // An invalid entry of the second scaler leaves the first one as it is.
  for (const bool used : {false, true}) {
    if (used) two.step(make_batch(0));
    const StateDict before = two.amp.state_dict().clone();
    StateDict invalid = before;
    invalid.insert_or_assign("loss_scaler0.loss_scale", tensor(32.0));
    invalid.insert_or_assign("loss_scaler0.unskipped", tensor(std::int64_t{7}));
    invalid.insert_or_assign("loss_scaler1.loss_scale", tensor(-1.0));
    CHECK_THROWS_AS(two.amp.load_state_dict(invalid), ValueError);
    check_same(two.amp.state_dict(), before);
    invalid.insert_or_assign("loss_scaler1.loss_scale", tensor(64.0));
    two.amp.load_state_dict(invalid);
    CHECK(two.amp.loss_scale(0) == 32);
    CHECK(two.amp.loss_scale(1) == 64);
  }
}

TEST_CASE("O2 saves at least a third of a ResNet's activation memory") {
  const auto activations = [](OptLevel level) {
    manual_seed(1);
    nn::ResNet18 model({.classes = 10, .stem = nn::ResNetStem::small, .width = 4});
    optim::SGD sgd(model.parameters(), sgd_options());
    Amp amp = initialize(model, sgd, level);
    const Tensor images = rand({8, 3, 32, 32}), labels = zeros({8}, {.dtype = kInt64});
    const std::size_t before = memory_allocated(Device());
    const Tensor loss = cross_entropy(model(images), labels);
    return static_cast<double>(memory_allocated(Device()) - before);
  };
  const double full = activations(O0), mixed = activations(O2);
  CAPTURE(full);
  CAPTURE(mixed);
  CHECK(mixed < full * 2 / 3);
}
