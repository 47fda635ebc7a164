#include <doctest/doctest.h>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/tests/parallel/collectives.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {
constexpr LocalGroupOptions kPatient{.timeout = std::chrono::seconds(120)};
}

TEST_CASE("local groups on CUDA devices, each rank on its own") {
  REQUIRE_CUDA(2);
  run_ranks(
      2,
      [](ProcessGroup& group) {
        test::check_collectives(group, Device(DeviceType::cuda, group.rank()), {.large = 6'001});
      },
      kPatient);
}

TEST_CASE("local groups of ranks that share a CUDA device, and without peer access") {
  REQUIRE_EMULATOR();
  const test::NoPeerAccess none;
  run_ranks(
      4,
      [](ProcessGroup& group) {
        const Device device(DeviceType::cuda, group.rank() % 2);
        for (const DType dtype : {kFloat32, kBFloat16}) {
          const Tensor t = full({3001}, group.rank() + 1, {.dtype = dtype, .device = device});
          group.all_reduce(t, ReduceOp::avg).wait();
          CHECK(t.to_vector<double>() == std::vector<double>(3001, 2.5));
        }
      },
      kPatient);
}

TEST_CASE("local groups of the host, a virtual device and a CUDA device together") {
  REQUIRE_CUDA(1);
  run_ranks(
      3,
      [](ProcessGroup& group) {
        const Device devices[] = {Device(), Device("cpu:1"), Device("cuda:0")};
        test::check_collectives(group, devices[group.rank()], {.large = 3'001});
      },
      kPatient);
}

TEST_CASE("work starts after the present work of its CUDA stream") {
  REQUIRE_CUDA(2);
  run_ranks(
      2,
      [](ProcessGroup& group) {
        const Device device(DeviceType::cuda, group.rank());
        const Tensor t = zeros({100}, {.device = device});
        test::CudaGate gate(current_stream(device));
        t.fill_(group.rank() + 1);
        const Work work = group.all_reduce(t);
        CHECK_FALSE(work.is_completed());
        gate.open();
        work.wait();
        CHECK(t.to_vector<int>() == std::vector<int>(100, 3));
      },
      kPatient);
}

TEST_CASE("a group that works in the host cannot be captured into a graph") {
  REQUIRE_CUDA(1);
  const auto groups = make_local_groups(1);
  const Device device("cuda:0");
  const Tensor t = ones({4}, {.device = device});
  const Stream stream = Stream::create(device);
  const StreamGuard guard(stream);
  const test::Graph graph(stream, [&] {
    CHECK_THROWS_WITH_AS((void)groups[0]->all_reduce(t), doctest::Contains("captured"), CudaError);
  });
}
