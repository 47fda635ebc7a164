// Training steps on a CUDA device: nothing in them waits, and what they compute is what the host
// computes. A network, GradScaler, clipping, each optimizer, batches from pinned memory, sums for
// the log; eagerly and as graphs.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

/// Named where there is one only.
Device gpu() { return Device("cuda:0"); }
constexpr std::int64_t kBatch = 6, kClasses = 3;

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
  nn::Linear fc{4 * 3 * 3, kClasses};
};

struct Batch {
  Tensor images, labels;
};
/// Classes differ in brightness.
Batch make_batch(std::uint64_t seed) {
  Generator generator(seed);
  const Tensor labels = randint(0, kClasses, {kBatch}, {.dtype = kInt64}, &generator);
  return {randn({kBatch, 1, 8, 8}, {}, &generator) * 0.5 +
              labels.to(kFloat32).reshape({kBatch, 1, 1, 1}),
          labels};
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

/// A model in training, and what is logged of it.
struct Training {
  Training(const MakeOptimizer& make, const Device& where) : device(seeded(where)) {
    net.to(device);
    optimizer = make(net.parameters());
    loss_sum = zeros({}, {.dtype = kFloat64, .device = device});
    correct = zeros({}, {.dtype = kInt64, .device = device});
  }

  Tensor step(const Tensor& images, const Tensor& labels) {
    const Tensor logits = net(images);
    const Tensor loss = cross_entropy(logits, labels);
    optimizer->zero_grad();
    scaler.scale(loss).backward();
    scaler.unscale_(*optimizer);
    norm = optim::clip_grad_norm_(net.parameters(), 0.5);
    if (clips_values) optim::clip_grad_value_(net.parameters(), 0.25);
    scaler.step(*optimizer);
    scaler.update();
    NoGradGuard guard;
    loss_sum.add_(loss.detach());
    correct.add_(logits.argmax(1).eq(labels).sum());
    return loss.detach();
  }
  Tensor step(const Batch& batch) {
    return step(batch.images.to(device, non_blocking), batch.labels.to(device, non_blocking));
  }

  static const Device& seeded(const Device& device) {  // before the weights are drawn
    manual_seed(5);
    return device;
  }

  Device device;
  Net net;
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::GradScaler scaler{{.init_scale = 1024, .growth_interval = 4}};
  Tensor loss_sum, correct, norm;
  bool clips_values = false;
};

std::vector<Batch> pinned_batches(std::uint64_t count) {
  std::vector<Batch> batches;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Batch b = make_batch(i);
    batches.push_back({b.images.pin_memory(), b.labels.pin_memory()});
  }
  return batches;
}

struct SyncErrors {
  SyncErrors() { cuda::set_sync_debug_mode(cuda::SyncDebugMode::error); }
  ~SyncErrors() { cuda::set_sync_debug_mode(cuda::SyncDebugMode::off); }
};

}  // namespace

TEST_CASE("nothing in a training step waits for the device or asks the driver for memory") {
  REQUIRE_CUDA(1);
  const std::vector<Batch> batches = pinned_batches(4);
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    CAPTURE(name);
    Training training(make, gpu());
    training.clips_values = true;
    for (const Batch& b : batches) training.step(b);
    const auto waits = cuda::synchronizations();
    const test::HostWaits calls = test::host_waits();
    const std::size_t allocated = memory_allocated(gpu()), reserved = memory_reserved(gpu());
    {
      const SyncErrors forbidden;
      for (int i = 0; i < 3; ++i) {
        training.optimizer->set_lr(0.01 / (1 + i));
        for (const Batch& b : batches) training.step(b);
      }
    }
    CHECK(cuda::synchronizations() == waits);
    CHECK(test::host_waits() == calls);
    CHECK(memory_allocated(gpu()) == allocated);
    CHECK(memory_reserved(gpu()) == reserved);
    CHECK(training.loss_sum.item<double>() > 0);
    CHECK(cuda::synchronizations() > waits);  // it does count
  }
}

TEST_CASE("nor does one that overflows, or steps that follow each other on other streams") {
  REQUIRE_CUDA(1);
  Batch bad = pinned_batches(1)[0];
  const Batch good{bad.images.clone().pin_memory(), bad.labels};
  bad.images.fill_(INFINITY);
  Training training(test::all_optimizers()[1].make, gpu());
  training.net.norm.eval();  // what is infinite stays out of the running statistics
  training.step(good);
  const Tensor weight = training.net.fc.weight.detach().clone();
  const auto waits = cuda::synchronizations();
  const Stream other = Stream::create(gpu());
  {
    const SyncErrors forbidden;
    training.step(bad);
    other.wait(current_stream(gpu()));
    const StreamGuard guard(other);
    training.step(bad);
    default_stream(gpu()).wait(other);
  }
  CHECK(cuda::synchronizations() == waits);
  check_equal(training.net.fc.weight.detach(), weight);
  CHECK(training.scaler.get_scale() == 256);
  CHECK(training.scaler.overflows().item<int>() == 2);
  const StateDict state = training.optimizer->state_dict();
  CHECK(state.at("state.0.step").item<int>() == 1);
  training.step(good);
  CHECK(training.optimizer->state_dict().at("state.0.step").item<int>() == 2);
}

TEST_CASE("the same steps on the host and on the device, with each optimizer") {
  REQUIRE_CUDA(1);
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    CAPTURE(name);
    Training host(make, Device()), device(make, gpu());
    std::vector<Tensor> losses;
    double first = 0, last = 0;
    for (std::uint64_t s = 0; s < 20; ++s) {
      const Batch b = make_batch(s % 5);
      const double expected = host.step(b).item<double>();
      losses.push_back(device.step(b));
      CAPTURE(s);
      // Sums are added up in another order; twenty steps of optimizers that divide by small
      // second moments make more of it.
      CHECK(std::abs(losses.back().item<double>() - expected) < 2e-4 * (1 + expected));
      (s < 5 ? first : last) += s < 5 || s >= 15 ? expected : 0;
    }
    CHECK(last < 0.8 * first);  // it learns
    CHECK(device.scaler.get_scale() == host.scaler.get_scale());
    CHECK(host.scaler.get_scale() == 32768);
    CHECK(device.correct.item<int>() >= host.correct.item<int>() - 1);
    CHECK(device.correct.item<int>() <= host.correct.item<int>() + 1);
    check_close(device.loss_sum, {host.loss_sum.item<double>()}, 1e-3);
    check_close(device.norm, {host.norm.item<double>()}, 2e-2, 1e-4);
  }
}

// ---- Captured

TEST_CASE("graphed steps with a loss scaler give the eager ones' bits, overflows among them") {
  REQUIRE_CUDA(1);
  std::vector<Batch> batches;
  for (std::uint64_t i = 0; i < 10; ++i) {
    batches.push_back(make_batch(i));
    if (i == 0 || i == 3 || i == 6) batches.back().images.fill_(INFINITY);
  }
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    CAPTURE(name);
    Training eager(make, gpu()), graphed(make, gpu());
    nn::GraphedStep step(graphed.net,
                         [&](const Tensor& x, const Tensor& y) { return graphed.step(x, y); },
                         {.warmup = 2});
    for (Training* t : {&eager, &graphed}) t->net.norm.eval();
    for (std::size_t i = 0; i < batches.size(); ++i) {
      CAPTURE(i);
      if (i == 7)
        for (Training* t : {&eager, &graphed}) t->optimizer->set_lr(0.001);
      const Tensor x = batches[i].images.to(gpu()), y = batches[i].labels.to(gpu());
      const float a = eager.step(x, y).item<float>(), b = step(x, y).item<float>();
      CHECK((a == b || (std::isnan(a) && std::isnan(b))));
    }
    CHECK(step.stats().replayed == 8);
    CHECK(eager.scaler.get_scale() == graphed.scaler.get_scale());
    CHECK(graphed.scaler.overflows().item<int>() == 3);
    const StateDict expected = eager.optimizer->state_dict();
    for (const auto& [key, value] : graphed.optimizer->state_dict()) {
      CAPTURE(key);
      check_equal(value, expected.at(key));
    }
    for (std::size_t i = 0; i < eager.net.parameters().size(); ++i)
      check_equal(graphed.net.parameters()[i].detach(), eager.net.parameters()[i].detach());
    const Batch pinned = pinned_batches(1)[0];
    step(pinned.images, pinned.labels);
    const test::HostWaits calls = test::host_waits();
    {
      const SyncErrors forbidden;
      for (int i = 0; i < 5; ++i) step(pinned.images, pinned.labels);
    }
    CHECK(test::host_waits() == calls);
    // Between replays the scaler stands between two steps: an eager one may follow.
    const Batch b = make_batch(3);
    graphed.step(b);
    CHECK_THROWS_AS(graphed.scaler.update(), ValueError);
  }
}

TEST_CASE("state that a capture would make, and learning rates it would keep, are refused") {
  REQUIRE_CUDA(1);
  const Tensor p = ones({2}, {.device = gpu()});
  p.set_requires_grad();
  p.set_grad(ones({2}, {.device = gpu()}));
  const auto refused = [&](const std::function<void()>& work) {
    cuda::Graph graph(gpu());
    return test::message_of<CudaError>([&] { graph.capture(work); });
  };
  const auto contains = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  for (const auto& [name, make, lr_acts_at_once] : test::all_optimizers()) {
    CAPTURE(name);
    const auto optimizer = make({p});
    contains(refused([&] { optimizer->step(); }), "run one step eagerly before the capture");
    optimizer->step();
    const double lr = optimizer->lr();
    contains(refused([&] { optimizer->set_lr(0.5); }), "set it outside of the captured step");
    CHECK(optimizer->lr() == lr);
    const Tensor before = p.detach().clone();
    cuda::Graph graph(gpu());
    graph.capture([&] {
      optimizer->set_lr(lr);  // as it is
      optimizer->step();
    });
    check_equal(p.detach(), before);
    CHECK(optimizer->state_dict().at("state.0.step").item<int>() == 1);
    graph.replay();
    optimizer->set_lr(0);
    const Tensor moved = p.detach().clone();
    CHECK(!(moved.cpu().to_vector<float>() == before.cpu().to_vector<float>()));
    graph.replay();
    if (lr_acts_at_once) check_equal(p.detach(), moved);
    CHECK(optimizer->state_dict().at("state.0.step").item<int>() == 3);
  }

  optim::SGD plain({p}, {.lr = 0.1});
  contains(refused([&] { plain.step(); }), "run one step eagerly before the capture");
  plain.step();
  optim::GradScaler scaler({.init_scale = 4});
  const Tensor loss = ones({}, {.device = gpu()});
  contains(refused([&] { scaler.scale(loss); }), "the loss scale would be made");
  scaler.scale(loss);
  contains(refused([&] { scaler.step(plain); }), "the overflow flag of an optimizer would be made");
  scaler.step(plain);
  scaler.update();
  // A capture that fails half-way leaves no half step behind.
  contains(refused([&] {
             scaler.unscale_(plain);
             loss.item<float>();
           }),
           "captured");
  scaler.unscale_(plain);
  scaler.step(plain);
  scaler.update();
  CHECK(scaler.get_scale() == 4);
}
