// Mixed precision with DistributedDataParallel: an overflow on one rank affects all.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/pool.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using optim::amp::OptLevel;
using parallel::ProcessGroup;
using test::check_close;

namespace {

constexpr std::int64_t kBatch = 3;  // of each rank
constexpr double kScale = 1024;     // no gradient here overflows by it
constexpr double kBeyond = std::numeric_limits<float>::max();

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

/// Masters are created from a rank's own weights, before it gets those of rank 0.
Net make_net() {
  static std::mutex generator;
  const std::lock_guard lock(generator);
  manual_seed(3);
  return Net();
}

/// The same on all ranks: the batch of step `step`, of which each takes its part.
struct Batch {
  Tensor images, labels;
};
Batch batch_of(int step, std::int64_t size) {
  Generator random(static_cast<std::uint64_t>(step) + 100);
  const Tensor labels = randint(0, 3, {size}, {.dtype = kInt64}, &random);
  return {randn({size, 1, 8, 8}, {}, &random) * 0.5 +
              (labels.to(kFloat32) - 1.0).reshape({size, 1, 1, 1}),
          labels};
}

struct Case {
  OptLevel level;
  DType dtype = kFloat16;
  int ranks = 2;
  int accumulate = 1;     ///< batches per step, all but the last under no_sync()
  bool unscales = false;  ///< whether gradients are clipped before the step
  std::vector<Device> devices = {};
};

/// Rank, step and part of the step with a loss beyond the range of its type.
struct Planted {
  int rank, step, part;
};

struct Trace {
  std::vector<std::vector<Tensor>> weights;  ///< after each step: parameters, masters
  std::vector<double> scales;
  std::vector<std::int64_t> overflows;
};

optim::amp::Options amp_options(const Case& c) {
  optim::amp::Options options{.opt_level = c.level, .dtype = c.dtype};
  // O3 and bfloat16 have none of their own.
  options.loss_scale = optim::amp::dynamic;
  options.max_loss_scale = kScale;
  return options;
}

constexpr int kSteps = 5;

Trace train(const Case& c, ProcessGroup& group, const std::vector<Planted>& planted) {
  const Device device =
      c.devices.empty() ? Device() : c.devices[static_cast<std::size_t>(group.rank())];
  Net net = make_net();
  net.to(device);
  optim::SGD sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  auto amp = optim::amp::initialize(net, sgd, amp_options(c));
  parallel::convert_sync_batchnorm(net);
  parallel::DistributedDataParallel ddp(net);
  Trace trace;
  for (int step = 0; step < kSteps; ++step) {
    amp.zero_grad();
    for (int part = 0; part < c.accumulate; ++part) {
      const Batch all = batch_of(step * 10 + part, kBatch * group.size());
      const Tensor images = all.images.narrow(0, kBatch * group.rank(), kBatch).to(device);
      const Tensor labels = all.labels.narrow(0, kBatch * group.rank(), kBatch).to(device);
      double factor = 1.0 / c.accumulate;
      for (const Planted& p : planted)
        if (p.rank == group.rank() && p.step == step && p.part == part) factor = kBeyond;
      const auto pass = [&] { amp.scale(cross_entropy(ddp(images), labels) * factor).backward(); };
      if (part + 1 < c.accumulate) {
        const auto local = ddp.no_sync();
        pass();
      } else {
        pass();
      }
    }
    if (c.unscales) optim::clip_grad_norm_(amp.master_parameters(), 1.0);
    amp.step(sgd);
    std::vector<Tensor> weights;
    for (const Tensor& p : net.parameters()) weights.push_back(p.detach().to(Device()).clone());
    for (const Tensor& p : amp.master_parameters())
      weights.push_back(p.detach().to(Device()).clone());
    trace.weights.push_back(weights);
    trace.scales.push_back(amp.loss_scale());
    trace.overflows.push_back(amp.overflows().item<std::int64_t>());
  }
  return trace;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!test::difference(a[i], b[i].to_vector<double>(), 0, 0).empty()) return false;
  return true;
}

std::vector<Trace> run(const Case& c, const std::vector<Planted>& planted) {
  std::vector<Trace> traces(static_cast<std::size_t>(c.ranks));
  parallel::run_ranks(c.ranks,
                      [&](ProcessGroup& group) {
                        traces[static_cast<std::size_t>(group.rank())] = train(c, group, planted);
                      },
                      {.timeout = std::chrono::seconds(60)});
  return traces;
}

void check(const Case& c) {
  const std::string what =
      fmt::format("{} of {} on {} ranks, {} batches a step{}", optim::amp::name(c.level), c.dtype,
                  c.ranks, c.accumulate, c.unscales ? ", clipped" : "");
  CAPTURE(what);
  // On other ranks, in the first part of a step and in the last.
  const std::vector<Planted> planted{{c.ranks - 1, 1, 0}, {0, 3, c.accumulate - 1}};
  const std::vector<Trace> traces = run(c, planted);
  const Trace& first = traces[0];
  const double start = kScale;
  const std::vector<double> halved{start, start / 2, start / 2, start / 4, start / 4};
  CHECK_MESSAGE(first.scales == halved, fmt::format("{}", fmt::join(first.scales, " ")));
  CHECK(first.overflows == std::vector<std::int64_t>{0, 1, 1, 2, 2});
  for (int step = 1; step < kSteps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    CHECK(same(first.weights[at], first.weights[at - 1]) == (step == 1 || step == 3));
  }
  for (const Tensor& weight : first.weights.back())
    for (const double value : weight.to_vector<double>()) CHECK(std::isfinite(value));
  for (const Trace& other : traces) {
    CHECK(other.scales == first.scales);
    CHECK(other.overflows == first.overflows);
    for (std::size_t step = 0; step < kSteps; ++step)
      CHECK(same(other.weights[step], first.weights[step]));
  }
}

}  // namespace

TEST_CASE("an overflow on one rank has all ranks skip the step") {
  for (const OptLevel level : {OptLevel::O0, OptLevel::O1, OptLevel::O2, OptLevel::O3})
    check({.level = level, .ranks = level == OptLevel::O2 ? 3 : 2});
  check({.level = OptLevel::O2, .dtype = kBFloat16});
}

TEST_CASE("an overflow under no_sync() has all ranks skip the step") {
  for (const OptLevel level : {OptLevel::O1, OptLevel::O2, OptLevel::O3})
    check({.level = level, .accumulate = 2});
}

TEST_CASE("an overflow is found where gradients are unscaled for clipping") {
  check({.level = OptLevel::O1, .unscales = true});
  check({.level = OptLevel::O2, .ranks = 3, .accumulate = 2, .unscales = true});
}

TEST_CASE("mixed precision on ranks takes the steps of one process on the whole batch") {
  // The halves round differently in float16; the scale must be removed from the gradients
  // nevertheless.
  for (const OptLevel level : {OptLevel::O0, OptLevel::O2}) {
    const Trace two = run({.level = level, .ranks = 2}, {})[0];
    Net net = make_net();
    optim::SGD sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9});
    auto amp = optim::amp::initialize(net, sgd, amp_options({.level = level}));
    for (int step = 0; step < kSteps; ++step) {
      const Batch all = batch_of(step * 10, 2 * kBatch);
      amp.zero_grad();
      amp.scale(cross_entropy(net(all.images), all.labels)).backward();
      amp.step(sgd);
    }
    const double tolerance = level == OptLevel::O0 ? 1e-5 : 2e-3;
    std::size_t i = 0;
    for (const Tensor& p : net.parameters())
      check_close(two.weights.back()[i++], p.detach(), tolerance, tolerance);
  }
}
