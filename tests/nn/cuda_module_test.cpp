// Modules on CUDA devices: moving, loading, cloning, initialising, hooks and summaries.
#include <doctest/doctest.h>

#include <filesystem>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/nn/init.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/summary.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/nn/layer_table.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

Device kCuda() { return Device("cuda:0"); }

nn::Sequential make_net() {
  manual_seed(2);
  return nn::Sequential(nn::Conv2d(2, 3, 3, {.padding = 1}), nn::BatchNorm2d(3), nn::ReLU(),
                        nn::Dropout(0.3), nn::Flatten(), nn::Linear(48, 4));
}

Tensor make_images(const Device& device) { return make_values({3, 2, 4, 4}, kFloat32, device); }

void check_same_state(const nn::Module& a, const nn::Module& b) {
  const StateDict expected = b.state_dict();
  CHECK(a.state_dict().size() == expected.size());
  for (const auto& [name, t] : a.state_dict()) {
    CAPTURE(name);
    check_equal(t, expected.at(name));
  }
}

}  // namespace

TEST_CASE("initialisation draws the same numbers for every device") {
  REQUIRE_CUDA(1);
  namespace init = nn::init;
  const std::vector<std::function<void(const Tensor&)>> all{
      [](const Tensor& t) { init::uniform_(t, -1, 2); },
      [](const Tensor& t) { init::normal_(t, 1, 3); },
      [](const Tensor& t) { init::trunc_normal_(t, 0, 1, -1, 0.5); },
      [](const Tensor& t) { init::constant_(t, 2.5); },
      [](const Tensor& t) { init::zeros_(t); },
      [](const Tensor& t) { init::ones_(t); },
      [](const Tensor& t) { init::xavier_uniform_(t); },
      [](const Tensor& t) { init::xavier_normal_(t); },
      [](const Tensor& t) { init::kaiming_uniform_(t); },
      [](const Tensor& t) { init::kaiming_normal_(t); },
      [](const Tensor& t) { init::orthogonal_(t); },
  };
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      CAPTURE(name(dtype));
      const auto draw = [&](const Device& device) {
        manual_seed(7);
        Tensor t = empty({6, 2, 3, 2}, {.dtype = dtype, .device = device});
        all[i](t);
        return t.cpu();
      };
      check_equal(draw(kCuda()), draw({}));
    }
}

TEST_CASE("a module moves to a CUDA device, changes its dtype there, and comes back") {
  REQUIRE_CUDA(1);
  nn::Sequential net = make_net(), original = make_net();
  const Tensor weight = net.parameters()[0];
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  sum(net(make_images({}))).backward();
  const Tensor grad = weight.grad().clone();
  net.to(kCuda());
  for (const Tensor& p : net.parameters()) CHECK(p.device() == kCuda());
  for (const Tensor& b : net.buffers()) CHECK(b.device() == kCuda());
  CHECK(weight.device() == kCuda());  // an earlier handle, and its gradient
  check_equal(weight.grad().cpu(), grad);
  sgd.zero_grad();
  sum(net(make_images(kCuda()))).backward();
  const Tensor before = weight.detach().clone();
  sgd.step();
  check_close(weight, before - weight.grad() * 0.1, 1e-6);

  net.to(kFloat16).to(kChannelsLast);
  CHECK(weight.dtype() == kFloat16);
  CHECK(weight.is_contiguous(kChannelsLast));
  CHECK(net.state_dict().at("1.num_batches_tracked").dtype() == kInt64);
  CHECK(net(make_images(kCuda()).to(kFloat16)).dtype() == kFloat16);
  net.to(Device(), kFloat32);
  CHECK(weight.device().is_host());

  original.to(kCuda(), true);
  synchronize(kCuda());
  check_same_state(original.cpu(), make_net());
}

TEST_CASE("state is copied between devices, through files and clones") {
  REQUIRE_CUDA(1);
  nn::Sequential host = make_net(), there = make_net();
  manual_seed(9);
  for (const Tensor& p : there.parameters()) nn::init::normal_(p);
  there.to(kCuda());
  CHECK(there.load_state_dict(host.state_dict()).complete());
  for (const Tensor& p : there.parameters()) CHECK(p.device() == kCuda());
  check_same_state(there, host);

  no_grad([&] { there.parameters()[0].mul_(2); });
  CHECK(host.load_state_dict(there.state_dict()).complete());
  CHECK(host.parameters()[0].device().is_host());
  check_same_state(host, there);

  const auto path = std::filesystem::temp_directory_path() / "ferrite_cuda_module_test.safetensors";
  save(there.state_dict(), path);
  nn::Sequential loaded = make_net();
  loaded.to(kCuda());
  CHECK(loaded.load_state_dict(load(path)).complete());
  std::filesystem::remove(path);
  check_same_state(loaded, there);

  const std::unique_ptr<nn::Sequential> clone = there.clone();
  for (const Tensor& p : clone->parameters()) CHECK(p.device() == kCuda());
  check_same_state(*clone, there);
  no_grad([&] { clone->parameters()[0].zero_(); });
  CHECK(sum(there.parameters()[0] * there.parameters()[0]).item<double>() > 0);
}

TEST_CASE("eval, freezing, no_grad and zero_grad on a CUDA device") {
  REQUIRE_CUDA(1);
  nn::Sequential net = make_net();
  net.to(kCuda());
  const Tensor x = make_images(kCuda());
  net.eval();
  const Tensor first = net(x);
  check_equal(net(x).detach(), first.detach());
  CHECK(first.requires_grad());
  {
    NoGradGuard guard;
    CHECK_FALSE(net(x).requires_grad());
  }
  net.requires_grad_(false);
  CHECK_FALSE(net(x).requires_grad());
  net.requires_grad_();
  sum(net(x)).backward();
  const Tensor grad = net.parameters()[0].grad();
  REQUIRE(grad.defined());
  net.zero_grad(false);
  CHECK(net.parameters()[0].grad().is_same(grad));
  check_close(grad, zeros(grad.shape()), 0);
  net.zero_grad(true);
  CHECK_FALSE(net.parameters()[0].grad().defined());
}

TEST_CASE("checkpointing on a CUDA device: the same losses and gradients, dropout too") {
  REQUIRE_CUDA(1);
  const auto train = [](bool checkpointed) {
    nn::Sequential net(nn::Linear(32, 16), nn::Dropout(0.4), nn::Tanh(), nn::Linear(16, 4));
    manual_seed(4);
    for (const Tensor& p : net.parameters()) nn::init::uniform_(p, -0.3, 0.3);
    net.to(kCuda());
    const Tensor x = make_values({5, 32}, kFloat32, kCuda());
    const Tensor labels = tensor({0, 3, 1, 2, 2}).to(kCuda());
    const auto forward = [&](const Tensor& in) { return net(in); };
    const Tensor y = checkpointed ? autograd::checkpoint(forward, x) : forward(x);
    const Tensor loss = cross_entropy(y, labels);
    loss.backward();
    std::vector<Tensor> results{loss.detach()};
    for (const Tensor& p : net.parameters()) results.push_back(p.grad());
    // The next random numbers are the same as well.
    results.push_back(rand({3}, {.device = kCuda()}));
    return results;
  };
  const std::vector<Tensor> plain = train(false), again = train(true);
  REQUIRE(again.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(i);
    check_equal(again[i], plain[i]);
  }
}

TEST_CASE("hooks on a CUDA device see final gradients, and change them") {
  REQUIRE_CUDA(1);
  const Tensor x = make_values({4, 3}, kFloat32, kCuda());
  const Tensor w = make_values({3}, kFloat32, kCuda(), 1).set_requires_grad();
  int leaf_calls = 0, inner_calls = 0, after_calls = 0;
  TensorHook doubling = w.register_hook([&](const Tensor& g) {
    ++leaf_calls;
    CHECK(g.device() == kCuda());
    return g * 2;
  });
  w.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
    ++after_calls;
    CHECK(leaf.is_same(w));
    CHECK(leaf.grad().defined());
  });
  const Tensor y = x * w;
  y.register_hook([&](const Tensor&) {
    ++inner_calls;
    return Tensor();
  });
  y.retain_grad();
  (sum(y) + sum(w)).backward();
  CHECK(leaf_calls == 1);
  CHECK(inner_calls == 1);
  CHECK(after_calls == 1);
  check_close(w.grad(), (sum(x, {0}) + 1) * 2, 1e-6);
  check_close(y.grad(), ones({4, 3}), 0);
  doubling.remove();
  const Tensor before = w.grad().clone();
  sum(w).backward();
  check_close(w.grad(), before + 1, 1e-6);
}

TEST_CASE("a summary runs on the model's device, and restores the generators") {
  REQUIRE_CUDA(1);
  nn::Sequential net = make_net();
  const std::string on_host = nn::summary(net, {3, 2, 4, 4}).str();
  net.to(kCuda());
  default_generator(kCuda()).manual_seed(4);
  CHECK(nn::summary(net, {3, 2, 4, 4}).str() == on_host);
  CHECK(default_generator(kCuda()).state().offset == 0);
  CHECK(net.is_training());
}
