// Stream capture and graphs.
#include <thread>

#include "ferrite/tests/emulator/support.h"

namespace emulator_test {

namespace {

class TestGraph {
 public:
  TestGraph() = default;
  ~TestGraph() {
    if (executable_) cudaGraphExecDestroy(executable_);
    if (graph_) cudaGraphDestroy(graph_);
  }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;

  void end_capture(cudaStream_t stream) {
    OK(cudaStreamEndCapture(stream, &graph_));
    OK(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  void launch(cudaStream_t stream) const { OK(cudaGraphLaunch(executable_, stream)); }
  cudaGraph_t graph() const { return graph_; }
  cudaGraphExec_t executable() const { return executable_; }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

void begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  OK(cudaStreamBeginCapture(stream, mode));
}
/// Checks that the capture has failed, and the stream is usable again.
void check_invalid(cudaStream_t stream) {
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(stream, &status));
  CHECK(status == cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  CHECK(graph == nullptr);
  OK(cudaStreamSynchronize(stream));
}

__global__ void scale(int* x, int factor) { *x *= factor; }
void count(void* calls) { ++*static_cast<int*>(calls); }

}  // namespace

TEST_CASE("a captured graph does nothing until it is launched, then all, each time") {
  for (const bool deferred : {false, true}) {
    const Deferred mode(deferred);
    const TestStream stream;
    const Ints x(std::vector<int>{1}), y(std::vector<int>{0});
    int calls = 0;
    begin(stream);
    cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    OK(cudaMemsetAsync(y.get(), 0, sizeof(int), stream));
    OK(run(stream, 1, 1, add_to, x.get(), 10));
    OK(run(stream, 1, 1, scale, x.get(), 2));
    OK(cudaMemcpyAsync(y.get(), x.get(), sizeof(int), cudaMemcpyDeviceToDevice, stream));
    OK(cudaLaunchHostFunc(stream, count, &calls));
    TestGraph graph;
    graph.end_capture(stream);
    CHECK(x.value() == 1);
    CHECK(calls == 0);

    std::size_t nodes = 0, edges = 0;
    OK(cudaGraphGetNodes(graph.graph(), nullptr, &nodes));
    CHECK(nodes == 5);
    OK(cudaGraphGetEdges(graph.graph(), nullptr, nullptr, nullptr, &edges));
    CHECK(edges == 4);
    std::vector<cudaGraphNode_t> all(nodes);
    OK(cudaGraphGetNodes(graph.graph(), all.data(), &nodes));
    const cudaGraphNodeType types[] = {cudaGraphNodeTypeMemset, cudaGraphNodeTypeKernel,
                                       cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy,
                                       cudaGraphNodeTypeHost};
    for (std::size_t i = 0; i < 5; ++i) {
      cudaGraphNodeType type;
      OK(cudaGraphNodeGetType(all[i], &type));
      CHECK(type == types[i]);
    }

    graph.launch(stream);
    graph.launch(stream);
    OK(cudaStreamSynchronize(stream));
    CHECK(x.value() == (1 + 10) * 2 * 2 + 20);
    CHECK(y.value() == x.value());
    CHECK(calls == 2);
  }
}

TEST_CASE("a graph outlives its sources, and keeps its order in another stream") {
  const Deferred deferred;
  const Ints x(std::vector<int>{1});
  TestGraph graph;
  {
    const TestStream stream;
    begin(stream);
    OK(run(stream, 1, 1, add_to, x.get(), 1));
    graph.end_capture(stream);
  }
  const TestStream stream;
  OK(run(stream, 1, 1, set_to, x.get(), 10));
  graph.launch(stream);
  OK(run(stream, 1, 1, scale, x.get(), 3));
  OK(cudaStreamSynchronize(stream));
  CHECK(x.value() == 33);
}

TEST_CASE("events carry a capture to other streams and back") {
  const emulator::Settings before = emulator::settings();
  const TestStream first, second, third;
  const TestEvent fork, join_second, join_third;
  const Ints x(std::vector<int>{0}), y(std::vector<int>{0}), sum(std::vector<int>{0});
  begin(first);
  OK(run(first, 1, 1, set_to, x.get(), 1));
  OK(cudaEventRecord(fork, first));
  OK(cudaStreamWaitEvent(second, fork, 0));
  OK(cudaStreamWaitEvent(third, fork, 0));
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(second, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  OK(run(second, 1, 1, add_to, x.get(), 5));
  OK(run(third, 1, 1, set_to, y.get(), 7));
  OK(cudaEventRecord(join_second, second));
  OK(cudaEventRecord(join_third, third));
  OK(cudaStreamWaitEvent(first, join_second, 0));
  OK(cudaStreamWaitEvent(first, join_third, 0));
  unsigned long long id = 0;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t count = 0;
  OK(cudaStreamGetCaptureInfo(first, &status, &id, nullptr, &dependencies, nullptr, &count));
  CHECK(id > 0);
  CHECK(count == 3);  // its own last node, and those of the other two
  OK(run(first, 1, 1, copy_to, sum.get(), x.get()));
  TestGraph graph;
  graph.end_capture(first);
  OK(cudaStreamIsCapturing(second, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    emulator::set_order(emulator::Order::shuffled, seed);
    OK(cudaMemsetAsync(sum.get(), 0, sizeof(int), second));
    graph.launch(second);
    OK(cudaStreamSynchronize(second));
    CHECK(sum.value() == 6);
    CHECK(y.value() == 7);
  }
  emulator::set_order(before.order, before.seed);
}

TEST_CASE("nodes without a dependency run in any order") {
  const emulator::Settings before = emulator::settings();
  const TestStream first, second;
  const TestEvent fork, join;
  const Ints x(std::vector<int>{0}), y(std::vector<int>{0});
  begin(first);
  OK(cudaEventRecord(fork, first));
  OK(cudaStreamWaitEvent(second, fork, 0));
  OK(run(first, 1, 1, set_to, x.get(), 1));
  OK(run(second, 1, 1, copy_to, y.get(), x.get()));  // should have waited for the other
  OK(cudaEventRecord(join, second));
  OK(cudaStreamWaitEvent(first, join, 0));
  TestGraph graph;
  graph.end_capture(first);
  int seen[2] = {};
  emulator::set_order(emulator::Order::shuffled, 3);
  for (int i = 0; i < 20; ++i) {
    OK(cudaMemsetAsync(x.get(), 0, sizeof(int), first));
    graph.launch(first);
    OK(cudaStreamSynchronize(first));
    ++seen[y.value()];
  }
  CHECK(seen[0] > 0);
  CHECK(seen[1] > 0);
  emulator::set_order(before.order, before.seed);
}

TEST_CASE("calls that a graph cannot contain make the capture fail") {
  const TestStream stream;
  const Ints x(1);
  SUBCASE("waiting for the stream") {
    begin(stream);
    FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  }
  SUBCASE("asking for the stream") {
    begin(stream);
    FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
  }
  SUBCASE("asking for another stream") {
    const TestStream other;
    begin(stream);
    FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(other));
  }
  SUBCASE("asking for an event of another stream") {
    const TestStream other;
    const TestEvent event;
    OK(cudaEventRecord(event, other));
    begin(stream);
    FAILS(cudaErrorStreamCaptureUnsupported, cudaEventQuery(event));
  }
  SUBCASE("waiting for the device") {
    begin(stream);
    FAILS(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
  }
  SUBCASE("an event of the capture") {
    const TestEvent event;
    begin(stream);
    OK(cudaEventRecord(event, stream));
    FAILS(cudaErrorCapturedEvent, cudaEventQuery(event));
  }
  SUBCASE("allocation") {
    begin(stream);
    int* y = nullptr;
    FAILS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&y, 4));
  }
  SUBCASE("another thread's allocation") {
    begin(stream);
    std::thread([] {
      int* y = nullptr;
      FAILS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&y, 4));
    }).join();
  }
  SUBCASE("a copy that waits") {
    begin(stream);
    int value;
    FAILS(cudaErrorStreamCaptureUnsupported, cudaMemcpy(&value, x.get(), 4, cudaMemcpyDefault));
  }
  SUBCASE("waiting for uncaptured work") {
    const TestStream other;
    const TestEvent event;
    OK(cudaEventRecord(event, other));
    begin(stream);
    FAILS(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream, event, 0));
  }
  check_invalid(stream);
}

TEST_CASE("relaxed and thread-local captures allow calls of other threads") {
  int* y = nullptr;
  const TestStream stream;
  TestGraph graph;
  SUBCASE("relaxed: anybody may allocate") {
    begin(stream, cudaStreamCaptureModeRelaxed);
    OK(cudaMalloc(&y, 4));
  }
  SUBCASE("thread-local: another thread may") {
    begin(stream, cudaStreamCaptureModeThreadLocal);
    std::thread([&y] { OK(cudaMalloc(&y, 4)); }).join();
  }
  SUBCASE("a thread that relaxes its own mode may") {
    begin(stream, cudaStreamCaptureModeGlobal);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeGlobal);
    OK(cudaMalloc(&y, 4));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
  }
  graph.end_capture(stream);
  OK(cudaFree(y));
}

TEST_CASE("the default stream and captures of blocking streams exclude each other") {
  const TestStream blocking(cudaStreamDefault), other;
  const Ints x(1);
  FAILS(cudaErrorStreamCaptureUnsupported,
        cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
  begin(blocking);
  FAILS(cudaErrorStreamCaptureImplicit, run(nullptr, 1, 1, set_to, x.get(), 1));
  check_invalid(blocking);
  begin(other);
  OK(run(nullptr, 1, 1, set_to, x.get(), 1));
  TestGraph graph;
  graph.end_capture(other);
}

TEST_CASE("captures end on the stream and thread where they began, with all streams joined") {
  const TestStream first, second;
  const TestEvent fork;
  const Ints x(1);
  cudaGraph_t graph = nullptr;
  FAILS(cudaErrorIllegalState, cudaStreamEndCapture(first, &graph));
  begin(first);
  FAILS(cudaErrorIllegalState, cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  SUBCASE("unjoined work") {
    OK(cudaEventRecord(fork, first));
    OK(cudaStreamWaitEvent(second, fork, 0));
    OK(run(second, 1, 1, set_to, x.get(), 1));
    FAILS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(first, &graph));
  }
  SUBCASE("in another stream") {
    OK(cudaEventRecord(fork, first));
    OK(cudaStreamWaitEvent(second, fork, 0));
    FAILS(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(second, &graph));
    check_invalid(first);
  }
  SUBCASE("by another thread") {
    std::thread([&] {
      FAILS(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(first, &graph));
    }).join();
    OK(cudaStreamEndCapture(first, &graph));
    OK(cudaGraphDestroy(graph));
  }
  SUBCASE("two captures do not merge") {
    begin(second);
    OK(cudaEventRecord(fork, second));
    FAILS(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(first, fork, 0));
    check_invalid(first);
    check_invalid(second);
  }
  CHECK(cudaStreamSynchronize(first) == cudaSuccess);
}

TEST_CASE("dependencies of a capture can be set; graphs nest, are cloned and updated") {
  const TestStream stream;
  const Ints x(std::vector<int>{0});
  TestGraph inner;
  begin(stream);
  OK(run(stream, 1, 1, add_to, x.get(), 1));
  inner.end_capture(stream);

  TestGraph outer;
  begin(stream);
  OK(run(stream, 1, 1, set_to, x.get(), 5));
  inner.launch(stream);
  OK(run(stream, 1, 1, scale, x.get(), 2));
  outer.end_capture(stream);
  outer.launch(stream);
  OK(cudaStreamSynchronize(stream));
  CHECK(x.value() == 12);

  begin(stream);
  OK(run(stream, 1, 1, set_to, x.get(), 5));
  OK(cudaStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0,
                                         cudaStreamSetCaptureDependencies));
  OK(run(stream, 1, 1, set_to, x.get(), 6));
  cudaGraph_t graph = nullptr, clone = nullptr;
  OK(cudaStreamEndCapture(stream, &graph));
  std::size_t edges = 9;
  OK(cudaGraphClone(&clone, graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphGetEdges(clone, nullptr, nullptr, nullptr, &edges));
  CHECK(edges == 0);
  cudaGraphExecUpdateResultInfo result;
  FAILS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(inner.executable(), clone, &result));
  CHECK(result.result == cudaGraphExecUpdateErrorTopologyChanged);
  OK(cudaGraphDestroy(clone));

  begin(stream);
  OK(run(stream, 1, 1, add_to, x.get(), 100));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphExecUpdate(inner.executable(), graph, &result));
  OK(cudaGraphDestroy(graph));
  inner.launch(stream);
  OK(cudaStreamSynchronize(stream));
  CHECK(x.value() == 112);
}

}  // namespace emulator_test
