// Training runs: compared with PyTorch (tests/golden/record_training.py makes the same weights and
// images), reproducible to the last bit, and their use of memory.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/hash.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

constexpr std::int64_t kSteps = 20, kBatch = 16, kClasses = 10;

struct Batch {
  Tensor images, labels;
};

Batch make_batch(std::int64_t step) {
  const auto s = static_cast<std::uint32_t>(step);
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const std::uint32_t label = hash32(1000 + s, n) % kClasses;
    labels.push_back(label);
    for (std::int64_t p = 0; p < 784; ++p)
      pixels.push_back((static_cast<float>((hash32(2000 + label, p) >> 25) +
                                           (hash32(3000 + s, n * 784 + p) >> 25)) -
                        127) /
                       32);
  }
  return {from_vector(pixels, {kBatch, 1, 28, 28}), from_vector(labels, {kBatch})};
}

struct Setup {
  bool d2l = false;
  Device device = {};
  MemoryFormat format = kContiguous;
};

/// A network with an optimizer, as the recorded runs had them.
class Trainer {
 public:
  explicit Trainer(const Setup& setup) : setup_(setup) {
    if (setup.d2l)
      model_ = std::make_unique<nn::D2LLeNet>();
    else
      model_ = std::make_unique<nn::LeNet5>();
    const std::vector<std::int64_t> fans = setup.d2l
                                               ? std::vector<std::int64_t>{9, 500, 800, 128}
                                               : std::vector<std::int64_t>{25, 150, 400, 120, 84};
    std::uint32_t seed = 0;
    for (const Tensor& p : model_->parameters()) {
      set_uniform(p, seed, fans[seed / 2]);
      ++seed;
    }
    model_->to(setup.device).to(setup.format);
    sgd_ = std::make_unique<optim::SGD>(
        model_->parameters(),
        setup.d2l ? optim::SGDOptions{.lr = 0.2} : optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
  }

  Tensor logits(const Batch& batch) {
    return (*model_)(batch.images.to(setup_.device).to(setup_.format));
  }
  Tensor step(const Batch& batch) {
    Tensor loss = cross_entropy(logits(batch), batch.labels.to(setup_.device));
    sgd_->zero_grad();
    loss.backward();
    sgd_->step();
    return loss.detach();
  }
  std::vector<Tensor> parameters() const { return model_->parameters(); }

 private:
  Setup setup_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::SGD> sgd_;
};

/// The final state of a run, for bitwise comparison.
struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> weights;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const Setup& setup) {
  Trainer trainer(setup);
  std::vector<Tensor> losses;  // read at the end: no step waits
  for (std::int64_t s = 0; s < kSteps; ++s) losses.push_back(trainer.step(make_batch(s)));
  Outcome outcome;
  for (const Tensor& loss : losses) outcome.losses.push_back(loss.item<float>());
  for (const Tensor& p : trainer.parameters()) outcome.weights.push_back(p.to_vector<float>());
  return outcome;
}

Tensor sample(const Tensor& t) {
  const std::int64_t stride = std::max<std::int64_t>(1, (t.numel() + 199) / 200);
  const auto all = t.to_vector<float>();
  std::vector<float> some;
  for (std::int64_t i = 0; i < t.numel(); i += stride)
    some.push_back(all[static_cast<std::size_t>(i)]);
  return from_vector(some, {static_cast<std::int64_t>(some.size())});
}

double norm_of(const Tensor& t) {
  double squares = 0;
  for (double v : t.to_vector<double>()) squares += v * v;
  return std::sqrt(squares);
}

/// Compares the run of `setup` step by step with the recorded one. PyTorch's own results in float64
/// and float32 differ by 4e-7 (losses), 4e-6 (logits) and 3e-7 (weights).
void check_against_pytorch(const Setup& setup) {
  const Golden golden("training");
  const std::string name = setup.d2l ? "d2l" : "lenet5";
  const auto losses = golden.get(name, "losses").to_vector<double>();
  Trainer trainer(setup);
  {
    NoGradGuard guard;
    check_close(trainer.logits(make_batch(0)), golden.get(name, "first_logits"), 1e-5, 1e-5);
  }
  for (std::int64_t s = 0; s < kSteps; ++s) {
    CAPTURE(s);
    const double loss = trainer.step(make_batch(s)).item<double>();
    CHECK(std::abs(loss - losses[static_cast<std::size_t>(s)]) < 1e-5);
    if (s > 0) continue;
    std::size_t i = 0;
    for (const Tensor& p : trainer.parameters()) {
      CAPTURE(i);
      check_close(sample(p.grad()), golden.get(name, fmt::format("gradient{}", i++)), 1e-4, 1e-6);
    }
  }
  NoGradGuard guard;
  check_close(trainer.logits(make_batch(kSteps)), golden.get(name, "final_logits"), 1e-4, 5e-5);
  std::size_t i = 0;
  for (const Tensor& p : trainer.parameters()) {
    CAPTURE(i);
    check_close(sample(p), golden.get(name, fmt::format("weight{}", i)), 1e-5, 1e-5);
    CHECK(std::abs(norm_of(p) - golden.get(name, fmt::format("norm{}", i)).item<double>()) < 1e-5);
    ++i;
  }
}

}  // namespace

TEST_CASE("LeNet-5 with momentum trains as in PyTorch") {
  check_against_pytorch({});
  check_against_pytorch({.format = kChannelsLast});
  check_against_pytorch({.device = "cpu:1"});
}

TEST_CASE("the LeNet of Dive into Deep Learning trains as in PyTorch") {
  check_against_pytorch({.d2l = true});
  check_against_pytorch({.d2l = true, .format = kChannelsLast});
  check_against_pytorch({.d2l = true, .device = "cpu:1"});
}

TEST_CASE("losses and weights are the same to the last bit for all runs, threads and devices") {
  const int threads = num_threads();
  for (bool d2l : {false, true})
    for (MemoryFormat format : {kContiguous, kChannelsLast}) {
      CAPTURE(d2l);
      CAPTURE(static_cast<int>(format));
      const Setup setup{.d2l = d2l, .format = format};
      set_num_threads(1);
      const Outcome expected = run(setup);
      CHECK(run(setup) == expected);
      for (int count : {2, 3}) {
        set_num_threads(count);
        CHECK(run(setup) == expected);
      }
      set_num_threads(threads);
      CHECK(run({.d2l = d2l, .device = "cpu:1", .format = format}) == expected);
    }
}

TEST_CASE(
    "a step after warm-up does not change the memory in use and requests none from the system") {
  const int threads = num_threads();
  for (const Device device : {Device(), Device("cpu:1")})
    for (MemoryFormat format : {kContiguous, kChannelsLast})
      for (int count : {1, 2}) {
        CAPTURE(device.str());
        CAPTURE(static_cast<int>(format));
        CAPTURE(count);
        set_num_threads(count);
        Trainer trainer({.device = device, .format = format});
        const std::vector<Batch> batches = {make_batch(0), make_batch(1)};
        const auto step = [&](std::size_t s) {
          trainer.step(batches[s % 2]);
          synchronize(device);  // frees the memory that queued work held
        };
        for (std::size_t s = 0; s < 4; ++s) step(s);
        const auto requests = [&] {
          return allocator(device).stats().system_requests +
                 allocator(Device()).stats().system_requests;
        };
        const std::size_t allocated = memory_allocated(device);
        const std::uint64_t before = requests();
        // Each thread that works at the same time has its own working memory; their number varies.
        const std::uint64_t luck = count > 1 ? 8 : 0;
        const std::size_t steps = format == kContiguous ? 200 : 40;
        for (std::size_t s = 0; s < steps; ++s) {
          step(s);
          if (memory_allocated(device) != allocated || requests() > before + luck)
            FAIL("step ", s, ": ", allocated, " bytes grew to ", memory_allocated(device),
                 ", requests to the system from ", before, " to ", requests());
        }
      }
  set_num_threads(threads);
}

TEST_CASE("evaluation does not retain memory either, with and without recording") {
  Trainer trainer({});
  const Batch batch = make_batch(0);
  trainer.step(batch);
  const std::size_t before = memory_allocated(Device());
  for (int i = 0; i < 3; ++i) {
    {
      const Tensor dropped = cross_entropy(trainer.logits(batch), batch.labels);
      CHECK(dropped.requires_grad());
    }
    CHECK(memory_allocated(Device()) == before);
    {
      NoGradGuard guard;
      CHECK_FALSE(trainer.logits(batch).requires_grad());
    }
    CHECK(memory_allocated(Device()) == before);
  }
}
