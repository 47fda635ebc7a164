// CUDA graphs that captured operations of groups on NCCL, and the ends of both.
#include <doctest/doctest.h>

#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/parallel/nccl_ranks.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::parallel;
using test::device_of;
using test::Job;

TEST_CASE("collectives are captured into graphs and replayed") {
  if (!test::can_use_nccl(2)) return;
  Job().run(2, [](ProcessGroup& group) {
    const Device device = device_of(group.rank());
    const Tensor in = zeros({300}, {.device = device}), ring = zeros({300}, {.device = device});
    const auto step = [&] {
      Tensor doubled = in * 2;
      const Work work = group.all_reduce(doubled);
      ring.copy_(in);
      work.wait();
      in.copy_(doubled);
      group.all_reduce(ring, ReduceOp::avg, AllReduceAlgorithm::ring).wait();
    };
    step();  // connections are made outside of captures
    synchronize(device);
    cuda::Graph graph(device);
    Work captured;
    graph.capture([&] {
      step();
      captured = group.all_reduce(ring);
      CHECK_THROWS_AS(captured.synchronize(), CudaError);
      captured.wait();
    });
    CHECK(captured.is_completed());
    CHECK_THROWS_WITH_AS(captured.wait(), doctest::Contains("captured"), CudaError);
    for (int replay = 0; replay < 3; ++replay) {
      in.fill_(replay + group.rank());
      graph.replay();
      CHECK(in.to_vector<int>() == std::vector<int>(300, 2 * (2 * replay + 1)));
      CHECK(ring.to_vector<int>() == std::vector<int>(300, 2 * replay + 1));
    }
    // And between replays.
    group.all_reduce(in, ReduceOp::min).wait();
    CHECK(in.to_vector<int>() == std::vector<int>(300, 10));
  });
}

TEST_CASE("operations begun outside a capture cannot be waited for inside") {
  if (!test::can_use_nccl(1)) return;
  Job().run(1, [](ProcessGroup& group) {
    const Device device = device_of(0);
    const Tensor t = ones({3}, {.device = device});
    const Work work = group.all_reduce(t);
    cuda::Graph graph(device);
    graph.capture([&] {
      t.add_(1);
      CHECK_THROWS_AS(work.wait(), CudaError);
    });
  });
}
