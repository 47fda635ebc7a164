#include <doctest/doctest.h>

#include <filesystem>
#include <thread>

#include "ferrite/core/cuda.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/parallel/ddp_training.h"
#include "ferrite/tests/parallel/folder_store.h"
#include "ferrite/tests/parallel/nccl_ranks.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::parallel;
using test::check_ddp_training;
using test::DdpTraining;

namespace {

std::vector<Device> cuda_devices(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(DeviceType::cuda, i);
  return devices;
}

/// A small network with convolutions, a norm and a loss: cheap on emulated devices.
DdpTraining small(int ranks) {
  return {.make =
              [] {
                auto net = std::make_unique<nn::Sequential>(
                    nn::Conv2d(2, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::Conv2d(4, 4, 3),
                    nn::Flatten(), nn::Linear(4 * 2 * 2, 3));
                convert_sync_batchnorm(*net);
                return net;
              },
          .batch = {12, 2, 6, 6},
          .classes = 3,
          .options = {.bucket_cap_mb = 1e-4, .first_bucket_mb = 1e-4},
          .devices = cuda_devices(ranks)};
}

struct Mixed : nn::Cloneable<Mixed> {
  Mixed() {
    register_module("half", half);
    register_module("full", full);
    half.to(kFloat16);
  }
  Tensor forward(const Tensor& x) override { return full(half(x.to(kFloat16)).to(kFloat32)); }
  nn::Linear half{3, 4}, full{4, 2};
};

}  // namespace

TEST_CASE("ranks on CUDA devices train as one on the host") {
  REQUIRE_CUDA(4);
  for (const int ranks : {2, 3, 4}) {
    DdpTraining c = small(ranks);
    check_ddp_training(c, {ranks}, 2e-5);
  }
}

TEST_CASE("LeNet and a narrow ResNet-18 on CUDA devices") {
  REQUIRE_CUDA(2);
  check_ddp_training({.make = [] { return std::make_unique<nn::LeNet5>(); },
                      .batch = {4, 1, 28, 28},
                      .steps = 4,
                      .devices = cuda_devices(2)},
                     {2}, 2e-5);
  check_ddp_training({.make =
                          [] {
                            auto net = std::make_unique<nn::ResNet18>(nn::ResNetOptions{
                                .classes = 3, .stem = nn::ResNetStem::small, .width = 4});
                            net->eval();
                            return net;
                          },
                      .batch = {4, 3, 8, 8},
                      .classes = 3,
                      .steps = 3,
                      .lr = 0.002,
                      .format = kChannelsLast,
                      .devices = cuda_devices(2)},
                     {2}, 2e-5);
}

TEST_CASE("communication follows the streams, whatever runs late") {
  REQUIRE_CUDA(2);
  if (!test::is_emulated()) return;
  const test::DeferredStreams deferred;
  DdpTraining c = small(2);
  c.steps = 6;
  check_ddp_training(c, {2}, 2e-5);
  c.options.delay_allreduce = true;
  check_ddp_training(c, {2}, 2e-5);
}

TEST_CASE("half gradients have separate buckets") {
  REQUIRE_CUDA(2);
  std::vector<Mixed> nets(2);
  run_ranks(2,
            [&](ProcessGroup& group) {
              const Device device(DeviceType::cuda, group.rank());
              Mixed& net = nets[static_cast<std::size_t>(group.rank())];
              net.to(device);
              DistributedDataParallel ddp(net);
              CHECK(ddp.report().buckets.size() == 2);
              for (int step = 0; step < 3; ++step) {
                ddp.zero_grad();
                const Tensor x = full({2, 3}, group.rank() + 1.0, {.device = device});
                (ddp(x) * (group.rank() + 1.0)).sum().backward();
              }
              CHECK(net.half.weight.grad().dtype() == kFloat16);
              test::check_close(net.full.bias.grad(), {3, 3});  // 2 rows, 1 and 2 times
            },
            {.timeout = std::chrono::seconds(60)});
  test::check_same_bits({nets[0].half.weight.grad().cpu()}, {nets[1].half.weight.grad().cpu()});
}

TEST_CASE("groups that work in the host cannot be captured into a step's graph") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  run_ranks(1,
            [&](ProcessGroup&) {
              nn::Linear net(3, 2);
              net.to(device);
              DistributedDataParallel ddp(net, {.static_graph = true});
              optim::SGD sgd(ddp.parameters(), {.lr = 0.1});
              nn::GraphedStep step(ddp,
                                   [&](const Tensor& x) {
                                     const Tensor loss = ddp(x).sum();
                                     sgd.zero_grad();
                                     loss.backward();
                                     sgd.step();
                                     return loss;
                                   },
                                   {.warmup = 2});
              const Tensor x = ones({4, 3}, {.device = device});
              step(x);
              step(x);
              CHECK_THROWS_WITH_AS(step(x), doctest::Contains("captured"), CudaError);
            },
            {.timeout = std::chrono::seconds(60)});
}

TEST_CASE("on NCCL a whole step is one graph") {
  if (!test::can_use_nccl(2)) return;
  DdpTraining c = small(2);
  c.make = [] {
    return std::make_unique<nn::Sequential>(nn::Conv2d(2, 4, 3), nn::ReLU(), nn::Flatten(),
                                            nn::Linear(4 * 4 * 4, 3));
  };
  c.steps = 8;
  c.options.static_graph = true;
  const std::vector<Tensor> expected = train_alone(c);
  const auto data = data_of(c);
  std::string folder = (std::filesystem::temp_directory_path() / "ddp_XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()));
  const auto store = std::make_shared<test::FolderStore>(folder);
  std::vector<std::vector<Tensor>> ended(2);
  std::vector<std::unique_ptr<nn::Module>> models;
  for (unsigned r = 0; r < 2; ++r) models.push_back(test::make_seeded(c, 1 + r));
  const auto run = [&](std::size_t r) {
    const Device device = c.devices[r];
    const auto group = make_nccl_group({.name = "graphed",
                                        .rank = static_cast<int>(r),
                                        .size = 2,
                                        .job_ranks = {0, 1},
                                        .timeout = std::chrono::seconds(60),
                                        .store = store,
                                        .monitor = nullptr,
                                        .device = device});
    models[r]->to(device);
    DDPOptions options = c.options;
    options.process_group = group;
    DistributedDataParallel ddp(*models[r], options);
    optim::SGD sgd(ddp.parameters(), {.lr = c.lr, .momentum = 0.9, .weight_decay = 1e-4});
    nn::GraphedStep step(ddp,
                         [&](const Tensor& images, const Tensor& labels) {
                           sgd.zero_grad();
                           const Tensor loss = cross_entropy(ddp(images), labels);
                           loss.backward();
                           sgd.step();
                           return loss;
                         },
                         {.warmup = 2});
    for (int i = 0; i < c.steps; ++i) {
      const auto& [x, y] = data[static_cast<std::size_t>(i % c.batches)];
      const auto half = static_cast<std::int64_t>(r) * 6;
      step(x.narrow(0, half, 6).contiguous().to(device),
           y.narrow(0, half, 6).contiguous().to(device));
    }
    CHECK(step.stats().replayed == c.steps - 2);
    ended[r] = test::state_of(*models[r]);
  };
  std::vector<std::string> errors(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        try {
          run(r);
        } catch (const std::exception& e) {
          errors[r] = e.what();
        }
      });
  }
  std::filesystem::remove_all(folder);
  CHECK(errors == std::vector<std::string>(2));
  REQUIRE(ended[0].size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    test::check_close(ended[0][i], expected[i], 2e-5, 2e-5);
  test::check_same_bits(ended[0], ended[1]);
}

TEST_CASE("replays of a step count as steps, for buffers and for no_sync()") {
  if (!test::can_use_nccl(2)) return;
  std::vector<std::vector<Tensor>> buffers(2);
  test::Job().run(2, [&](ProcessGroup& group) {
    const Device device = test::device_of(group.rank());
    nn::BatchNorm1d net(3);
    net.to(device);
    DistributedDataParallel ddp(net, {.process_group = group.shared_from_this()});
    nn::GraphedStep step(ddp,
                         [&](const Tensor& x) {
                           const Tensor loss = ddp(x).sum();
                           ddp.zero_grad();
                           loss.backward();
                           return loss;
                         },
                         {.warmup = 1});
    const auto rows = [&](std::int64_t n) {
      return arange(3 * n).to(kFloat32).view({n, 3}).to(device) * (group.rank() + 1);
    };
    const auto evaluate = [&] {
      const NoGradGuard no_grad;
      ddp.eval();
      ddp(rows(2));
      ddp.train();
      for (const auto& [name, buffer] : net.named_buffers())
        buffers[static_cast<std::size_t>(group.rank())].push_back(buffer.to(kFloat32).cpu());
    };
    for (int i = 0; i < 2; ++i) step(rows(4));
    evaluate();
    for (int i = 0; i < 2; ++i) step(rows(4));  // replays
    evaluate();
    step(rows(group.rank() == 0 ? 4 : 5));  // a replay on one rank
    evaluate();
    CHECK(step.stats().replayed == (group.rank() == 0 ? 4 : 3));
    const auto no_sync = ddp.no_sync();
    CHECK_THROWS_WITH_AS(step(rows(4)), doctest::Contains("captured outside of no_sync()"),
                         AutogradError);
  });
  test::check_same_bits(buffers[0], buffers[1]);
}
