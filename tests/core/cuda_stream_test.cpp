#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "ferrite/core/cuda.h"
#include "ferrite/core/stream.h"
#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Clock = std::chrono::steady_clock;

Tensor filled(const Stream& stream, int byte, std::int64_t bytes = 256) {
  const StreamGuard guard(stream);
  const Tensor t = empty({bytes}, {.dtype = kUInt8, .device = stream.device()});
  fill_bytes(stream, t.data_ptr(), byte, t.nbytes());
  return t;
}

cuda::DeviceReport bad_index(const char* op) {
  return {.state = cuda::DeviceReport::kComplete,
          .kind = cuda::ReportKind::index_out_of_range,
          .op = op,
          .integers = {9, 4, 2, 1, 0},
          .numbers = {}};
}

}  // namespace

TEST_CASE("a device's streams: the default one, and a pool of eight a priority") {
  REQUIRE_CUDA(2);
  std::set<std::uint32_t> ids = {0};
  std::set<void*> handles;
  for (const Device device : {Device("cuda:0"), Device("cuda:1")}) {
    const Stream stream = default_stream(device);
    CHECK(stream == current_stream(device));
    CHECK(stream.device() == device);
    CHECK(ids.insert(stream.id()).second);
    CHECK(native_handle(stream) != nullptr);
    CHECK(handles.insert(native_handle(stream)).second);
    for (const auto priority : {StreamPriority::normal, StreamPriority::high}) {
      const Stream first = Stream::create(device, priority);
      CHECK(first.device() == device);
      std::set<std::uint32_t> pool = {first.id()};
      for (int i = 1; i < 8; ++i) {
        const Stream other = Stream::create(device, priority);
        pool.insert(other.id());
        handles.insert(native_handle(other));
      }
      CHECK(pool.size() == 8);
      CHECK(Stream::create(device, priority) == first);
      for (const std::uint32_t id : pool) CHECK(ids.insert(id).second);
    }
  }
  CHECK_THROWS_AS(native_handle(Stream()), DeviceError);
  CHECK_THROWS_AS(native_handle(current_stream("cpu:0")), DeviceError);
}

TEST_CASE("a guard sets one device's stream, in this thread") {
  REQUIRE_CUDA(2);
  const Stream before = current_stream("cuda:1"), cpu = current_stream("cpu:1");
  {
    const Stream other = Stream::create("cuda:1");
    const StreamGuard guard(other);
    CHECK(current_stream("cuda:1") == other);
    CHECK(current_stream("cuda:0") == default_stream("cuda:0"));
    CHECK(current_stream("cpu:1") == cpu);
    std::thread([&] { CHECK(current_stream("cuda:1") == before); }).join();
  }
  CHECK(current_stream("cuda:1") == before);
}

TEST_CASE("host functions run in order, and synchronize rethrows their exceptions") {
  REQUIRE_CUDA(1);
  const Stream stream = Stream::create("cuda:0");
  std::vector<int> order;
  {
    CudaGate gate(stream);
    for (int i = 0; i < 3; ++i) stream.enqueue([&, i] { order.push_back(i); });
    CHECK_FALSE(stream.query());
    CHECK(order.empty());
  }
  stream.synchronize();
  CHECK(order == std::vector<int>{0, 1, 2});
  CHECK(stream.query());
  stream.enqueue([] { throw ValueError("first"); });
  stream.enqueue([] { throw ValueError("second"); });
  bool ran = false;
  stream.enqueue([&] { ran = true; });
  CHECK(message_of<ValueError>([&] { stream.synchronize(); }) == "first");
  CHECK(ran);
  stream.synchronize();  // thrown once
}

TEST_CASE("captures of a function are destroyed in an ordinary thread") {
  REQUIRE_CUDA(1);
  const Stream stream = Stream::create("cuda:0");
  const std::size_t before = memory_allocated("cuda:0");
  Tensor held = filled(stream, 1);
  std::thread::id let_go_in;
  stream.enqueue([held, watch = std::shared_ptr<void>(
                            nullptr, [&](void*) { let_go_in = std::this_thread::get_id(); })] {});
  held = {};
  stream.synchronize();
  CHECK(let_go_in == std::this_thread::get_id());
  CHECK(memory_allocated("cuda:0") == before);
}

TEST_CASE("events between the streams of one device and of two") {
  REQUIRE_CUDA(2);
  for (const char* second : {"cuda:0", "cuda:1"}) {
    CAPTURE(second);
    const Stream a = Stream::create("cuda:0"), b = Stream::create(second);
    std::vector<int> order;
    Event event;
    CHECK(event.query());
    {
      CudaGate gate(a);
      a.enqueue([&] { order.push_back(1); });
      event.record(a);
      b.wait(event);
      b.enqueue([&] { order.push_back(2); });
      a.wait(b);
      a.enqueue([&] { order.push_back(3); });
      CHECK_FALSE(event.query());
      CHECK_FALSE(b.query());
    }
    event.synchronize();
    CHECK(event.query());
    a.synchronize();
    CHECK(order == std::vector<int>{1, 2, 3});
  }
}

TEST_CASE("events measure time") {
  REQUIRE_CUDA(2);
  const Stream a = Stream::create("cuda:0");
  Event start, end, elsewhere, never;
  start.record(a);
  a.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  end.record(a);
  end.synchronize();
  CHECK(end.elapsed_ms(start) >= 15);
  CHECK(end.elapsed_ms(start) < 10000);
  elsewhere.record(Stream::create("cuda:1"));
  elsewhere.synchronize();
  CHECK_THROWS_AS(end.elapsed_ms(never), ValueError);
  CHECK_THROWS_AS(end.elapsed_ms(elsewhere), ValueError);
  Event host;
  host.record(Stream());
  CHECK_THROWS_AS(end.elapsed_ms(host), ValueError);
  CHECK_THROWS_AS(host.elapsed_ms(end), ValueError);
}

TEST_CASE("workers, the host and CUDA streams wait for one another") {
  REQUIRE_CUDA(1);
  const Stream gpu = Stream::create("cuda:0"), worker = current_stream("cpu:0");
  std::vector<int> order;
  {
    CudaGate gate(gpu);
    gpu.enqueue([&] { order.push_back(1); });
    worker.wait(gpu);
    worker.enqueue([&] { order.push_back(2); });
    CHECK_FALSE(worker.query());
  }
  gpu.wait(worker);  // blocks the caller
  CHECK(order == std::vector<int>{1, 2});
  gpu.enqueue([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    order.push_back(3);
  });
  Stream().wait(gpu);
  CHECK(order == std::vector<int>{1, 2, 3});
  gpu.wait(Stream());
  gpu.synchronize();
}

TEST_CASE("a missing wait shows, and a wait cures it") {
  REQUIRE_EMULATOR();
  const DeferredStreams deferred;
  const Stream a = Stream::create("cuda:0"), b = Stream::create("cuda:0");
  for (const bool ordered : {false, true}) {
    const Tensor t = filled(a, 1), copy = filled(b, 0);
    a.synchronize();
    fill_bytes(a, t.data_ptr(), 2, t.nbytes());
    if (ordered) b.wait(a);
    b.enqueue([&] { std::memcpy(copy.data_ptr(), t.data_ptr(), t.nbytes()); });
    b.synchronize();
    CHECK(copy.to_vector<int>()[0] == (ordered ? 2 : 1));
    a.synchronize();
  }
}

TEST_CASE("a device is waited for as a whole") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i)
    Stream::create(device).enqueue([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++done;
    });
  synchronize(device);
  CHECK(done == 4);
  Stream::create(device).enqueue([] { throw IndexError("from the pool"); });
  detail::drain(device);  // leaves the error for other threads
  CHECK(message_of<IndexError>([&] { synchronize(device); }) == "from the pool");
  synchronize(device);
}

TEST_CASE("bad values reported by kernels are thrown by the next wait, with the CPU's message") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Stream stream = Stream::create(device);
  const StreamGuard guard(stream);
  const Tensor one = filled(stream, 1, 1);
  const std::string expected =
      "[gather] index 9 at position [1, 0] is out of range for a dimension of size 4";

  enqueue_report(stream, bad_index("gather"));
  CHECK(message_of<IndexError>([&] { stream.synchronize(); }) == expected);
  stream.synchronize();  // thrown once, and the slot is free again
  enqueue_report(stream, bad_index("gather"));
  CHECK(message_of<IndexError>([&] { synchronize(device); }) == expected);
  enqueue_report(stream, bad_index("gather"));
  CHECK(message_of<IndexError>([&] { one.item<int>(); }) == expected);
  enqueue_report(stream, bad_index("gather"));
  CHECK(message_of<IndexError>([&] { one.to_vector<int>(); }) == expected);
  enqueue_report(stream, bad_index("gather"));
  CHECK(message_of<IndexError>([&] { one.str(); }) == expected);
  CHECK(one.item<int>() == 1);

  enqueue_report(stream, {.state = cuda::DeviceReport::kComplete,
                          .kind = cuda::ReportKind::class_out_of_range,
                          .op = "cross_entropy",
                          .integers = {-7, 10, -100, 1, 3},
                          .numbers = {}});
  CHECK(message_of<IndexError>([&] { stream.synchronize(); }) ==
        "[cross_entropy] target -7 at position [3] is out of range for 10 classes (ignore_index is "
        "-100)");
  for (const bool is_float : {true, false}) {
    enqueue_report(stream, {.state = cuda::DeviceReport::kComplete,
                            .kind = cuda::ReportKind::value_out_of_range,
                            .op = "bernoulli",
                            .integers = {is_float},
                            .numbers = {0, 1, static_cast<double>(1.1f)}});
    CHECK(message_of<ValueError>([&] { stream.synchronize(); }) ==
          (is_float ? "[bernoulli] expected values in [0, 1], got 1.1"
                    : "[bernoulli] expected values in [0, 1], got 1.100000023841858"));
  }
  // A report that a kernel is still writing is left for the next check.
  cuda::DeviceReport unfinished = bad_index("gather");
  unfinished.state = cuda::DeviceReport::kClaimed;
  enqueue_report(stream, unfinished);
  stream.synchronize();
  enqueue_report(stream, bad_index("gather"));
  CHECK_THROWS_AS(stream.synchronize(), IndexError);
  // A report is visible only through its own stream.
  enqueue_report(stream, bad_index("gather"));
  current_stream(Device()).synchronize();
  default_stream(device).synchronize();
  CHECK_THROWS_AS(stream.synchronize(), IndexError);
}

TEST_CASE("many threads submit to one stream") {
  REQUIRE_CUDA(1);
  const Stream stream = Stream::create("cuda:0");
  int count = 0;  // the stream's own
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        stream.enqueue([&] { ++count; });
        if (i % 25 == 0) stream.synchronize();
      }
    });
  for (std::thread& thread : threads) thread.join();
  stream.synchronize();
  CHECK(count == 400);
}

TEST_CASE("a stream under capture rejects work that a graph cannot hold") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Stream stream = Stream::create(device), side = Stream::create(device);
  const Tensor t = filled(stream, 1);
  stream.synchronize();
  const Graph graph(stream, [&] {
    CHECK_FALSE(stream.query());
    CHECK(message_of<CudaError>([&] {
            stream.synchronize();
          }).find("[synchronize] the stream is") == 0);
    CHECK(message_of<CudaError>([&] { stream.enqueue([] {}); }).find("[enqueue] a function of") ==
          0);
    Event event;
    event.record(stream);
    CHECK_FALSE(event.query());
    CHECK_THROWS_AS(event.synchronize(), CudaError);
    fill_bytes(stream, t.data_ptr(), 2, 128);
    side.wait(stream);
    fill_bytes(side, static_cast<char*>(t.data_ptr()) + 128, 3, 128);
    stream.wait(side);
  });
  CHECK(t.to_vector<int>() == std::vector<int>(256, 1));
  graph.replay(stream);
  stream.synchronize();
  std::vector<int> expected(256, 2);
  std::fill(expected.begin() + 128, expected.end(), 3);
  CHECK(t.to_vector<int>() == expected);
  stream.enqueue([] {});  // as before
  stream.synchronize();
}

TEST_CASE("asking for the state of other streams does not end a capture") {
  REQUIRE_CUDA(1);
  const Stream stream = Stream::create("cuda:0"), other = Stream::create("cuda:0");
  const Tensor t = filled(stream, 1), o = filled(other, 2);
  Event event;
  event.record(other);
  other.synchronize();
  stream.synchronize();
  const Graph graph(stream, [&] {
    fill_bytes(stream, t.data_ptr(), 4, t.nbytes());
    CHECK(other.query());
    CHECK(event.query());
    std::thread([&] {
      CHECK(other.query());
      CHECK(event.query());
    }).join();
    // Pinned memory that another stream has used last.
    const Tensor pinned = empty({64}, {.dtype = kUInt8, .pinned = true});
    pinned.storage()->record_stream(other);
  });
  graph.replay(stream);
  stream.synchronize();
  CHECK(t.to_vector<int>()[0] == 4);
}

TEST_CASE("a failed call is a typed exception that names and explains it") {
  REQUIRE_CUDA(1);
  const std::string refused =
      message_of<CudaError>([] { check_failed_call(Failure::not_supported); });
  CHECK(refused.find("[cuda] launch_rocket() failed on cuda:0: cudaErrorNotSupported (") == 0);
  CHECK(refused.find("the process remains usable") != std::string::npos);
  CHECK(message_of<OutOfMemoryError>([] {
          check_failed_call(Failure::out_of_memory);
        }).find("use a smaller batch") != std::string::npos);
  const std::string lost =
      message_of<CudaError>([] { check_failed_call(Failure::illegal_address); });
  CHECK(lost.find("must be restarted") != std::string::npos);
  CHECK(lost.find("FERRITE_LAUNCH_BLOCKING=1") != std::string::npos);
  CHECK(message_of<CudaError>([] {
          check_failed_call(Failure::contained);
        }).find("must be restarted") != std::string::npos);
  CHECK(message_of<CudaError>([] {
          check_failed_call(Failure::not_ready);
        }).find("Fabric Manager") != std::string::npos);
  default_stream("cuda:0").synchronize();
}

TEST_CASE("a failure while waiting comes out of the wait, and the stream goes on") {
  REQUIRE_EMULATOR();
  const Stream stream = Stream::create("cuda:0");
  const Tensor t = filled(stream, 4);
  fail_next_call("cudaStreamSynchronize", Failure::illegal_address);
  CHECK_THROWS_AS(stream.synchronize(), CudaError);
  stream.synchronize();
  fail_next_call("cudaLaunchHostFunc", Failure::not_supported);
  CHECK_THROWS_AS(stream.enqueue([] {}), CudaError);
  fail_next_call("cudaEventRecord", Failure::not_supported);
  CHECK_THROWS_AS(Event().record(stream), CudaError);
  fail_next_call("cudaStreamQuery", Failure::illegal_address);
  CHECK(stream.query());  // a lost device has no work left
  CHECK(t.to_vector<int>()[0] == 4);
}
