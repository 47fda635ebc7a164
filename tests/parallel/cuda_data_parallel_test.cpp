// DataParallel on CUDA devices, emulated or real.
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/tests/parallel/data_parallel_training.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using parallel::DataParallel;
using test::DataParallelTraining;
using test::devices_of;
using test::PartsNet;

namespace {

DataParallelTraining small(int devices) {
  return {.make = [] { return std::make_unique<PartsNet>(false, true); },
          .devices = devices_of(DeviceType::cuda, devices),
          .batch = {11, 2, 4, 4}};
}

/// Steps of one network, criterion and optimizer.
class Steps {
 public:
  explicit Steps(int devices) : net_(true, true) {
    net_.to("cuda:0");
    dp_ = std::make_unique<DataParallel<PartsNet>>(net_, devices_of(DeviceType::cuda, devices));
    sgd_ = std::make_unique<optim::SGD>(dp_->parameters(),
                                        optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    x_ = randn({11, 2, 4, 4}).to("cuda:0");
    y_ = randint(0, 3, {11}, {.dtype = kInt64}).to("cuda:0");
  }
  Tensor step() {
    const Tensor loss = cross_entropy((*dp_)(x_), y_);
    sgd_->zero_grad();
    loss.backward();
    sgd_->step();
    return loss;
  }
  void synchronize() {
    for (const Device& device : dp_->devices()) ferrite::synchronize(device);
  }
  DataParallel<PartsNet>& dp() { return *dp_; }
  const Tensor& x() const { return x_; }

 private:
  PartsNet net_;
  std::unique_ptr<DataParallel<PartsNet>> dp_;
  std::unique_ptr<optim::SGD> sgd_;
  Tensor x_, y_;
};

}  // namespace

TEST_CASE("all combinations on CUDA devices") {
  REQUIRE_CUDA(2);
  test::check_all_combinations(DeviceType::cuda, {2});
  REQUIRE_CUDA(4);
  test::check_all_combinations(DeviceType::cuda, {3, 4});
}

TEST_CASE("batch norm on CUDA devices as PyTorch's DataParallel has it") {
  REQUIRE_CUDA(4);
  test::check_batch_norm(DeviceType::cuda);
}

TEST_CASE("LeNet on CUDA devices trains as on the host") {
  REQUIRE_CUDA(2);
  DataParallelTraining c{.make = [] { return std::make_unique<nn::LeNet5>(); },
                         .devices = devices_of(DeviceType::cuda, 2),
                         .batch = {3, 1, 28, 28},
                         .classes = 10,
                         .steps = 4,
                         .lr = 0.02};
  test::check_trained(test::train_parallel(c), test::train_alone(c), 2e-5);
}

TEST_CASE("everything follows the streams, whatever runs late") {
  REQUIRE_CUDA(3);
  if (!test::is_emulated()) return;
  for (const bool in_replicas : {false, true}) {
    DataParallelTraining c = small(3);
    c.loss_in_replicas = in_replicas;
    c.options.bucket_cap_mb = 2e-4;
    const test::Trained expected = test::train_alone(c);
    const test::DeferredStreams deferred;
    test::check_trained(test::train_parallel(c), expected, 1e-5);
  }
}

TEST_CASE("all CUDA devices are taken where none is named") {
  REQUIRE_CUDA(2);
  PartsNet net(false, false);
  net.to("cuda:0");
  DataParallel dp(net);
  CHECK(dp.devices() == devices_of(DeviceType::cuda, cuda::device_count()));
  CHECK(dp(randn({3, 2, 4, 4})).device() == Device("cuda:0"));
}

TEST_CASE("opt levels on CUDA devices train as on one") {
  REQUIRE_CUDA(3);
  const auto train = [](optim::amp::OptLevel level, int devices) {
    manual_seed(3);
    PartsNet net(false, true);
    net.to("cuda:0");
    DataParallel dp(net, devices_of(DeviceType::cuda, devices));
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    auto amp = optim::amp::initialize(net, sgd, level);
    parallel::DataParallelCriterion criterion(
        dp, [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
    std::vector<Tensor> losses;
    for (int step = 0; step < 4; ++step) {
      Generator random(static_cast<std::uint64_t>(step));
      const Tensor x = randn({7, 2, 4, 4}, {}, &random);
      const Tensor y = randint(0, 3, {7}, {.dtype = kInt64}, &random);
      const Tensor loss = criterion(dp.parallel_forward(x), y);
      amp.zero_grad();
      amp.scale(loss).backward();
      amp.step(sgd);
      losses.push_back(loss.detach().cpu());
    }
    CHECK(amp.overflows().item<std::int64_t>() == 0);
    for (const Tensor& p : amp.master_parameters()) losses.push_back(p.detach().cpu().clone());
    return losses;
  };
  using enum optim::amp::OptLevel;
  for (const optim::amp::OptLevel level : {O1, O2, O3}) {
    CAPTURE(optim::amp::name(level));
    const std::vector<Tensor> expected = train(level, 1), actual = train(level, 3);
    REQUIRE(actual.size() == expected.size());
    // The error of rounding gradients, and with O3 weights, to float16.
    for (std::size_t i = 0; i < actual.size(); ++i)
      test::check_close(actual[i], expected[i], 3e-3, 3e-3);
  }
}

TEST_CASE("a step does not make the host wait") {
  REQUIRE_CUDA(2);
  Steps steps(2);
  for (int i = 0; i < 3; ++i) steps.step();
  steps.synchronize();
  const std::uint64_t before = cuda::synchronizations();
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::error);
  try {
    for (int i = 0; i < 3; ++i) steps.step();
  } catch (...) {
    cuda::set_sync_debug_mode(cuda::SyncDebugMode::off);
    throw;
  }
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::off);
  CHECK(cuda::synchronizations() == before);
  steps.synchronize();
  const parallel::DataParallelReport report = steps.dp().report();
  CHECK(report.timed == 6);
  CHECK(report.reduced == 6);
  CHECK(report.forward_ms > 0);
}

TEST_CASE("memory of CUDA devices does not grow with the steps") {
  REQUIRE_CUDA(3);
  Steps steps(3);
  const auto held = [&] {
    steps.synchronize();
    std::vector<std::size_t> held;
    for (const Device& device : steps.dp().devices()) {
      const MemoryStats stats = allocator(device).stats();
      held.insert(held.end(), {stats.allocated, stats.reserved, stats.system_requests});
    }
    return held;
  };
  for (int i = 0; i < 5; ++i) steps.step();
  const std::vector<std::size_t> after_5 = held();
  for (int i = 5; i < 25; ++i) steps.step();
  CHECK(held() == after_5);
}

TEST_CASE("a step on several devices cannot be captured, and says so") {
  REQUIRE_CUDA(2);
  Steps steps(2);
  nn::GraphedStep graphed(steps.dp(), [&](const Tensor&) { return steps.step(); }, {.warmup = 1});
  graphed(steps.x());
  CHECK_THROWS_WITH_AS(graphed(steps.x()),
                       doctest::Contains("[data_parallel] a step on 2 devices cannot be captured"),
                       CudaError);
  steps.step();
  steps.synchronize();
  // One device is a pass-through.
  PartsNet net(false, false);
  DataParallel one(net, {"cuda:0"});
  optim::SGD sgd(one.parameters(), {.lr = 0.1});
  nn::GraphedStep captured(one,
                           [&](const Tensor& x) {
                             const Tensor loss = one(x).sum();
                             sgd.zero_grad();
                             loss.backward();
                             sgd.step();
                             return loss;
                           },
                           {.warmup = 1});
  for (int i = 0; i < 3; ++i) captured(steps.x());
  CHECK(captured.stats().replayed == 2);
}

TEST_CASE("replicas on streams of the caller's, and on a device that is not the first") {
  REQUIRE_CUDA(3);
  PartsNet net(false, false);
  const Tensor x = randn({5, 2, 4, 4});
  const Tensor expected = no_grad([&] { return net(x); });
  net.to("cuda:2");
  DataParallel dp(net, {"cuda:2", "cuda:0"}, {.output_device = "cuda:1"});
  const StreamGuard stream(Stream::create("cuda:2"));
  const Tensor y = dp(x);
  CHECK(y.device() == Device("cuda:1"));
  test::check_close(y.cpu(), expected, 1e-5, 1e-6);
  y.sum().backward();
  CHECK(net.fc.bias.grad().device() == Device("cuda:2"));
  test::check_close(net.fc.bias.grad().cpu(), {5, 5, 5});
}
