#include <atomic>
#include <chrono>
#include <thread>

#include "ferrite/core/allocator.h"
#include "ferrite/tests/parallel/replicate_cases.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;

namespace {

std::vector<Device> cuda_devices(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(DeviceType::cuda, i);
  return devices;
}

std::unique_ptr<AllKinds> make_module() {
  manual_seed(1);
  auto module = std::make_unique<AllKinds>();
  module->to(cuda_devices(1)[0]);
  return module;
}

/// float16 with a batch norm and a last layer in float32.
struct Mixed : nn::Cloneable<Mixed> {
  Mixed() {
    register_module("half", half);
    register_module("norm", norm);
    register_module("full", full);
    half.to(kFloat16);
  }
  Tensor forward(const Tensor& x) override {
    return full(norm(half(x.to(half.weight.dtype()))).to(full.weight.dtype()));
  }
  nn::Linear half{4, 5}, full{5, 2};
  nn::BatchNorm1d norm{5};
};

}  // namespace

TEST_CASE("replicas on CUDA devices: gradients are those of one device") {
  REQUIRE_CUDA(4);
  const auto module = make_module();
  const auto check = [&] {
    for (const int n : {2, 3, 4}) {
      CAPTURE(n);
      const auto devices = cuda_devices(n);
      check_replica_gradients(devices, *module, inputs_on(devices, kFloat32), n == 3 ? 25 : 1e-4,
                              1e-4, 1e-5, n == 3 ? "copies" : "");
    }
  };
  check();
  SUBCASE("streams that do nothing until somebody waits") {
    REQUIRE_EMULATOR();
    const DeferredStreams deferred;
    check();
  }
  SUBCASE("streams of one's own") {
    const auto devices = cuda_devices(2);
    const StreamGuard first(Stream::create(devices[0])), second(Stream::create(devices[1]));
    check();
  }
  SUBCASE("float16 with a float32 batch norm") {
    const auto devices = cuda_devices(3);
    Mixed mixed;
    check_replica_gradients(devices, mixed, inputs_on(devices, kFloat32), 1e-5, 2e-2, 2e-2);
    const std::unique_ptr<nn::Module> moved = mixed.clone();
    moved->to(devices[0]);
    const Replicas replicas = replicate(*moved, devices);
    CHECK(replicas.get<Mixed>(2).half.weight.dtype() == kFloat16);
    CHECK(replicas.get<Mixed>(2).norm.running_mean.dtype() == kFloat32);
    loss_of(replicas, inputs_on(devices, kFloat32)).backward();
    CHECK(moved->parameters()[0].grad().dtype() == kFloat16);
  }
}

TEST_CASE("replicas on CUDA devices: neither the host nor the first device waits") {
  REQUIRE_EMULATOR();
  struct Chain : nn::Cloneable<Chain> {
    Chain() {
      register_module("first", first);
      register_module("second", second);
    }
    Tensor forward(const Tensor& x) override { return second(first(x)); }
    nn::Linear first{3, 3}, second{3, 3};
  } module;
  const auto devices = cuda_devices(2);
  module.to(devices[0]);
  const auto comm = dp::make_device_comm(devices, "copies");
  const auto wait_until = [](const auto& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return holds();
  };
  std::atomic<bool> second_is_there = false;
  std::atomic<int> reductions = 0;
  Event done;
  const auto telling = std::make_shared<TellingComm>(
      comm, [&](const std::string& what, std::size_t) { reductions += what == "reduce_add"; });
  int before = 0;
  const auto forward = [&] {
    std::vector<Tensor> x;
    for (const Device& device : devices)
      x.push_back(ones({2, 3}, {.device = device}).set_requires_grad());
    second_is_there = false;
    reductions = 0;
    std::vector<Tensor> losses;
    const Replicas replicas = replicate(module, *telling, {.bucket_cap_mb = 1e-9});
    for (std::size_t r = 0; r < 2; ++r) {
      const Tensor hidden = replicas.get<Chain>(r).first(x[r]);
      const Tensor y = replicas.get<Chain>(r).second(hidden);
      hidden.register_hook([&, r](const Tensor&) {
        if (r == 1) second_is_there = true;
        return Tensor();
      });
      y.register_hook([&, r](const Tensor&) {
        if (r == 0) wait_until([&] { return second_is_there.load(); });
        return Tensor();
      });
      losses.push_back(sum(y));
    }
    x[0].register_hook([&](const Tensor& grad) {
      before = reductions;
      done.record(current_stream(grad.device()));
      return Tensor();
    });
    return losses;
  };
  for (int i = 0; i < 3; ++i) {  // warms up the allocators
    autograd::backward(forward());
    wait_for(devices);
  }
  const std::vector<Tensor> losses = forward();
  wait_for(devices);
  CudaGate gate(current_stream(devices[1]));
  const HostWaits waits = host_waits();
  autograd::backward(losses);
  CHECK(host_waits() == waits);
  // The second layer's reduction was running by then, but the first device's computation does not
  // depend on the second.
  CHECK(before >= 1);
  CHECK(wait_until([&] { return done.query(); }));
  CHECK_FALSE(current_stream(devices[0]).query());
  gate.open();
  wait_for(devices);
  check_close(module.second.bias.grad(), {16, 16, 16}, 1e-6);
}

TEST_CASE("replicas on CUDA devices: steps take no more memory than the first ones") {
  REQUIRE_CUDA(3);
  const auto module = make_module();
  const auto devices = cuda_devices(3);
  const auto inputs = inputs_on(devices, kFloat32);
  const auto comm = dp::make_device_comm(devices, "copies");
  std::vector<std::size_t> first, reserved;
  Tensor loss;
  for (int step = 0; step < 20; ++step) {
    loss = loss_of(replicate(*module, *comm, {.bucket_cap_mb = 1e-4}), inputs);
    loss.backward();
    module->zero_grad(step % 2 == 1);
    wait_for(devices);
    if (step % 2 == 0) continue;
    std::vector<std::size_t> now, held;
    for (const Device& device : devices) {
      now.push_back(memory_allocated(device));
      held.push_back(memory_reserved(device));
    }
    if (step == 3) first = now, reserved = held;
    if (step > 3) CHECK(now == first);
    if (step > 3) CHECK(held == reserved);
  }
}
