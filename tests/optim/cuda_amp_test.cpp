// Mixed precision on a CUDA device: eager steps that wait for nothing, and the
// same as graphs.
#include <doctest/doctest.h>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::optim::amp;
using test::check_close;
using test::check_equal;

namespace {

/// Named where there is one only.
Device gpu() { return Device("cuda:0"); }

struct Net : nn::Cloneable<Net> {
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) override {
    return fc(max_pool2d(relu(norm(conv(x))), 2).flatten(1));
  }
  nn::Conv2d conv{1, 4, 3};
  nn::BatchNorm2d norm{4};
  nn::Linear fc{4 * 3 * 3, 3};
};

struct Batch {
  Tensor images, labels, factor;
};
/// `factor` makes gradients overflow, or not.
Batch make_batch(std::uint64_t seed, double factor, const Device& device) {
  Generator generator(seed);
  const Tensor labels = randint(0, 3, {6}, {.dtype = kInt64}, &generator);
  const Tensor images =
      randn({6, 1, 8, 8}, {}, &generator) + (labels.to(kFloat32) - 1.0).reshape({6, 1, 1, 1});
  return {images.to(device), labels.to(device), full({}, factor, {.device = device})};
}

struct Run {
  Run(const Options& options, bool clips, const Device& device)
      : clips(clips), amp((model.to(device), initialize(model, sgd, options))) {}
  Tensor step(const Tensor& images, const Tensor& labels, const Tensor& factor) {
    const Tensor logits = model(images);
    const Tensor loss = cross_entropy(logits, labels);
    sgd.zero_grad();
    amp.scale(loss * factor).backward();
    if (amp.state_dict().size() > 3) {  // a second loss
      const auto region = amp.autocast();
      amp.scale(cross_entropy(model(images * 0.5), labels), 1).backward();
    }
    if (clips) optim::clip_grad_norm_(amp.master_parameters(), 0.5);
    amp.step(sgd);
    return loss;
  }
  bool clips;
  Net model = (manual_seed(3), Net());
  optim::SGD sgd{model.parameters(), {.lr = 0.1, .momentum = 0.9}};
  Amp amp;
};

struct Setting {
  Options options;
  bool clips = false;
};
std::vector<Setting> settings() {
  // A scale that these gradients do not overflow with.
  constexpr double kScale = 1024;
  return {{{.opt_level = O1, .max_loss_scale = kScale}},
          {{.opt_level = O1, .max_loss_scale = kScale}, true},
          {{.opt_level = O2, .max_loss_scale = kScale}},
          {{.opt_level = O2, .max_loss_scale = kScale}, true},
          {{.opt_level = O2, .dtype = kBFloat16}, true},
          {{.opt_level = O2, .num_losses = 2, .max_loss_scale = kScale}, true},
          {{.opt_level = O3, .loss_scale = 128.0}}};
}

constexpr std::uint64_t kSteps = 7;
double factor_of(std::uint64_t step, const Options& options) {
  return step == 4 && options.dtype == kFloat16 && !options.loss_scale ? 1e30 : 1;
}

void check_same(const StateDict& a, const StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, t] : a) {
    CAPTURE(name);
    check_equal(t, b.at(name));
  }
}

}  // namespace

TEST_CASE(
    "graphed steps give the bits of eager ones at every level, a skipped "
    "one included") {
  REQUIRE_CUDA(1);
  for (const auto& [options, clips] : settings()) {
    CAPTURE(name(options.opt_level));
    CAPTURE(clips);
    Run eager(options, clips, gpu()), graphed(options, clips, gpu());
    nn::GraphedStep step(graphed.model,
                         [&](const Tensor& x, const Tensor& y, const Tensor& factor) {
                           return graphed.step(x, y, factor);
                         });
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      const Batch b = make_batch(i, factor_of(i, options), gpu());
      const Tensor loss = eager.step(b.images, b.labels, b.factor);
      check_equal(step(b.images, b.labels, b.factor), loss.detach());
    }
    CHECK(step.stats().captures == 1);
    CHECK(step.stats().replayed >= 4);
    check_same(graphed.model.state_dict(), eager.model.state_dict());
    check_same(graphed.sgd.state_dict(), eager.sgd.state_dict());
    check_same(graphed.amp.state_dict(), eager.amp.state_dict());
    if (factor_of(4, options) != 1) CHECK(graphed.amp.overflows().item<std::int64_t>() == 1);
    CHECK(graphed.amp.loss_scale() == eager.amp.loss_scale());
  }
}

TEST_CASE("losses on a CUDA device are those of the CPU; steps wait for nothing") {
  REQUIRE_CUDA(1);
  for (const auto& [options, clips] : settings()) {
    CAPTURE(name(options.opt_level));
    Run host(options, clips, Device()), device(options, clips, gpu());
    std::vector<Batch> batches;
    for (std::uint64_t i = 0; i < kSteps; ++i)
      batches.push_back(make_batch(i, factor_of(i, options), gpu()));
    synchronize(gpu());
    test::HostWaits before;
    std::vector<Tensor> losses;
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      if (i == 3) before = test::host_waits();
      losses.push_back(
          device.step(batches[i].images, batches[i].labels, batches[i].factor).detach());
    }
    const test::HostWaits after = test::host_waits();
    CHECK(after.synchronizations == before.synchronizations);
    CHECK(after.copies == before.copies);
    const double tolerance = options.dtype == kFloat16 ? 0.02 : 0.1;
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      const Batch b = make_batch(i, factor_of(i, options), Device());
      check_close(losses[i], host.step(b.images, b.labels, b.factor).detach(), 0, tolerance);
    }
    CHECK(device.amp.loss_scale() == host.amp.loss_scale());
    CHECK(device.amp.overflow_message() == host.amp.overflow_message());
  }
}

TEST_CASE("converted parameters stay in their graph, and graphs convert their own") {
  REQUIRE_CUDA(1);
  const Tensor w = ones({3, 4}, {.device = gpu()}).set_requires_grad(),
               x = ones({1, 4}, {.device = gpu()});
  Tensor y, z, again;
  cuda::Graph first(gpu()), second(gpu());
  const auto check = [](const Tensor& t, double value) {
    check_close(t.detach(), std::vector<double>(3, value), 0);
  };
  {
    const AutocastGuard region({.dtype = kFloat16});
    check(linear(x, w), 4);
    first.capture([&] {
      y = linear(x, w).detach();
      again = linear(x, w).detach();  // from the same conversion
    });
    second.capture([&] { z = linear(x, w).detach(); });
    check(linear(x, w), 4);
    no_grad([&] { w.mul_(2); });
    second.replay();
    check(z, 8);
    first.replay();
    check(y, 8);
    check(again, 8);
    check(linear(x, w), 8);
  }
  no_grad([&] { w.mul_(2); });
  first.replay();
  second.replay();
  check(y, 16);
  check(z, 16);
}
