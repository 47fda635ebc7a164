#include "ferrite/optim/averaged_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ferrite/core/generator.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/dataset.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

struct Net : nn::Cloneable<Net> {
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
  }
  Tensor forward(const Tensor& x) override { return norm(conv(x)); }
  nn::Conv2d conv{2, 3, 3};
  nn::BatchNorm2d norm{3};
};

using Numbers = std::vector<double>;

Numbers values_of(const Tensor& t) { return t.detach().to_vector<double>(); }

/// Other weights, and other statistics by a batch.
void change(Net& net, Generator& generator) {
  NoGradGuard guard;
  for (const Tensor& p : net.parameters())
    p.copy_(randn(p.shape(), {}, &generator).to(p.device(), p.dtype()));
  net.train();
  net(randn({2, 2, 5, 5}, {}, &generator).to(net.conv.weight.device(), net.conv.weight.dtype()));
}

/// average = average + weight(n) (value - average), by hand.
template <class Weight>
void compare(const optim::AveragedModelOptions& options, const Device& device, Weight&& weight) {
  Net net = (manual_seed(1), Net());
  net.to(device);
  optim::AveragedModel averaged(net, options);
  Generator generator(2);
  Numbers expected(values_of(net.conv.weight).size()), mean(3);
  for (int n = 0; n < 6; ++n) {
    change(net, generator);
    averaged.update_parameters(net);
    const Numbers now = values_of(net.conv.weight), stats = values_of(net.norm.running_mean);
    const auto add = [&](Numbers& average, const Numbers& value) {
      for (std::size_t i = 0; i < value.size(); ++i)
        average[i] += weight(n) * (value[i] - average[i]);
    };
    add(expected, now);
    add(mean, stats);
    const auto& inner = dynamic_cast<Net&>(averaged.module());
    check_close(inner.conv.weight, expected, 1e-5, 1e-6);
    check_close(inner.norm.running_mean, options.use_buffers ? mean : stats, 1e-5, 1e-6);
    check_equal(inner.norm.num_batches_tracked, net.norm.num_batches_tracked);
    if (n == 0) check_equal(inner.conv.weight.detach(), net.conv.weight.detach());
  }
  CHECK(averaged.n_averaged.item<int>() == 6);
  CHECK(!averaged.module().parameters()[0].requires_grad());
  CHECK(net.conv.weight.requires_grad());
}

}  // namespace

TEST_CASE(
    "SWA is the mean of all weights; EMA, with warm-up of its decay; a function of one's own") {
  for (const Device& device : test::optim_devices()) {
    CAPTURE(device.str());
    for (const bool buffers : {false, true}) {
      compare({.use_buffers = buffers}, device, [](int n) { return 1.0 / (n + 1); });
      compare({.decay = 0.75, .use_buffers = buffers}, device,
              [](int n) { return n == 0 ? 1 : 0.25; });
      compare({.avg_fn = [](const Tensor& average, const Tensor& now,
                            const Tensor&) { return average * 0.5 + now * 0.5; },
               .use_buffers = buffers},
              device, [](int n) { return n == 0 ? 1 : 0.5; });
    }
    compare({.decay = 0.6, .warmup = true, .warmup_gamma = 1, .warmup_power = 0.5}, device,
            [](int n) { return std::max(0.4, std::pow(1 + n, -0.5)); });
  }
}

TEST_CASE("averages in float32 beside a model of 16 bits, on another device, of master weights") {
  Net net = (manual_seed(1), Net());
  net.to(kBFloat16);
  optim::AveragedModel wide(net, {.decay = 0.999, .device = Device("cpu:1"), .dtype = kFloat32}),
      narrow(net, {.decay = 0.999});
  const Tensor start = net.conv.weight.detach().to(kFloat32);
  const auto update_all = [&] {
    wide.update_parameters(net);
    narrow.update_parameters(net);
  };
  update_all();
  no_grad([&] { net.conv.weight.mul_(1.5); });
  for (int i = 0; i < 10; ++i) update_all();
  const Tensor average = wide.module().parameters()[0];
  CHECK(average.dtype() == kFloat32);
  CHECK(average.device() == Device("cpu:1"));
  const Numbers s = values_of(start), end = values_of(net.conv.weight);
  Numbers expected(s.size());
  const double kept = std::pow(0.999, 10);
  for (std::size_t i = 0; i < s.size(); ++i) expected[i] = kept * s[i] + (1 - kept) * end[i];
  check_close(average, expected, 1e-5, 1e-6);
  check_equal(narrow.module().parameters()[0].detach(), start.to(kBFloat16));  // it stood still

  std::vector<Tensor> masters;
  for (const Tensor& p : net.parameters()) masters.push_back(full_like(p.detach().to(kFloat32), 3));
  optim::AveragedModel of_masters(net, {.dtype = kFloat32});
  of_masters.update_parameters(net, masters);
  check_equal(of_masters.module().parameters()[0].detach(), masters[0]);
  of_masters.copy_to(net);
  check_equal(net.conv.weight.detach(), full_like(net.conv.weight.detach(), 3));
  masters.pop_back();
  CHECK_THROWS_AS(of_masters.update_parameters(net, masters), ValueError);
}

TEST_CASE("layouts: channels-last weights beside row-major ones") {
  Net net = (manual_seed(1), Net());
  optim::AveragedModel averaged(net);
  net.to(kChannelsLast);
  averaged.update_parameters(net);
  check_equal(averaged.module().parameters()[0].detach(), net.conv.weight.detach());
}

TEST_CASE("a model evaluates with its averages, and has its own weights again") {
  for (const Device& device : test::optim_devices()) {
    Net net = (manual_seed(1), Net());
    net.to(device);
    optim::AveragedModel averaged(net, {.decay = 0.5});
    Generator generator(3);
    for (int i = 0; i < 3; ++i) {
      change(net, generator);
      averaged.update_parameters(net);
    }
    net.eval();
    averaged.eval();
    const Tensor x = randn({1, 2, 5, 5}, {}, &generator).to(device);
    const Tensor own = net(x), expected = averaged(x);
    const void* memory = net.conv.weight.data_ptr();
    {
      const optim::AveragedWeights weights(net, averaged);
      check_equal(net(x).detach(), expected.detach());
      CHECK(net.conv.weight.data_ptr() == memory);
    }
    check_equal(net(x).detach(), own.detach());
    CHECK(values_of(own) != values_of(expected));
    averaged.copy_to(net);
    check_equal(net(x).detach(), expected.detach());
  }
}

TEST_CASE("state dicts are PyTorch's; a run goes on from one to the bit") {
  Net net = (manual_seed(1), Net());
  Generator generator(4);
  optim::AveragedModel whole(net, {.decay = 0.9, .warmup = true}),
      resumed(net, {.decay = 0.9, .warmup = true});
  for (int i = 0; i < 6; ++i) {
    change(net, generator);
    whole.update_parameters(net);
    if (i == 2) resumed.load_state_dict(whole.state_dict());
    if (i > 2) resumed.update_parameters(net);
  }
  const StateDict expected = whole.state_dict();
  CHECK(expected.at("n_averaged").dtype() == kInt64);
  CHECK(expected.contains("module.norm.running_var"));
  for (const auto& [name, value] : resumed.state_dict()) {
    CAPTURE(name);
    check_equal(value, expected.at(name));
  }
  check_equal(whole.clone()->module().parameters()[0], whole.module().parameters()[0]);
}

TEST_CASE("update_bn: statistics are the mean over the batches, modes and momenta stay") {
  for (const Device& device : test::optim_devices()) {
    Net net = (manual_seed(1), Net());
    net.to(device);
    net.eval();
    net.conv.train();
    net.norm.set_momentum(0.3);
    Generator generator(5);
    std::vector<Tensor> batches;
    Tensor mean = zeros({3}), var = zeros({3});
    for (const std::int64_t n : {4, 4, 2}) {
      batches.push_back(randn({n, 2, 5, 5}, {}, &generator));
      NoGradGuard guard;
      const Tensor y = net.conv(batches.back().to(device)).cpu();
      const Dims dims{0, 2, 3};
      mean.add_(y.mean(dims));
      var.add_(ferrite::var(y, dims));
    }
    no_grad([&] { net.norm.running_mean.fill_(99); });
    optim::update_bn(batches, net, device);
    check_close(net.norm.running_mean, mean / 3, 1e-4, 1e-6);
    check_close(net.norm.running_var, var / 3, 1e-4, 1e-6);
    CHECK(net.norm.num_batches_tracked.item<int>() == 3);
    CHECK(!net.is_training());
    CHECK(net.conv.is_training());
    CHECK(!net.norm.is_training());
    CHECK(net.norm.options().momentum == 0.3);
    CHECK(!net.conv.weight.grad().defined());
  }
  // A loader of images and labels; a model without batch norms reads none.
  data::TensorDataset set(randn({10, 2, 5, 5}), zeros({10}, {.dtype = kInt64}));
  data::DataLoader loader(set, {.batch_size = 4});
  Net net;
  optim::AveragedModel averaged(net);
  averaged.update_parameters(net);
  optim::update_bn(loader, averaged);
  CHECK(dynamic_cast<Net&>(averaged.module()).norm.num_batches_tracked.item<int>() == 3);
  CHECK(averaged.is_training());
  nn::Linear linear(2, 1);
  const std::vector<Tensor> refused(1);
  optim::update_bn(refused, linear);
}

TEST_CASE("update_bn: the mode of a module with two parents stays, too") {
  struct Branch : nn::Module {
    explicit Branch(nn::BatchNorm1d& norm) { register_module("norm", norm); }
    Tensor forward(const Tensor& x) override { return x; }
  };
  struct Shared : nn::Module {
    Shared() {
      register_module("norm", norm);
      register_module("first", first);
      register_module("second", second);
    }
    Tensor forward(const Tensor& x) override { return norm(x); }
    nn::BatchNorm1d norm{3};
    Branch first{norm}, second{norm};
  } net;
  net.first.eval();  // and the norm
  REQUIRE(net.second.is_training());
  optim::update_bn(std::vector{randn({4, 3})}, net);
  CHECK(!net.norm.is_training());
  CHECK(!net.first.is_training());
  CHECK(net.second.is_training());
  CHECK(net.is_training());
}

TEST_CASE("bad arguments of AveragedModel") {
  Net net;
  CHECK_THROWS_AS(optim::AveragedModel(net, {.decay = 1.5}), ValueError);
  CHECK_THROWS_AS(optim::AveragedModel(net, {.warmup_gamma = 0}), ValueError);
  optim::AveragedModel averaged(net);
  nn::Linear other(2, 1);
  CHECK_THROWS_AS(averaged.update_parameters(other), ValueError);
  CHECK_THROWS_AS(averaged.copy_to(other), ValueError);
  CHECK(averaged.n_averaged.item<int>() == 0);
}
