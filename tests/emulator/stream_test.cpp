// Streams, events, host functions.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "ferrite/tests/emulator/support.h"

namespace emulator_test {

TEST_CASE("deferred streams run when a thread waits, in order") {
  const Deferred deferred;
  const TestStream stream;
  int* x = nullptr;
  OK(cudaMallocHost(&x, sizeof(int)));
  *x = 0;
  OK(run(stream, 1, 1, add_to, x, 5));
  OK(run(stream, 1, 1, set_to, x, 7));
  OK(run(stream, 1, 1, add_to, x, 1));
  CHECK(*x == 0);
  SUBCASE("for the stream") { OK(cudaStreamSynchronize(stream)); }
  SUBCASE("for the device") { OK(cudaDeviceSynchronize()); }
  SUBCASE("for an event") {
    const TestEvent event;
    OK(cudaEventRecord(event, stream));
    CHECK(cudaEventQuery(event) == cudaErrorNotReady);
    OK(cudaEventSynchronize(event));
    OK(cudaEventQuery(event));
  }
  SUBCASE("by asking again and again") {
    int asked = 0;
    while (cudaStreamQuery(stream) == cudaErrorNotReady) ++asked;
    CHECK(asked == 3);
  }
  SUBCASE("by freeing memory") {
    int* y = nullptr;
    OK(cudaMalloc(&y, 4));
    OK(cudaFree(y));
  }
  CHECK(*x == 8);
  OK(cudaFreeHost(x));
}

TEST_CASE("an event orders two streams, only up to its record") {
  const Deferred deferred;
  const TestStream first, second;
  const TestEvent event;
  int* x = nullptr;
  OK(cudaMallocHost(&x, 2 * sizeof(int)));
  x[0] = x[1] = 0;
  OK(run(first, 1, 1, set_to, x, 3));
  OK(cudaEventRecord(event, first));
  OK(run(first, 1, 1, set_to, x, 9));
  OK(cudaStreamWaitEvent(second, event, 0));
  OK(cudaEventRecord(event, first));  // the wait refers to the earlier record
  OK(run(second, 1, 1, copy_to, x + 1, x));
  OK(cudaStreamSynchronize(second));
  CHECK(x[1] == 3);
  CHECK(x[0] == 3);
  OK(cudaStreamSynchronize(first));
  CHECK(x[0] == 9);
  OK(cudaFreeHost(x));
}

TEST_CASE("an event that was never recorded is reached") {
  const TestStream stream;
  const TestEvent event;
  OK(cudaEventQuery(event));
  OK(cudaEventSynchronize(event));
  OK(cudaStreamWaitEvent(stream, event, 0));
  OK(cudaStreamSynchronize(stream));
}

TEST_CASE("the default stream waits for blocking streams, and they for it") {
  const Deferred deferred;
  const TestStream blocking(cudaStreamDefault), other(cudaStreamNonBlocking);
  int* x = nullptr;
  OK(cudaMallocHost(&x, 3 * sizeof(int)));
  x[0] = x[1] = x[2] = 0;
  OK(run(blocking, 1, 1, set_to, x, 1));
  OK(run(other, 1, 1, set_to, x + 2, 1));
  OK(run(nullptr, 1, 1, copy_to, x + 1, x));
  OK(run(blocking, 1, 1, set_to, x, 2));
  OK(cudaStreamSynchronize(blocking));
  CHECK(x[0] == 2);
  CHECK(x[1] == 1);
  CHECK(x[2] == 0);
  OK(cudaDeviceSynchronize());
  CHECK(x[2] == 1);
  OK(cudaFreeHost(x));
}

TEST_CASE("events measure time") {
  const TestStream stream;
  const TestEvent start, end, untimed(cudaEventDisableTiming);
  OK(cudaEventRecord(start, stream));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  OK(cudaEventRecord(end, stream));
  OK(cudaEventSynchronize(end));
  float ms = 0;
  OK(cudaEventElapsedTime(&ms, start, end));
  CHECK(ms >= 5);
  FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, untimed));
  OK(cudaEventRecord(untimed, stream));
  FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, untimed));
  const Deferred deferred;
  OK(run(stream, 1, 1, trap_at, 5u));
  OK(cudaEventRecord(end, stream));
  FAILS(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
}

TEST_CASE("events and streams belong to a device") {
  const TestEvent event;
  const OnDevice on(1);
  const TestStream stream;
  FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(stream, event, 0));  // waits work across devices
  int device = -1;
  OK(cudaStreamGetDevice(stream, &device));
  CHECK(device == 1);
}

TEST_CASE("streams have flags and priorities") {
  int least = 9, greatest = 9;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest < least);
  cudaStream_t stream;
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100));
  int priority = 0;
  OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
  unsigned flags = 0;
  OK(cudaStreamGetFlags(stream, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  OK(cudaStreamDestroy(stream));
  FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(stream));
  FAILS(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 77));
}

TEST_CASE("a destroyed stream still does its work") {
  const Deferred deferred;
  const Ints x(1);
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(run(stream, 1, 1, set_to, x.get(), 4));
  OK(cudaStreamDestroy(stream));
  OK(cudaDeviceSynchronize());
  CHECK(x.value() == 4);
}

TEST_CASE("copies from pageable memory are staged, those from pinned are not") {
  const Deferred deferred;
  const TestStream stream;
  const Ints x(1);
  int pageable = 1;
  OK(cudaMemcpyAsync(x.get(), &pageable, 4, cudaMemcpyHostToDevice, stream));
  pageable = 2;
  OK(cudaStreamSynchronize(stream));
  CHECK(x.value() == 1);
  int* pinned = nullptr;
  OK(cudaMallocHost(&pinned, 4));
  *pinned = 1;
  OK(cudaMemcpyAsync(x.get(), pinned, 4, cudaMemcpyHostToDevice, stream));
  *pinned = 2;
  OK(cudaStreamSynchronize(stream));
  CHECK(x.value() == 2);
  OK(cudaMemcpyAsync(pinned, x.get(), 4, cudaMemcpyDeviceToHost, stream));
  *pinned = 3;
  CHECK(*pinned == 3);  // it has not run
  OK(cudaStreamSynchronize(stream));
  CHECK(*pinned == 2);
  OK(cudaFreeHost(pinned));
}

namespace {

struct Gate {
  std::promise<void> open;
  std::atomic<int> passed{0};
};
void pass(void* gate) {
  auto& g = *static_cast<Gate*>(gate);
  g.open.get_future().wait();
  ++g.passed;
}
void count(void* passed) { ++*static_cast<std::atomic<int>*>(passed); }

}  // namespace

TEST_CASE("host functions run in their stream's order, and block no other stream") {
  const TestStream stream, other;
  const TestEvent event;
  const Ints x(std::vector<int>{1}), y(std::vector<int>{1});
  Gate gate;
  OK(cudaLaunchHostFunc(stream, pass, &gate));
  OK(run(stream, 1, 1, set_to, x.get(), 2));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(other, event, 0));
  OK(run(other, 1, 1, copy_to, y.get(), x.get()));
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  const TestStream free;
  const Ints z(1);
  OK(run(free, 1, 1, set_to, z.get(), 3));
  OK(cudaStreamSynchronize(free));
  CHECK(gate.passed == 0);
  gate.open.set_value();
  OK(cudaStreamSynchronize(other));
  CHECK(gate.passed == 1);
  CHECK(y.value() == 2);
}

TEST_CASE("a host function runs without a CUDA wait") {
  for (const bool deferred : {false, true}) {
    const Deferred mode(deferred);
    const TestStream stream;
    const Ints x(1);
    OK(run(stream, 1, 1, set_to, x.get(), 3));
    std::atomic<int> passed{0};
    OK(cudaLaunchHostFunc(stream, count, &passed));
    for (int i = 0; i < 1000 && passed == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(passed == 1);
    OK(cudaStreamSynchronize(stream));
  }
}

TEST_CASE("many threads launch, copy, record and wait at once") {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int rank = 0; rank < 8; ++rank)
    threads.emplace_back([rank, &wrong] {
      cudaSetDevice(rank % emulator::settings().devices);
      cudaStream_t streams[2];
      cudaEvent_t event;
      int *x = nullptr, *host = nullptr;
      std::atomic<int> called{0};
      for (cudaStream_t& s : streams) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
      cudaEventCreate(&event);
      cudaMalloc(&x, sizeof(int));
      cudaMallocHost(&host, sizeof(int));
      cudaMemsetAsync(x, 0, sizeof(int), streams[0]);
      for (int i = 0; i < 200; ++i) {
        run(streams[i % 2], 1, 64, trap_at, 64u);  // barriers: fibers move between threads
        run(streams[i % 2], 1, 1, add_to, x, rank);
        if (i % 20 == 0) cudaLaunchHostFunc(streams[i % 2], count, &called);
        cudaEventRecord(event, streams[i % 2]);
        cudaStreamWaitEvent(streams[(i + 1) % 2], event, 0);
      }
      cudaMemcpyAsync(host, x, sizeof(int), cudaMemcpyDeviceToHost, streams[0]);
      if (cudaStreamSynchronize(streams[0]) != cudaSuccess) ++wrong;
      if (*host != 200 * rank || called != 10) ++wrong;
      for (cudaStream_t s : streams) cudaStreamDestroy(s);
      cudaEventDestroy(event);
      cudaFree(x);
      cudaFreeHost(host);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("two ranks meet in host functions of their streams") {
  // Like a process group that works from host functions, with one thread per rank.
  const Deferred deferred(false);
  std::atomic<int> arrived{0};
  struct Meeting {
    std::atomic<int>* arrived;
  } meeting{&arrived};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([rank, &meeting] {
      cudaSetDevice(rank);
      cudaStream_t stream;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaLaunchHostFunc(
          stream, [](void* m) { ++*static_cast<Meeting*>(m)->arrived; }, &meeting);
      while (*meeting.arrived < 2) std::this_thread::yield();
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(arrived == 2);
}

}  // namespace emulator_test
