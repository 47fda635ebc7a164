#include "ferrite/parallel/data_parallel/parallel_apply.h"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/data_parallel/data_parallel.h"
#include "ferrite/tests/parallel/scatter_gather.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;
using parallel::parallel_for_devices;

TEST_CASE("parallel_for_devices: all at the same time, the first in the caller, threads reused") {
  const std::vector<Device> devices = cpu_devices(4);
  std::vector<std::thread::id> before;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread::id> ids(4);
    std::latch all(4);
    parallel_for_devices(devices, [&](std::size_t i) {
      ids[i] = std::this_thread::get_id();
      all.arrive_and_wait();  // hangs if they run sequentially
    });
    CHECK(ids[0] == std::this_thread::get_id());
    CHECK(std::set(ids.begin(), ids.end()).size() == 4);
    if (round > 0) CHECK(ids == before);
    before = ids;
  }
  parallel_for_devices({}, [](std::size_t) { FAIL("there is nothing to call"); });
}

TEST_CASE("parallel_for_devices: one device, and a checkpointed function, run in the caller") {
  const std::vector<Device> one = cpu_devices(1), two = cpu_devices(2);
  const auto me = std::this_thread::get_id();
  int calls = 0;
  parallel_for_devices(one, [&](std::size_t) {
    CHECK(std::this_thread::get_id() == me);
    ++calls;
  });
  CHECK(calls == 1);

  const Tensor x = counting({4}, "cpu", kFloat64).set_requires_grad();
  const Tensor y = autograd::checkpoint(
      [&](const Tensor& t) {
        std::vector<Tensor> parts = parallel::scatter(t, two);
        parallel_for_devices(two, [&](std::size_t i) {
          CHECK(std::this_thread::get_id() == me);
          parts[i] = parts[i] * parts[i];
          ++calls;
        });
        return parallel::gather(parts, "cpu");
      },
      x);
  CHECK(calls == 3);
  CHECK(y.to_vector<double>() == std::vector<double>{0, 1, 4, 9});
}

TEST_CASE("parallel_for_devices: the caller's grad mode, autocast, streams and default group") {
  const std::vector<Device> devices = cpu_devices(3);
  const auto run = [&](const auto& check) { parallel_for_devices(devices, check); };
  run([](std::size_t) { CHECK(grad_enabled()); });
  const Stream own = Stream::create(devices[1]);
  {
    const NoGradGuard no_grad;
    const StreamGuard stream(own);
    run([&](std::size_t) {
      CHECK_FALSE(grad_enabled());
      CHECK(current_stream(devices[1]) == own);
      CHECK(current_stream(devices[2]) == default_stream(devices[2]));
    });
  }
  run([&](std::size_t) {
    CHECK(grad_enabled());
    CHECK_FALSE(current_stream(devices[1]) == own);
    CHECK(autograd::autocast_state() == nullptr);
    CHECK_FALSE(parallel::is_initialized());
  });
  {
    const AutocastGuard autocast({.dtype = kBFloat16});
    autograd::AutocastState* const mine = autograd::autocast_state();
    std::array<autograd::AutocastState*, 3> states{};
    run([&](std::size_t i) {
      states[i] = autograd::autocast_state();
      CHECK(states[i]->same_settings(*mine));
      const Tensor a = ones({2, 2}, {.device = devices[i]});
      CHECK(matmul(a, a).dtype() == kBFloat16);
    });
    CHECK(states[0] == mine);
    CHECK(states[1] != states[0]);
    CHECK(states[1] != states[2]);
  }
  const auto group = parallel::make_local_groups(1)[0];
  const parallel::DefaultGroupScope scope(group);
  run([&](std::size_t) { CHECK(parallel::default_group() == group); });
}

TEST_CASE("parallel_for_devices: each call's own device is its default if the caller's is set") {
  const std::vector<Device> devices = cpu_devices(2);
  const auto check = [&](bool own) {
    parallel_for_devices(devices, [&](std::size_t i) {
      CHECK(zeros({3}).device() == (own ? devices[i] : Device()));
    });
  };
  check(false);
  {
    const DefaultDeviceScope scope(devices[1]);
    check(true);
    CHECK(get_default_device() == devices[1]);
  }
  check(false);
}

TEST_CASE(
    "DataParallel: tensors that a forward and its backward make are on the replica's device") {
  /// Also when its forward runs again in backward.
  struct Bias : nn::Cloneable<Bias> {
    Tensor forward(const Tensor& x) override {
      const Tensor y = autograd::checkpoint(
          [](const Tensor& t) {
            const Tensor offset = ones({t.size(1)});
            return (t + offset) * (t + offset);
          },
          x);
      y.register_hook([](const Tensor& g) { return g + ones({g.size(1)}); });
      return y;
    }
  };
  const std::vector<Device> devices = cpu_devices(2);
  const DefaultDeviceScope scope(devices[0]);
  Bias bias;
  parallel::DataParallel net(bias, devices);
  const Tensor x = counting({4, 2}, "cpu:0", kFloat32).set_requires_grad();
  const Tensor y = net(x);
  CHECK(y.to_vector<float>() == std::vector<float>{1, 4, 9, 16, 25, 36, 49, 64});
  y.sum().backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{4, 8, 12, 16, 20, 24, 28, 32});
}

TEST_CASE("parallel_for_devices: calls at the same time, and within calls") {
  const std::vector<Device> devices = cpu_devices(3);
  std::atomic<int> calls{0};
  const auto nested = [&] {
    std::barrier all(3);
    parallel_for_devices(devices, [&](std::size_t) {
      all.arrive_and_wait();  // all threads are busy
      parallel_for_devices(devices, [&](std::size_t) { ++calls; });
    });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) nested();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(calls == 4 * 5 * 9);
}

namespace {

template <class E>
std::string thrown_as() {
  return message_of<E>([] {
    parallel_for_devices(cpu_devices(3), [](std::size_t i) {
      if (i > 0) fail<E>("conv2d", "input has {} channels", i);
    });
  });
}

}  // namespace

TEST_CASE("parallel_for_devices: errors keep their type and name the replica") {
  CHECK(thrown_as<ShapeError>() ==
        "[parallel_apply] replica 1 on cpu:1: [conv2d] input has 1 channels");
  const std::string expected = thrown_as<ShapeError>();
  CHECK(thrown_as<DTypeError>() == expected);
  CHECK(thrown_as<DeviceError>() == expected);
  CHECK(thrown_as<IndexError>() == expected);
  CHECK(thrown_as<ValueError>() == expected);
  CHECK(thrown_as<AutogradError>() == expected);
  CHECK(thrown_as<IoError>() == expected);
  CHECK(thrown_as<CudaError>() == expected);
  CHECK(thrown_as<DistributedError>() == expected);
  CHECK(thrown_as<OutOfMemoryError>() == expected);
  CHECK(thrown_as<Error>() == expected);

  const std::vector<Device> devices = cpu_devices(2);
  CHECK(message_of<Error>([&] {
          parallel_for_devices(devices, [](std::size_t) { throw std::out_of_range("at"); });
        }) == "[parallel_apply] replica 0 on cpu:0: at");
  CHECK_THROWS_AS(parallel_for_devices(devices,
                                       [](std::size_t i) {
                                         if (i == 1) throw 7;
                                       }),
                  int);
  CHECK(message_of<Error>([] {
          parallel_for_devices(cpu_devices(1), [](std::size_t) { fail("f", "bad"); });
        }) == "[parallel_apply] replica 0 on cpu:0: [f] bad");
}

TEST_CASE("parallel_for_devices: all calls end before an error comes out") {
  const std::vector<Device> devices = cpu_devices(3);
  for (int round = 0; round < 5; ++round) {
    std::latch thrown(1);
    std::atomic<int> ended{0};
    const auto run = [&] {
      parallel_for_devices(devices, [&](std::size_t i) {
        if (i == 1) {
          thrown.count_down();
          fail<ValueError>("f", "bad");
        }
        thrown.wait();
        ++ended;
      });
    };
    CHECK_THROWS_AS(run(), ValueError);
    CHECK(ended == 2);
  }
}

TEST_CASE("parallel_for_devices: tapes of several threads make one") {
  const std::vector<Device> devices = cpu_devices(3);
  const Tensor x = counting({7, 2}, "cpu", kFloat64).set_requires_grad();
  std::vector<Tensor> parts = parallel::scatter(x, devices);
  parallel_for_devices(devices, [&](std::size_t i) { parts[i] = parts[i] * parts[i]; });
  sum(parallel::gather(parts, devices[0])).backward();
  std::vector<double> twice;
  for (const double v : x.to_vector<double>()) twice.push_back(2 * v);
  CHECK(x.grad().to_vector<double>() == twice);
}

TEST_CASE(
    "parallel_for_devices: what queued work throws comes out where its device is waited for") {
  const std::vector<Device> devices = cpu_devices(2);
  parallel_for_devices(devices, [&](std::size_t i) {
    current_stream(devices[i]).enqueue([i] {
      if (i == 1) fail<IndexError>("embedding", "index 7 of 5");
    });
  });
  synchronize(devices[0]);
  CHECK_THROWS_AS(synchronize(devices[1]), IndexError);
  // Or in the next call, without waiting.
  Event done;
  current_stream(devices[1]).enqueue([] { fail<IndexError>("embedding", "index 7 of 5"); });
  done.record(current_stream(devices[1]));
  done.synchronize();
  const auto next = [&] { parallel_for_devices(devices, [](std::size_t) { FAIL("not run"); }); };
  CHECK(message_of<IndexError>(next) ==
        "[parallel_apply] replica 1 on cpu:1: [embedding] index 7 of 5");
  parallel_for_devices(devices, [](std::size_t) {});
}

TEST_CASE("parallel_for_devices: Device(\"cuda\") is each call's own device") {
  REQUIRE_CUDA(2);
  const std::vector<Device> devices = {"cuda:1", "cuda:0"};
  for (int round = 0; round < 2; ++round)
    parallel_for_devices(devices, [&](std::size_t i) { CHECK(Device("cuda") == devices[i]); });
  CHECK(cuda::current_device() == 0);
}

namespace {

class Twice final : public nn::Cloneable<Twice> {
 public:
  Tensor factor = full({1}, 2.0, {.device = "cpu:0"});

  Twice() { register_parameter("factor", factor); }
  Tensor forward(const Tensor& x) override { return x * factor; }
  std::pair<Tensor, int> forward(const Tensor& x, int n) {
    return {x * factor * static_cast<double>(n), n};
  }
  void forward(std::atomic<int>* calls) { ++*calls; }
};

}  // namespace

TEST_CASE("parallel_apply: replicas with tuples of arguments, and their results") {
  const std::vector<Device> devices = cpu_devices(3);
  Twice twice;
  const parallel::Replicas replicas = parallel::replicate(twice, devices);
  const Tensor x = counting({5}, "cpu:0");
  const auto inputs = parallel::scatter(std::tuple(x, 10), devices);
  const auto results = parallel::parallel_apply<Twice>(replicas, inputs, devices);
  REQUIRE(results.size() == 3);
  CHECK(results[2].first.device() == devices[2]);
  const auto [y, n] = parallel::gather(results, devices[0]);
  CHECK(y.to_vector<int>() == std::vector{0, 20, 40, 60, 80});
  CHECK(n == 10);
  sum(y).backward();
  CHECK(twice.factor.grad().item<double>() == 100);

  // As any module, with fewer inputs than replicas.
  const auto two = parallel::scatter(std::tuple(counting({2}, "cpu:0")), devices);
  CHECK(parallel::parallel_apply(replicas, two, devices).size() == 2);
  std::atomic<int> calls{0};
  parallel::parallel_apply<Twice>(replicas, std::vector(3, std::tuple(&calls)), devices);
  CHECK(calls == 3);
  CHECK_THROWS_AS(parallel::parallel_apply(replicas, std::vector(4, std::tuple(x)), cpu_devices(4)),
                  ValueError);
}
