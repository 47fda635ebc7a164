// Launches: configurations, arguments, orders, counters.
#include <algorithm>
#include <string>

#include "ferrite/tests/emulator/support.h"

namespace emulator_test {

namespace {

struct Parameters {
  int values[16];
};
__global__ void sum_parameters(Parameters p, const int* more, long n, int* sum) {
  int total = 0;
  for (const int value : p.values) total += value;
  for (long i = 0; i < n; ++i) total += more[i];
  *sum = total;
}
__global__ void number_threads(int* order, int* next) {
  const unsigned rank = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  order[atomicAdd(next, 1)] = static_cast<int>(rank * 100 + thread);
}
__global__ void use_shared(int* x) {
  auto* const bytes = static_cast<unsigned char*>(::emulator::dynamic_shared());
  const std::size_t size = ::emulator::dynamic_shared_bytes();
  bytes[0] = bytes[size - 1] = 1;
  *x = bytes[0] + bytes[size - 1];
}

cudaError_t launch_shared(std::size_t bytes, int* x) {
  return emulator::launch("use_shared", __FILE__, __LINE__, 1, 1, bytes, nullptr, use_shared, x);
}

std::vector<int> order_of_threads() {
  const Ints order(2 * 3 * 60), next(std::vector<int>{0});
  OK(run(nullptr, dim3(1, 2, 3), dim3(5, 4, 3), number_threads, order.get(), next.get()));
  return order.values();
}

}  // namespace

TEST_CASE("launches that no device takes fail") {
  const Ints x(1);
  for (const auto& [grid, block] : std::vector<std::pair<dim3, dim3>>{{dim3(0), dim3(1)},
                                                                      {dim3(1, 0), dim3(1)},
                                                                      {dim3(1), dim3(0)},
                                                                      {dim3(1), dim3(1025)},
                                                                      {dim3(1), dim3(64, 32)},
                                                                      {dim3(1), dim3(1, 1, 65)},
                                                                      {dim3(1, 65536), dim3(1)},
                                                                      {dim3(1, 1, 65536), dim3(1)},
                                                                      {dim3(0x80000000u), dim3(1)}})
    FAILS(cudaErrorInvalidConfiguration, run(nullptr, grid, block, set_to, x.get(), 1));
  OK(run(nullptr, 1, dim3(32, 32), set_to, x.get(), 1));
  cudaStream_t gone;
  OK(cudaStreamCreate(&gone));
  OK(cudaStreamDestroy(gone));
  FAILS(cudaErrorInvalidResourceHandle, run(gone, 1, 1, set_to, x.get(), 1));
  const TestStream stream;
  const OnDevice other(1);
  FAILS(cudaErrorInvalidResourceHandle, run(stream, 1, 1, set_to, static_cast<int*>(nullptr), 1));
}

TEST_CASE("more than 48 KiB of shared memory must be asked for") {
  const Ints x(1);
  OK(launch_shared(48 << 10, x.get()));
  FAILS(cudaErrorInvalidValue, launch_shared((48 << 10) + 1, x.get()));
  FAILS(cudaErrorInvalidValue,
        cudaFuncSetAttribute(use_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10));
  OK(cudaFuncSetAttribute(use_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  OK(launch_shared(100 << 10, x.get()));
  FAILS(cudaErrorInvalidValue, launch_shared((100 << 10) + 1, x.get()));
  CHECK(x.value() == 2);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, use_shared));
  CHECK(attributes.maxDynamicSharedSizeBytes == 100 << 10);
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, use_shared, 256, 100 << 10));
  CHECK(blocks == 2);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, use_shared, 1024, 0));
  CHECK(blocks == 2);
}

TEST_CASE("arguments are those of the launch, whenever the kernel runs") {
  for (const bool deferred : {false, true}) {
    const Deferred mode(deferred);
    const TestStream stream;
    const Ints more(std::vector<int>{100, 200}), sum(1);
    Parameters p = {};
    p.values[15] = 7;
    OK(run(stream, 1, 1, sum_parameters, p, more.get(), 2, sum.get()));  // an int for a long
    p.values[15] = 0;
    OK(cudaStreamSynchronize(stream));
    CHECK(sum.value() == 307);
  }
}

TEST_CASE("every thread runs once, in the order that is set") {
  std::vector<int> all;
  for (int block = 0; block < 6; ++block)
    for (int thread = 0; thread < 60; ++thread) all.push_back(block * 100 + thread);
  const emulator::Settings before = emulator::settings();
  emulator::set_order(emulator::Order::ascending);
  CHECK(order_of_threads() == all);
  emulator::set_order(emulator::Order::descending);
  CHECK(order_of_threads() == std::vector<int>(all.rbegin(), all.rend()));
  emulator::set_order(emulator::Order::shuffled, 5);
  const std::vector<int> shuffled = order_of_threads();
  CHECK(shuffled != all);
  CHECK(order_of_threads() != shuffled);
  emulator::set_order(emulator::Order::shuffled, 5);
  CHECK(order_of_threads() == shuffled);  // determined by the seed
  std::vector<int> sorted = shuffled;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == all);
  emulator::set_order(before.order, before.seed);
}

TEST_CASE("counters count") {
  const Ints x(1);
  const emulator::Counters before = emulator::counters();
  OK(run(nullptr, 3, 64, trap_at, 100u));  // has a barrier
  OK(cudaDeviceSynchronize());
  const emulator::Counters after = emulator::counters();
  CHECK(after.launches - before.launches == 1);
  CHECK(after.blocks - before.blocks == 3);
  CHECK(after.threads - before.threads == 192);
  CHECK(after.barriers - before.barriers == 192);
  CHECK(after.switches > before.switches);
}

TEST_CASE("a kernel without barriers needs no stacks") {
  const Ints x(1);
  const emulator::Counters before = emulator::counters();
  OK(run(nullptr, 10, 1000, set_to, x.get(), 1));
  OK(cudaDeviceSynchronize());
  // One switch to each block's stack, and one back.
  CHECK(emulator::counters().switches - before.switches == 20);
}

}  // namespace emulator_test
