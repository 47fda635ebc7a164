#include <doctest/doctest.h>

#include <functional>
#include <tuple>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using test::check_equal;

namespace {

/// The device with its index, even if there is only one.
Device gpu() { return Device("cuda:0"); }

/// A small network with all parts of a step: convolution, batch norm, dropout, a head.
struct Net : nn::Cloneable<Net> {
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("drop", drop);
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(drop(relu(norm(conv(x)))).flatten(1)); }
  nn::Conv2d conv{1, 2, 3};
  nn::BatchNorm2d norm{2};
  nn::Dropout drop{0.25};
  nn::Linear fc{2 * 4 * 4, 3};
};

struct Batch {
  Tensor images, labels;
};
Batch batch(std::int64_t n, std::uint64_t seed) {
  Generator generator(seed);
  return {randn({n, 1, 6, 6}, {}, &generator), randint(0, 3, {n}, {.dtype = kInt64}, &generator)};
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;
const MakeOptimizer kSgd = [](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
  return std::make_unique<optim::SGD>(std::move(p), optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
};
const MakeOptimizer kAdam = [](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
  return std::make_unique<optim::AdamW>(std::move(p), optim::AdamWOptions{.lr = 0.01});
};

/// A model, its optimizer and the step function.
struct Run {
  explicit Run(const MakeOptimizer& make = kSgd) {
    net.to(gpu());
    optimizer = make(net.parameters());
  }
  Tensor step(const Tensor& images, const Tensor& labels) {
    Tensor loss = cross_entropy(net(images), labels);
    optimizer->zero_grad();
    loss.backward();
    optim::clip_grad_norm_(net.parameters(), 1.0);
    optimizer->step();
    return loss;
  }
  auto graphed(nn::GraphedStepOptions options = {}) {
    return nn::GraphedStep(
        net, [this](const Tensor& x, const Tensor& y) { return step(x, y); }, std::move(options));
  }

  Net net = (manual_seed(7), Net());
  std::unique_ptr<optim::Optimizer> optimizer;
};

/// The losses of consecutive steps.
using Losses = std::vector<float>;
float on_host(const Tensor& loss) { return loss.item<float>(); }

/// Runs 15 steps by `call`, in which batch size, mode and learning rate change.
template <class Call>
Losses train(Run& run, Call&& call) {
  Losses losses;
  for (std::uint64_t i = 0; i < 15; ++i) {
    const Batch b = batch(i % 5 == 4 ? 3 : 4, i);
    if (i == 6) run.optimizer->set_lr(0.02);
    if (i == 8) run.net.norm.eval();
    losses.push_back(on_host(call(b.images.to(gpu()), b.labels.to(gpu()))));
  }
  return losses;
}

Losses train_eagerly(const MakeOptimizer& make, StateDict& after) {
  Run run(make);
  const Losses losses =
      train(run, [&](const Tensor& x, const Tensor& y) { return run.step(x, y).detach(); });
  after = run.net.state_dict();
  return losses;
}

}  // namespace

TEST_CASE("a graphed step gives the same bits as the eager one: losses, weights, buffers") {
  REQUIRE_CUDA(1);
  for (const MakeOptimizer& make : {kSgd, kAdam}) {
    StateDict expected;
    const Losses losses = train_eagerly(make, expected);
    Run run(make);
    auto step = run.graphed({.warmup = 1});
    CHECK(train(run, step) == losses);
    CHECK(step.stats().eager == 4);  // two sizes of batches in two modes
    CHECK(step.stats().captures == 3);
    CHECK(step.stats().replayed == 11);
    for (const auto& [name, value] : run.net.state_dict()) {
      CAPTURE(name);
      check_equal(value.cpu(), expected.at(name).cpu());
    }
  }
}

TEST_CASE("random numbers continue after those of eager steps and other draws") {
  REQUIRE_CUDA(1);
  nn::Linear model(1, 1);
  model.to(gpu());
  const auto draw = [](const Tensor& x) { return dropout(x, 0.5) + rand_like(x); };
  const Tensor x = ones({50}, {.device = gpu()});
  std::vector<Tensor> expected, got;
  const auto run = [&](std::vector<Tensor>& results, auto&& call) {
    manual_seed(11);
    for (int i = 0; i < 4; ++i) {
      results.push_back(call(x).cpu());
      results.push_back(rand({3}, {.device = gpu()}).cpu());
    }
    manual_seed(12);
    results.push_back(call(x).cpu());
  };
  run(expected, draw);
  nn::GraphedStep step(model, draw, {.warmup = 1});
  run(got, step);
  CHECK(step.stats().replayed == 4);
  for (std::size_t i = 0; i < expected.size(); ++i) check_equal(got[i], expected[i]);
}

TEST_CASE("gradients may be dropped, replaced or moved between steps") {
  REQUIRE_CUDA(1);
  nn::Linear model(2, 1, {.bias = false});
  model.to(gpu());
  nn::GraphedStep step(model, [&](const Tensor& x) { model(x).sum().backward(); }, {.warmup = 1});
  const Tensor x = from_vector<float>({1, 2}, {1, 2}).to(gpu());
  const Tensor& weight = model.weight;
  const auto grad = [&] { return weight.grad().cpu().to_vector<float>(); };
  for (int i = 0; i < 3; ++i) step(x);
  CHECK(grad() == std::vector<float>{3, 6});
  model.zero_grad(true);
  step(x);
  CHECK(grad() == std::vector<float>{1, 2});
  weight.set_grad(from_vector<float>({10, 20}, {1, 2}).to(gpu()));
  step(x);
  CHECK(grad() == std::vector<float>{11, 22});
  CHECK(step.stats().captures == 1);

  model.to(kFloat64);
  model.to(kFloat32);  // other memory
  model.zero_grad();
  step(x);
  CHECK(step.stats().eager == 2);
  step(x);
  CHECK(step.stats().captures == 2);
  CHECK(grad() == std::vector<float>{2, 4});
}

TEST_CASE("a step that drops its gradients creates them again in each replay") {
  REQUIRE_CUDA(1);
  nn::Linear model(2, 1, {.bias = false});
  model.to(gpu());
  nn::GraphedStep step(model,
                       [&](const Tensor& x) {
                         model.zero_grad(true);
                         model(x).sum().backward();
                       },
                       {.warmup = 1});
  for (float i = 1; i < 5; ++i) {
    step(from_vector<float>({i, 2 * i}, {1, 2}));
    CHECK(model.weight.grad().cpu().to_vector<float>() == std::vector<float>{i, 2 * i});
  }
}

TEST_CASE("results are copies unless static_outputs is set; results of every type") {
  REQUIRE_CUDA(1);
  nn::Linear model(1, 1);
  model.to(gpu());
  const auto both = [](const Tensor& x) { return std::tuple(x + 1, x * 2); };
  for (const bool fixed : {false, true}) {
    nn::GraphedStep step(model, both, {.warmup = 1, .static_outputs = fixed});
    std::vector<Tensor> sums;
    for (float i = 0; i < 4; ++i) {
      const auto [sum, product] = step(full({2}, i, {.device = gpu()}));
      CHECK(product.cpu().to_vector<float>() == std::vector<float>(2, 2 * i));
      sums.push_back(sum);
    }
    CHECK(sums[2].cpu().to_vector<float>()[0] == (fixed ? 4 : 3));
    CHECK(sums[2].shares_storage(sums[3]) == fixed);
  }
  nn::GraphedStep many(model, [](const Tensor& x) { return std::vector{x, x + 1, x + 2}; });
  for (int i = 0; i < 5; ++i) CHECK(many(ones({}))[2].item<float>() == 3);
}

TEST_CASE("errors name what cannot be captured, and leave gradients and the device usable") {
  REQUIRE_CUDA(1);
  nn::Linear model(2, 1, {.bias = false});
  model.to(gpu());
  const std::pair<std::string, std::function<void(const Tensor&)>> bad[] = {
      {"item", [](const Tensor& x) { x.sum().item<float>(); }},
      {"to", [](const Tensor& x) { x.cpu(); }},
      {"synchronize", [](const Tensor&) { synchronize(gpu()); }},
  };
  const Tensor x = ones({1, 2}, {.device = gpu()});
  for (const auto& [op, f] : bad) {
    CAPTURE(op);
    model.zero_grad();
    nn::GraphedStep step(model,
                         [&](const Tensor& in) {
                           model(in).sum().backward();
                           f(in);
                         },
                         {.warmup = 1});
    step(x);
    const Tensor before = model.weight.grad();
    const std::string message = test::message_of<CudaError>([&] { step(x); });
    CAPTURE(message);
    CHECK(message.find("[" + op + "]") == 0);
    CHECK(message.find("captured") != std::string::npos);
    CHECK(model.weight.grad().is_same(before));
    CHECK(before.cpu().to_vector<float>() == std::vector<float>{1, 1});
    CHECK((x + 1).sum().item<float>() == 4);
  }
  nn::GraphedStep step(model, [&](const Tensor& in) { return model(in); });
  CHECK_THROWS_AS(step(ones({1, 2}, {.device = gpu()}).set_requires_grad()), ValueError);
}

TEST_CASE("waiting for the stream reports bad values in a replay") {
  REQUIRE_CUDA(1);
  nn::Linear model(1, 1);
  model.to(gpu());
  const Tensor table = zeros({4, 1}, {.device = gpu()});
  nn::GraphedStep step(model, [&](const Tensor& i) { return table.index_select(0, i); },
                       {.warmup = 1});
  for (int i = 0; i < 3; ++i) step(from_vector<std::int64_t>({3}, {1}));
  current_stream(gpu()).synchronize();
  step(from_vector<std::int64_t>({4}, {1}));
  CHECK_THROWS_AS(current_stream(gpu()).synchronize(), IndexError);
}

TEST_CASE("without a CUDA device every step is eager") {
  nn::Linear model(2, 1);
  nn::GraphedStep step(model, [&](const Tensor& x) { return model(x).sum(); }, {.warmup = 1});
  for (int i = 0; i < 5; ++i)
    CHECK(step(ones({1, 2})).item<float>() == model(ones({1, 2})).sum().item<float>());
  CHECK(step.stats().eager == 5);
  CHECK(step.stats().captures == 0);
  CHECK_THROWS_AS(cuda::Graph(Device("cpu")), DeviceError);
}

TEST_CASE("replays neither wait nor allocate memory, and graphs free theirs") {
  REQUIRE_CUDA(1);
  synchronize(gpu());
  const std::size_t before = memory_allocated(gpu());
  {
    Run run;
    auto step = run.graphed({.warmup = 1});
    const Batch b = batch(4, 1);
    const Tensor x = b.images.to(gpu()), y = b.labels.to(gpu());
    Tensor loss;
    for (int i = 0; i < 3; ++i) loss = step(x, y);
    const std::size_t allocated = memory_allocated(gpu()), reserved = memory_reserved(gpu());
    const auto waits = cuda::synchronizations();
    for (int i = 0; i < 20; ++i) loss = step(x, y);
    CHECK(cuda::synchronizations() == waits);
    CHECK(memory_allocated(gpu()) == allocated);
    CHECK(memory_reserved(gpu()) == reserved);
    CHECK(step.pool_reserved() > 0);
  }
  CHECK(memory_allocated(gpu()) == before);
}

TEST_CASE("hooks are part of a signature; replays repeat their work on the device") {
  REQUIRE_CUDA(1);
  Run run;
  auto step = run.graphed({.warmup = 1});
  int seen = 0;
  const Tensor counted = zeros({}, {.device = gpu()});
  nn::ModuleHook hook;
  for (int i = 0; i < 9; ++i) {
    if (i == 3)
      hook = run.net.drop.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) {
        ++seen;
        no_grad([&] { counted.add_(1); });
      });
    if (i == 6) hook.remove();
    const Batch b = batch(4, 1);
    step(b.images.to(gpu()), b.labels.to(gpu()));
  }
  CHECK(seen == 2);  // in the first call with the hook, and in the capture
  CHECK(counted.item<float>() == 3);
  CHECK(step.stats().eager == 2);
  CHECK(step.stats().captures == 2);
  CHECK(step.stats().replayed == 7);
}
