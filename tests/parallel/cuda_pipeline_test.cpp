#include <doctest/doctest.h>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/tests/parallel/pipelines.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;
using enum PipelineCheckpoint;

namespace {

std::vector<Device> cuda_devices(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(DeviceType::cuda, i);
  return devices;
}

}  // namespace

TEST_CASE("stages on CUDA devices train as the whole model on the host does") {
  REQUIRE_CUDA(2);
  check_training(cuda_devices(2), 7, 1e-11);
  check_training({"cpu", "cuda:0"}, 17, 1e-11);
  check_training({"cuda:1", "cpu:0"}, 17, 1e-11);
  check_training(cuda_devices(2), 29, 2e-6, {.dtype = kFloat32});
  REQUIRE_CUDA(4);
  check_training(cuda_devices(4), 23, 1e-11);
}

TEST_CASE("whatever runs late, in any order of threads") {
  REQUIRE_CUDA(2);
  if (!is_emulated()) return;
  const DeferredStreams deferred;
  const ShuffledThreads shuffled(7);
  check_training(cuda_devices(2), 11, 1e-11);
}

TEST_CASE("second derivatives across the host and a device, whatever runs late") {
  REQUIRE_CUDA(1);
  const auto second = [](nn::Module& model) {
    const Tensor x = full({3, 4}, 0.5, {.dtype = kFloat64}).set_requires_grad();
    const Tensor y = model(x).pow(2).sum();
    const Tensor g = autograd::grad({&y, 1}, {&x, 1}, {}, true, true)[0];
    const Tensor z = g.cpu().pow(2).sum();
    const Tensor gg = autograd::grad({&z, 1}, {&x, 1})[0];
    return std::pair(g.detach().clone(), gg.detach().clone());
  };
  const auto tower = [] {
    manual_seed(5);
    nn::Sequential net(nn::Linear(4, 5), nn::Tanh(), nn::Linear(5, 2));
    net.to(kFloat64);
    return net;
  };
  nn::Sequential whole = tower();
  const auto expected = second(whole);
  for (const auto& devices : {std::vector<Device>{"cpu", "cuda:0"}, {"cuda:0", "cpu"}})
    for (const auto checkpoint : kCheckpoints) {
      nn::Sequential net = tower();
      Pipeline pipe(net, devices, {.chunks = 3, .checkpoint = checkpoint});
      std::optional<DeferredStreams> deferred;
      if (is_emulated()) deferred.emplace();
      const auto got = second(pipe);
      check_close(got.first, expected.first, 1e-10, 1e-12);
      check_close(got.second, expected.second, 1e-10, 1e-12);
    }
}

TEST_CASE("where a device is lost nothing is moved") {
  REQUIRE_CUDA(2);
  if (!is_emulated()) return;
  nn::Sequential net = small_network();
  {
    const LostDevice lost(1);
    CHECK_THROWS_AS(Pipeline(net, cuda_devices(2)), CudaError);
  }
  cuda::set_device(0);  // it may still be the lost one
  for (const Tensor& p : net.parameters()) CHECK(p.device().is_host());
}

TEST_CASE("devices that cannot reach each other's memory") {
  REQUIRE_CUDA(2);
  if (!is_emulated()) return;
  const NoPeerAccess none;
  check_training(cuda_devices(2), 31, 1e-11);
}

TEST_CASE("the first stage does not wait for the second, nor the host for either") {
  REQUIRE_CUDA(2);
  nn::Sequential net = small_network(kFloat32);
  Pipeline pipe(net, cuda_devices(2), {.chunks = 4, .balance = {5, 5}});
  const Tensor x = ones({8, 2, 6, 6}, {.device = "cuda:0"});
  pipe(x).sum().backward();  // caches are warm
  for (const Device& device : cuda_devices(2)) synchronize(device);
  Tensor loss;
  {
    CudaGate second(current_stream("cuda:1"));
    loss = pipe(x).sum();
    current_stream("cuda:0").synchronize();  // all of its forward
    CHECK_FALSE(current_stream("cuda:1").query());
  }
  synchronize("cuda:1");
  {
    CudaGate first(current_stream("cuda:0"));
    loss.backward();
    current_stream("cuda:1").synchronize();  // all of its backward
    CHECK_FALSE(current_stream("cuda:0").query());
  }
  for (const Device& device : cuda_devices(2)) synchronize(device);
  CHECK(net.parameters()[0].grad().defined());
  const PipelineReport report = pipe.report();
  CHECK(report.timed == 2);
  CHECK(report.step_ms > 0);
  CHECK(report.memory[1].peak_activations > 0);
}

TEST_CASE("a training step never waits for the devices") {
  REQUIRE_EMULATOR();
  REQUIRE_CUDA(2);
  nn::Sequential net = small_network(kFloat32);
  Pipeline pipe(net, cuda_devices(2), {.chunks = 4});
  optim::SGD sgd(pipe.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor x = ones({8, 2, 6, 6}, {.device = "cuda:0"});
  const auto step = [&] {
    sgd.zero_grad();
    pipe(x).pow(2).sum().backward();
    sgd.step();
  };
  for (int i = 0; i < 3; ++i) step();
  const HostWaits before = host_waits();
  for (int i = 0; i < 2; ++i) step();
  CHECK(host_waits() == before);
  for (const Device& device : cuda_devices(2)) synchronize(device);
}

TEST_CASE("mixed precision") {
  REQUIRE_CUDA(2);
  nn::Sequential net = small_network(kFloat32), whole = small_network(kFloat32);
  Pipeline pipe(net, cuda_devices(2), {.chunks = 2});
  optim::SGD sgd(pipe.parameters(), {.lr = 0.1});
  optim::GradScaler scaler;
  const Tensor x = ones({4, 2, 6, 6}), y = from_vector<std::int64_t>({0, 1, 2, 0}, {4});
  Tensor loss;
  {
    const AutocastGuard autocast;
    const Tensor out = pipe(x);
    CHECK(out.dtype() == kFloat16);
    loss = cross_entropy(out, y.to("cuda:1"));
  }
  scaler.scale(loss).backward();
  scaler.step(sgd);
  scaler.update();
  optim::SGD whole_sgd(whole.parameters(), {.lr = 0.1});
  cross_entropy(whole(x), y).backward();
  whole_sgd.step();
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    check_close(net.parameters()[i].cpu(), whole.parameters()[i], 0.01, 0.001);
}
