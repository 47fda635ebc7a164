#include <doctest/doctest.h>

#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda.h"
#include "ferrite/tests/parallel/scatter_gather.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

std::vector<Device> cuda_devices(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(DeviceType::cuda, i);
  return devices;
}

}  // namespace

TEST_CASE("scatter and gather: shapes, strides and dtypes, with CUDA devices") {
  REQUIRE_CUDA(3);
  for (const char* source : {"cpu", "cuda:0", "cuda:2"}) check_round_trips(source, cuda_devices(3));
  check_round_trips("cuda:1", {"cuda:1", "cpu", "cpu:1"});
  check_round_trips("cpu:1", {"cuda:1", "cpu:0"});
}

TEST_CASE("scatter and gather: gradients, twice, with CUDA devices") {
  REQUIRE_CUDA(3);
  for (const char* source : {"cpu", "cuda:0", "cuda:2"}) check_gradients(source, cuda_devices(3));
}

TEST_CASE("scatter and gather: late streams see the values at the time of the call") {
  REQUIRE_CUDA(3);
  REQUIRE_EMULATOR();
  const std::vector<Device> devices = cuda_devices(3);
  const DeferredStreams deferred;
  for (const bool pinned : {false, true}) {
    const Tensor plain = counting({30, 7}, "cpu"), x = pinned ? plain.pin_memory() : plain.clone();
    const std::vector<double> expected = plain.to_vector<double>();
    std::vector<Tensor> chunks = parallel::scatter(x, devices);
    if (!pinned) x.fill_(-1);
    const Tensor whole = parallel::gather(chunks, devices[1]);
    for (const Tensor& chunk : chunks) chunk.fill_(-2);
    const Tensor source = whole.clone();
    std::vector<Tensor> again = parallel::scatter(source, std::vector{devices[0], devices[2]});
    source.fill_(-3);
    const Tensor host = parallel::gather(again, "cpu");
    for (const Tensor& chunk : again) chunk.fill_(-4);
    again.clear(), chunks.clear();
    CHECK(host.to_vector<double>() == expected);
    CHECK(whole.to_vector<double>() == expected);
  }
}

TEST_CASE("scatter and gather: gradients that other streams than the default ones compute") {
  REQUIRE_CUDA(2);
  REQUIRE_EMULATOR();
  const std::vector<Device> devices = cuda_devices(2);
  const Tensor x = counting({4, 2}, devices[0]).set_requires_grad();
  const Tensor weight = full({4, 2}, 5.0, {.device = devices[0]});
  const Stream stream = Stream::create(devices[1]);
  Tensor y;
  {
    const StreamGuard own(stream);
    std::vector<Tensor> parts = parallel::scatter(x, devices);
    for (Tensor& part : parts) part = part * 3.0;
    y = parallel::gather(parts, devices[0]);
  }
  allocator(devices[1]).set_poison(true);
  CudaGate gate(stream);
  y.backward(weight);
  gate.open();
  allocator(devices[1]).set_poison(false);
  CHECK(x.grad().to_vector<int>() == std::vector<int>(8, 15));
}

TEST_CASE("scatter: the host does not wait for pinned memory, nor for devices") {
  REQUIRE_CUDA(2);
  REQUIRE_EMULATOR();
  const std::vector<Device> devices = cuda_devices(2);
  const Tensor x = counting({64, 3, 8, 8}, "cpu").pin_memory();
  const auto step = [&] { return parallel::gather(parallel::scatter(x, devices), devices[0]); };
  for (int i = 0; i < 3; ++i) step();
  const HostWaits before = host_waits();
  const Tensor y = step();
  CHECK(host_waits() == before);
  CHECK(y.to_vector<float>() == x.to_vector<float>());
}

TEST_CASE("scatter: a copy starts although the device is busy") {
  REQUIRE_CUDA(2);
  REQUIRE_EMULATOR();
  const std::vector<Device> devices = cuda_devices(2);
  const Tensor x = counting({4, 2}, "cpu");
  CudaGate gate(current_stream(devices[1]));
  const Tensor chunk = parallel::scatter(x, devices)[1];
  synchronize("cuda:0");
  gate.open();
  CHECK(chunk.to_vector<int>() == std::vector{4, 5, 6, 7});
}

TEST_CASE("scatter and gather: not in a graph that is being captured") {
  REQUIRE_CUDA(2);
  const std::vector<Device> devices = cuda_devices(2);
  const Tensor x = counting({4, 2}, devices[0]);
  std::string message;
  try {
    const Stream stream = Stream::create(devices[0]);
    const StreamGuard guard(stream);
    Graph(stream, [&] { message = message_of<CudaError>([&] { parallel::scatter(x, devices); }); });
  } catch (const CudaError&) {
  }
  CHECK(message ==
        "[scatter] a copy from cuda:0 to cuda:1 cannot become part of a graph that is being "
        "captured");
}
