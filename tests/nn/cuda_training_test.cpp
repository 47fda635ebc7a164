// Training runs on a CUDA device: compared with the CPU, after running out of memory, and their use
// of memory.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <memory>

#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/generator.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/synthetic_digits.h"
#include "ferrite/data/transforms.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// A model, its optimizer and the training step.
struct Trainer {
  Trainer(std::unique_ptr<nn::Module> net, const Device& device, MemoryFormat format = kContiguous,
          double lr = 0.05)
      : model(std::move(net)), correct(zeros({}, {.dtype = kInt64, .device = device})) {
    model->to(device).to(format);
    sgd = std::make_unique<optim::SGD>(model->parameters(),
                                       optim::SGDOptions{.lr = lr, .momentum = 0.9});
  }
  Tensor step(const Tensor& images, const Tensor& labels) {
    const Tensor logits = (*model)(images);
    const Tensor loss = cross_entropy(logits, labels);
    sgd->zero_grad();
    loss.backward();
    sgd->step();
    correct += logits.detach().argmax(1).eq(labels).sum();
    return loss.detach();
  }

  std::unique_ptr<nn::Module> model;
  Tensor correct;  // correct predictions so far; no step waits for this sum
  std::unique_ptr<optim::SGD> sgd;
};

struct Setup {
  bool d2l = false;
  Device device = {};
  MemoryFormat format = kContiguous;
  bool graph = false;
};

struct Outcome {
  std::vector<double> losses;
  std::int64_t correct = 0;
  std::vector<Tensor> weights;  // on the host
};

/// Two epochs of three batches, the last one smaller.
Outcome train_lenet(const Setup& setup) {
  manual_seed(4);
  std::unique_ptr<nn::Module> net;
  if (setup.d2l)
    net = std::make_unique<nn::D2LLeNet>(0.05);
  else
    net = std::make_unique<nn::LeNet5>();
  Trainer trainer(std::move(net), setup.device, setup.format);
  nn::GraphedStep graphed(*trainer.model,
                          [&](const Tensor& x, const Tensor& y) { return trainer.step(x, y); },
                          {.warmup = 1});
  const data::SyntheticDigits digits(11, 5,
                                     data::Compose{data::ToTensor(), data::Normalize(0.13, 0.31)});
  data::DataLoader loader(
      digits,
      {.batch_size = 4, .shuffle = true, .num_workers = 1, .seed = 6, .device = setup.device});
  std::vector<Tensor> losses;  // read at the end: no step waits
  std::uint64_t waits = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& [images, labels] : loader)
      losses.push_back(setup.graph ? graphed(images, labels) : trainer.step(images, labels));
    if (epoch == 0) waits = cuda::synchronizations();
  }
  if (!setup.graph) CHECK(cuda::synchronizations() == waits);  // a capture may free memory
  if (setup.graph) CHECK(graphed.stats().replayed == 4);
  Outcome outcome;
  for (const Tensor& loss : losses) outcome.losses.push_back(loss.item<double>());
  outcome.correct = trainer.correct.item<std::int64_t>();
  for (const Tensor& p : trainer.model->parameters()) outcome.weights.push_back(p.detach().cpu());
  return outcome;
}

/// For images of kSide x kSide; small enough for a thousand steps on the emulator.
constexpr std::int64_t kSide = 5;
struct Tiny : nn::Cloneable<Tiny> {
  explicit Tiny(std::int64_t channels) : conv(1, channels, 3), fc(channels * 9, 3) {
    register_module("conv", conv);
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(relu(conv(x)).flatten(1)); }
  nn::Conv2d conv;
  nn::Linear fc;
};

struct Batch {
  Tensor images, labels;
};
Batch random_batch(std::int64_t n, std::uint64_t seed, const Device& device) {
  Generator generator(seed);
  const Tensor images = randn({n, 1, kSide, kSide}, {}, &generator);
  const Tensor labels = randint(0, 3, {n}, {.dtype = kInt64}, &generator);
  return {images.to(device), labels.to(device)};
}

Trainer tiny_trainer(const Device& device, std::int64_t channels = 2) {
  manual_seed(1);
  return Trainer(std::make_unique<Tiny>(channels), device);
}

}  // namespace

// The two devices sum in different orders. On the CPU, losses in float32 and in float64 differ by
// less than 1e-6 after as many steps.
TEST_CASE(
    "LeNet on a CUDA device reaches the CPU's losses and weights, without waiting for the device") {
  REQUIRE_CUDA(1);
  for (const bool d2l : {false, true})
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      if (d2l && format == kContiguous) continue;  // the slower network runs only once
      CAPTURE(d2l);
      CAPTURE(static_cast<int>(format));
      const Outcome expected = train_lenet({.d2l = d2l, .format = format});
      const Outcome got = train_lenet({.d2l = d2l, .device = "cuda:0", .format = format});
      REQUIRE(got.losses.size() == 6);
      for (std::size_t i = 0; i < 6; ++i) {
        CAPTURE(i);
        CHECK(std::abs(got.losses[i] - expected.losses[i]) < 2e-5);
      }
      CHECK(got.correct == expected.correct);
      CHECK(std::abs(got.losses[0] - got.losses[5]) > 1e-3);  // the network learns
      for (std::size_t i = 0; i < got.weights.size(); ++i) {
        CAPTURE(i);
        check_close(got.weights[i], expected.weights[i], 1e-4, 2e-5);
      }
    }
}

TEST_CASE("LeNet as a graph gives the eager results to the last bit") {
  REQUIRE_CUDA(1);
  const Setup setup{.device = "cuda:0", .format = kChannelsLast};
  Setup graphed = setup;
  graphed.graph = true;
  const Outcome expected = train_lenet(setup), got = train_lenet(graphed);
  CHECK(got.losses == expected.losses);
  CHECK(got.correct == expected.correct);
  for (std::size_t i = 0; i < got.weights.size(); ++i)
    check_equal(got.weights[i], expected.weights[i]);
}

TEST_CASE("training continues after memory ran out anywhere in a step") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  Trainer trainer = tiny_trainer(device, 16), reference = tiny_trainer(Device(), 16);
  const auto step = [&](std::int64_t n, std::uint64_t seed) {
    const Batch on_device = random_batch(n, seed, device);
    const double loss = trainer.step(on_device.images, on_device.labels).item<double>();
    const Batch on_host = random_batch(n, seed, Device());
    const double expected = reference.step(on_host.images, on_host.labels).item<double>();
    CHECK(std::abs(loss - expected) < 2e-5);
  };
  step(4, 1);
  trainer.sgd->zero_grad();
  const std::size_t level = memory_allocated(device);
  int failed = 0;
  bool done = false;
  for (std::size_t extra = 0; !done && extra < 40; ++extra) {
    CAPTURE(extra);
    empty_cache(device);
    // With each higher limit, the step fails later.
    allocator(device).set_limit(memory_reserved(device) + (extra << 20));
    try {
      step(2000, 100);  // activations of 1.1 MiB each
      done = true;
    } catch (const OutOfMemoryError&) {
      ++failed;
    }
    allocator(device).set_limit(SIZE_MAX);
    trainer.sgd->zero_grad();
    CHECK(memory_allocated(device) == level);
    step(8, 200 + extra);
  }
  CHECK(done);
  CHECK(failed >= 3);
  for (std::size_t i = 0; i < trainer.model->parameters().size(); ++i)
    check_close(trainer.model->parameters()[i].detach().cpu(),
                reference.model->parameters()[i].detach(), 1e-4, 2e-5);
}

TEST_CASE("a thousand steps do not change the memory in use") {
  struct Way {
    Device device;
    bool graph = false;
  };
  std::vector<Way> ways = {{Device()}, {"cpu:1"}};
  if (has_cuda()) ways.insert(ways.end(), {{"cuda:0"}, {"cuda:0", true}});
  for (const Way& way : ways) {
    CAPTURE(way.device.str());
    CAPTURE(way.graph);
    Trainer trainer = tiny_trainer(way.device);
    const std::array<Batch, 2> batches = {random_batch(2, 1, way.device),
                                          random_batch(2, 2, way.device)};
    nn::GraphedStep graphed(*trainer.model,
                            [&](const Tensor& x, const Tensor& y) { return trainer.step(x, y); });
    const auto step = [&](std::size_t i) {
      const auto& [images, labels] = batches[i % 2];
      if (way.graph)
        graphed(images, labels);
      else
        trainer.step(images, labels);
      // Frees the memory that queued work held on a CPU device; a GPU holds none.
      if (way.device.is_cpu()) synchronize(way.device);
    };
    for (std::size_t i = 0; i < 8; ++i) step(i);
    const std::size_t allocated = memory_allocated(way.device);
    const std::size_t reserved = memory_reserved(way.device);
    const std::size_t steps = way.graph ? 200 : 1000;
    for (std::size_t i = 0; i < steps; ++i) {
      step(i);
      if (memory_allocated(way.device) != allocated)
        FAIL("step ", i, ": ", allocated, " bytes became ", memory_allocated(way.device));
    }
    synchronize(way.device);
    CHECK(memory_allocated(way.device) == allocated);
    if (!way.device.is_cpu()) CHECK(memory_reserved(way.device) == reserved);
  }
}
