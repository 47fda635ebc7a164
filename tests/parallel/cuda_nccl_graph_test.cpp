// CUDA graphs that captured operations of groups on NCCL, and the ends of both.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
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
using namespace std::chrono_literals;
using test::device_of;
using test::Job;

namespace {

using GroupPtr = std::shared_ptr<ProcessGroup>;

/// Checks that `f` does not wait for the graph to be destroyed, which would end its wait.
template <class Graph>
void check_returns(std::optional<Graph>& graph, const std::function<void()>& f) {
  std::future<void> ended = std::async(std::launch::async, f);
  const bool in_time = ended.wait_for(20s) == std::future_status::ready;
  CHECK(in_time);
  if (!in_time) graph.reset();
  ended.get();
}

/// A group's sum, and a graph that computes it in `t` again.
std::optional<cuda::Graph> graph_of_sum(ProcessGroup& group, const Tensor& t) {
  group.all_reduce(t).synchronize();
  std::optional<cuda::Graph> graph(t.device());
  graph->capture([&] { group.all_reduce(t).wait(); });
  return graph;
}

}  // namespace

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

TEST_CASE("a graph keeps the group whose operations it captured") {
  if (!test::can_use_nccl(2)) return;
  Job().run_owners(2, [](GroupPtr& group) {
    const std::weak_ptr<ProcessGroup> kept = group;
    const Tensor t = ones({30}, {.device = device_of(group->rank())});
    std::optional<cuda::Graph> graph = graph_of_sum(*group, t);
    t.fill_(group->rank() + 1);
    check_returns(graph, [&] { group.reset(); });
    CHECK_FALSE(kept.expired());
    if (graph) graph->replay();
    CHECK(t.to_vector<int>() == std::vector<int>(30, 3));
    graph.reset();
    CHECK(kept.expired());
  });
}

TEST_CASE("a capture that fails keeps no group") {
  if (!test::can_use_nccl(1)) return;
  Job().run_owners(1, [](GroupPtr& group) {
    const std::weak_ptr<ProcessGroup> kept = group;
    const Tensor t = ones({3}, {.device = device_of(0)});
    group->all_reduce(t).synchronize();
    cuda::Graph graph(device_of(0));
    CHECK_THROWS_AS(graph.capture([&] {
      group->all_reduce(t).wait();
      t.item<float>();
    }),
                    Error);
    group.reset();
    CHECK(kept.expired());
  });
}

TEST_CASE("a group that is aborted does not wait for its graphs") {
  if (!test::can_use_nccl(2)) return;
  std::atomic<int> ready{0};
  Job().run_owners(2, [&](GroupPtr& group) {
    const Tensor t = ones({30}, {.device = device_of(group->rank())});
    std::optional<cuda::Graph> graph = graph_of_sum(*group, t);
    for (++ready; ready < 2;) std::this_thread::sleep_for(1ms);  // an abort reaches both
    group->abort("enough");
    check_returns(graph, [&] {
      for (int i = 0; i < 20; ++i) {
        CHECK_THROWS_WITH_AS((void)group->all_reduce(t), doctest::Contains("enough"),
                             DistributedError);
        std::this_thread::sleep_for(2ms);
      }
      group.reset();
    });
    current_stream(t.device()).synchronize();
  });
}

TEST_CASE("a group does not wait for graphs that others have captured") {
  if (!test::can_use_nccl(1)) return;
  Job().run_owners(
      1,
      [](GroupPtr& group) {
        const Tensor t = ones({30}, {.device = device_of(0)});
        group->all_reduce(t).synchronize();
        const Stream stream = Stream::create(device_of(0));
        std::optional<test::Graph> graph;
        {
          const StreamGuard use(stream);
          graph.emplace(stream, [&] { group->all_reduce(t).wait(); });
        }
        check_returns(graph, [&] { group.reset(); });
      },
      300ms);
}
