// Exchange of tensors between devices of one process, by copies and by NCCL; on the emulator, and
// on hosts with several GPUs.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/parallel/comm/clique.h"
#include "ferrite/tests/parallel/device_comm_cases.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

std::vector<Device> cuda_devices(int count) {
  std::vector<Device> devices;
  for (int d = 0; d < count; ++d) devices.emplace_back(DeviceType::cuda, d);
  return devices;
}

std::vector<std::string_view> backends() {
  if (comm::has_nccl_clique()) return {"copies", "nccl"};
  MESSAGE("skipped: needs NCCL");
  return {"copies"};
}

void check_all(int count, std::string_view backend) {
  CAPTURE(count);
  CAPTURE(backend);
  const auto comm = dp::make_device_comm(cuda_devices(count), backend);
  CHECK(comm->backend() == backend);
  test::check_broadcast(*comm);
  test::check_reduce_add(*comm);
  if (backend == "copies") test::check_order(*comm);
  if (count > 1) test::check_memory(*comm);
}

}  // namespace

TEST_CASE("a CUDA device alone exchanges nothing") {
  REQUIRE_CUDA(1);
  CHECK(dp::make_device_comm(cuda_devices(1))->backend() == "copies");
  for (const std::string_view backend : backends()) check_all(1, backend);
}

TEST_CASE("CUDA devices exchange tensors of every kind") {
  REQUIRE_CUDA(2);
  for (const std::string_view backend : backends()) {
    check_all(2, backend);
    if (test::has_cuda(3)) check_all(3, backend);
  }
}

TEST_CASE("CUDA devices that cannot reach each other exchange tensors through the host") {
  REQUIRE_CUDA(2);
  if (!test::is_emulated()) return;
  const test::NoPeerAccess none;
  check_all(2, "copies");
}

TEST_CASE("NCCL is selected if available") {
  REQUIRE_CUDA(2);
  const auto comm = dp::make_device_comm(cuda_devices(2));
  CHECK(comm->backend() == (comm::has_nccl_clique() ? "nccl" : "copies"));
}

TEST_CASE("CUDA devices exchange earlier writes, and the host does not wait") {
  REQUIRE_CUDA(2);
  const int count = test::has_cuda(3) ? 3 : 2;
  for (const std::string_view backend : backends()) {
    CAPTURE(backend);
    const auto comm = dp::make_device_comm(cuda_devices(count), backend);
    const Tensor source = zeros({70001}, {.device = "cuda:0"}),
                 small = zeros({7}, {.device = "cuda:0"});
    const auto exchange = [&] {
      source.fill_(3);
      small.fill_(4);
      const test::Lists copies = comm->broadcast(std::vector{source, small});
      source.fill_(9);
      copies[0][0].add_(1);
      std::vector<Tensor> sums = comm->reduce_add(copies);
      copies[0][0].fill_(20);
      sums[0].add_(source);
      return sums;
    };
    exchange();
    for (const Device& device : comm->devices()) synchronize(device);
    const auto waits = cuda::synchronizations();
    const test::HostWaits calls = test::host_waits();
    std::vector<Tensor> sums;
    {
      test::CudaGate root(current_stream("cuda:0")), peer(current_stream("cuda:1"));
      sums = exchange();
      CHECK_FALSE(current_stream("cuda:1").query());
      CHECK_FALSE(current_stream("cuda:0").query());
    }
    CHECK(cuda::synchronizations() == waits);
    if (test::is_emulated()) CHECK(test::host_waits() == calls);
    const float peers = static_cast<float>(count) - 1;
    CHECK(sums[0].to_vector<float>() == std::vector<float>(70001, 3 * peers + 10));
    CHECK(sums[1].to_vector<float>() == std::vector<float>(7, 4 * peers));
  }
}

TEST_CASE("CUDA devices that cannot exchange tensors are told why") {
  REQUIRE_CUDA(2);
  CHECK_THROWS_AS(dp::make_device_comm({"cuda:0", "cpu:0"}), DeviceError);
  CHECK_THROWS_AS(dp::make_device_comm({"cpu", "cuda:0"}), DeviceError);
  CHECK_THROWS_AS(dp::make_device_comm({"cuda:0", "cuda:1", "cuda:0"}), ValueError);
  CHECK_THROWS_AS(dp::make_device_comm({"cuda:0", "cuda:63"}), DeviceError);
  for (const std::string_view backend : backends()) {
    const auto comm = dp::make_device_comm(cuda_devices(2), backend);
    const Stream stream = Stream::create("cuda:0");
    const StreamGuard use(stream);
    const Tensor source = ones({3}, {.device = "cuda:0"});
    const test::Graph graph(stream, [&] {
      CHECK_THROWS_AS(comm->broadcast(std::vector{source}), CudaError);
      source.fill_(2);
    });
    CHECK(comm->broadcast(std::vector{source})[0][0].to_vector<float>() ==
          std::vector<float>(3, 1));
  }
}

TEST_CASE("NCCL's communicators are let go of, also those that fail") {
  REQUIRE_CUDA(2);
  REQUIRE_EMULATOR();
  const int before = test::live_nccl_communicators();
  const auto comm = dp::make_device_comm(cuda_devices(2), "nccl");
  CHECK(test::live_nccl_communicators() == before + 2);
  dp::make_device_comm(cuda_devices(2), "nccl");
  CHECK(test::live_nccl_communicators() == before + 2);
  const Tensor source = ones({70000}, {.device = "cuda:0"});
  comm->broadcast(std::vector{source});
  test::plant_nccl_error(1);
  const std::string message =
      test::message_of<Error>([&] { comm->broadcast(std::vector{source}); });
  CAPTURE(message);
  CHECK(message.starts_with("[broadcast] "));
  CHECK(message.find("planted") != std::string::npos);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{ones({3}, {.device = "cuda:1"})}}),
                  DistributedError);
  CHECK(test::live_nccl_communicators() == before);
  source.fill_(2);
  CHECK(source.to_vector<float>()[0] == 2);

  // Without further calls, a thread that waits for the streams must still be released.
  const auto watched = dp::make_device_comm(cuda_devices(2), "nccl");
  watched->broadcast(std::vector{source});
  test::plant_nccl_error(0);
  for (int i = 0; i < 4000 && test::live_nccl_communicators() > before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(test::live_nccl_communicators() == before);
  CHECK_THROWS_AS(watched->broadcast(std::vector{source}), DistributedError);
}
