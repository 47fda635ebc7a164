// Mixed precision with DataParallel: the scopes and casts of opt levels are hooks that replicas
// share, and an overflow in one replica appears in the sum of the gradients.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/clip.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/data_parallel/data_parallel.h"
#include "ferrite/parallel/data_parallel/data_parallel_criterion.h"
#include "ferrite/tests/parallel/data_parallel_training.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using optim::amp::OptLevel;
using parallel::DataParallel;
using test::check_close;

namespace {

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

enum class Wrap { model, wrapper };  ///< the argument of initialize()

struct Case {
  OptLevel level;
  int devices = 1;  ///< 1: only the model
  DType dtype = kFloat16;
  Wrap wrap = Wrap::model;
  bool loss_in_replicas = false;
  bool clips = false;
  int overflow_at = -1;  ///< a step
};

constexpr int kSteps = 4;
constexpr double kScale = 1024;

struct Trace {
  std::vector<Tensor> weights;
  std::vector<double> scales;
  std::set<DType> inside;  ///< dtypes seen by fc in replicas
  DType output = kFloat32;
};

Trace train(const Case& c) {
  manual_seed(3);
  Net net;
  // Normalised by the same values in parts of any size.
  net.norm.eval();
  net.to("cpu:0");
  Trace trace;
  std::mutex mutex;
  net.fc.register_forward_hook([&](nn::Module&, const Tensor& x, const Tensor& y) {
    const std::lock_guard lock(mutex);
    trace.inside.insert(x.dtype());
    trace.inside.insert(y.dtype());
  });
  DataParallel dp(net, test::devices_of(DeviceType::cpu, c.devices));
  optim::SGD sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  optim::amp::Options options{.opt_level = c.level, .dtype = c.dtype};
  options.loss_scale = optim::amp::dynamic;
  options.max_loss_scale = kScale;
  auto amp = c.wrap == Wrap::model ? optim::amp::initialize(net, sgd, options)
                                   : optim::amp::initialize(dp, sgd, options);
  parallel::DataParallelCriterion criterion(
      dp, [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
  for (int step = 0; step < kSteps; ++step) {
    Generator random(static_cast<std::uint64_t>(step) + 100);
    const Tensor x = randn({7, 1, 8, 8}, {}, &random);
    const Tensor y = randint(0, 3, {7}, {.dtype = kInt64}, &random);
    amp.zero_grad();
    Tensor loss;
    if (c.loss_in_replicas) {
      loss = criterion(dp.parallel_forward(x), y);
    } else {
      const Tensor out = dp(x);
      trace.output = out.dtype();
      loss = cross_entropy(out, y.to("cpu:0"));
    }
    if (step == c.overflow_at) loss = loss * static_cast<double>(std::numeric_limits<float>::max());
    amp.scale(loss).backward();
    if (c.clips) optim::clip_grad_norm_(amp.master_parameters(), 1.0);
    amp.step(sgd);
    trace.scales.push_back(amp.loss_scale());
  }
  for (const Tensor& p : amp.master_parameters()) trace.weights.push_back(p.detach().cpu().clone());
  for (const Tensor& p : net.parameters()) trace.weights.push_back(p.detach().cpu().clone());
  return trace;
}

void check(Case c, double tolerance) {
  const std::string what =
      fmt::format("{} of {} on {} devices{}{}{}", optim::amp::name(c.level), c.dtype, c.devices,
                  c.wrap == Wrap::wrapper ? ", the wrapper initialized" : "",
                  c.loss_in_replicas ? ", loss in replicas" : "", c.clips ? ", clipped" : "");
  CAPTURE(what);
  const Trace trace = train(c);
  Case alone = c;
  alone.devices = 1;
  const Trace expected = train(alone);
  CHECK(trace.scales == expected.scales);
  CHECK(trace.inside == expected.inside);
  CHECK(trace.output == expected.output);
  REQUIRE(trace.weights.size() == expected.weights.size());
  for (std::size_t i = 0; i < trace.weights.size(); ++i) {
    CAPTURE(i);
    CHECK(trace.weights[i].dtype() == expected.weights[i].dtype());
    check_close(trace.weights[i], expected.weights[i], tolerance, tolerance);
  }
  if (c.overflow_at >= 0) CHECK(trace.scales.back() == kScale / 2);
  if (c.level == OptLevel::O2 || c.level == OptLevel::O3) CHECK(trace.inside.contains(c.dtype));
}

/// The error of rounding gradients, and with O3 weights, to 16 bits over some steps.
double tolerance_of(OptLevel level, DType dtype) {
  if (level == OptLevel::O0) return 1e-5;
  return dtype == kBFloat16 ? 2e-2 : 3e-3;
}

}  // namespace

TEST_CASE("opt levels on several devices train as on one") {
  for (const OptLevel level : {OptLevel::O0, OptLevel::O1, OptLevel::O2, OptLevel::O3})
    for (const int devices : {2, 3})
      check({.level = level, .devices = devices, .loss_in_replicas = devices == 3},
            tolerance_of(level, kFloat16));
  for (const OptLevel level : {OptLevel::O1, OptLevel::O2})
    check({.level = level, .devices = 2, .dtype = kBFloat16}, tolerance_of(level, kBFloat16));
}

TEST_CASE("the wrapper itself may be initialized") {
  for (const OptLevel level : {OptLevel::O1, OptLevel::O2, OptLevel::O3})
    for (const bool in_replicas : {false, true})
      check({.level = level,
             .devices = 2,
             .wrap = Wrap::wrapper,
             .loss_in_replicas = in_replicas,
             .clips = true},
            tolerance_of(level, kFloat16));
}

TEST_CASE("an overflow skips the step on all devices") {
  for (const OptLevel level : {OptLevel::O1, OptLevel::O2})
    check({.level = level, .devices = 2, .overflow_at = 2}, tolerance_of(level, kFloat16));
}
