// Allocation, and pointer attributes.
#include <cmath>
#include <cstdint>

#include "ferrite/tests/emulator/support.h"

namespace emulator_test {

TEST_CASE("device memory: aligned, NaN when fresh, freed once") {
  float* x = nullptr;
  OK(cudaMalloc(&x, 1000));
  CHECK(reinterpret_cast<std::uintptr_t>(x) % 256 == 0);
  std::vector<float> host(250);
  OK(cudaMemcpy(host.data(), x, 1000, cudaMemcpyDeviceToHost));
  for (const float value : host) CHECK(std::isnan(value));
  FAILS(cudaErrorInvalidValue, cudaFree(x + 1));
  OK(cudaFree(x));
  FAILS(cudaErrorInvalidValue, cudaFree(x));
  OK(cudaFree(nullptr));
  OK(cudaMalloc(&x, 0));
  CHECK(x == nullptr);
  FAILS(cudaErrorInvalidValue, cudaMalloc(static_cast<void**>(nullptr), 4));
}

TEST_CASE("device memory runs out at the size that is set") {
  const OnDevice on(3);
  const std::size_t before = emulator::settings().memory;
  emulator::set_memory(3, 1 << 20);
  std::size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  CHECK(total == 1 << 20);
  const std::size_t left = free;
  void *x = nullptr, *y = nullptr;
  OK(cudaMalloc(&x, left - 1000));
  OK(cudaMemGetInfo(&free, &total));
  CHECK(free == 1000);
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&y, 1001));
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&y, std::size_t{1} << 60));
  OK(cudaMalloc(&y, 1000));
  OK(cudaFree(x));
  OK(cudaMalloc(&x, 5000));
  OK(cudaFree(x));
  OK(cudaFree(y));
  CHECK(emulator::live_memory(3).bytes == 0);
  emulator::set_memory(3, before);
}

TEST_CASE("device memory: many blocks of many sizes keep their contents") {
  std::vector<std::pair<int*, std::size_t>> blocks;
  std::uint32_t random = 1;
  for (int round = 0; round < 2000; ++round) {
    random = random * 1664525 + 1013904223;
    if (random >> 31 && !blocks.empty()) {
      const auto [data, size] = blocks[random % blocks.size()];
      std::vector<int> host(size);
      OK(cudaMemcpy(host.data(), data, size * 4, cudaMemcpyDeviceToHost));
      REQUIRE(host == std::vector<int>(size, static_cast<int>(size)));
      OK(cudaFree(data));
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(random % blocks.size()));
    } else {
      const std::size_t size = 1 + random % (round % 10 == 0 ? 300'000 : 300);
      int* data = nullptr;
      OK(cudaMalloc(&data, size * 4));
      const std::vector<int> host(size, static_cast<int>(size));
      OK(cudaMemcpy(data, host.data(), size * 4, cudaMemcpyHostToDevice));
      blocks.push_back({data, size});
    }
  }
  for (const auto& [data, size] : blocks) OK(cudaFree(data));
}

TEST_CASE("pinned memory: accessible to kernels, and identified by its address") {
  int* x = nullptr;
  OK(cudaHostAlloc(&x, 64, cudaHostAllocMapped | cudaHostAllocPortable));
  unsigned flags = 0;
  OK(cudaHostGetFlags(&flags, x));
  CHECK(flags == (cudaHostAllocMapped | cudaHostAllocPortable));
  int* device = nullptr;
  OK(cudaHostGetDevicePointer(&device, x, 0));
  OK(run(nullptr, 1, 1, set_to, device, 5));
  OK(cudaDeviceSynchronize());
  CHECK(x[0] == 5);
  cudaPointerAttributes a;
  OK(cudaPointerGetAttributes(&a, x + 3));
  CHECK(a.type == cudaMemoryTypeHost);
  CHECK(a.hostPointer == x + 3);
  FAILS(cudaErrorInvalidValue, cudaFree(x + 1));
  OK(cudaFreeHost(x));
  FAILS(cudaErrorInvalidValue, cudaFreeHost(x));

  std::vector<int> own(16);
  OK(cudaHostRegister(own.data(), 64, cudaHostRegisterDefault));
  FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own.data() + 2, 8, 0));
  OK(run(nullptr, 1, 1, set_to, own.data() + 1, 6));
  OK(cudaDeviceSynchronize());
  CHECK(own[1] == 6);
  OK(cudaHostUnregister(own.data()));
  FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own.data()));
}

TEST_CASE("pointers tell where they belong") {
  const OnDevice on(1);
  const Ints x(10);
  cudaPointerAttributes a;
  OK(cudaPointerGetAttributes(&a, x.get() + 4));
  CHECK(a.type == cudaMemoryTypeDevice);
  CHECK(a.device == 1);
  CHECK(a.devicePointer == x.get() + 4);
  CHECK(a.hostPointer == nullptr);
  int local = 0;
  OK(cudaPointerGetAttributes(&a, &local));
  CHECK(a.type == cudaMemoryTypeUnregistered);
  int* managed = nullptr;
  OK(cudaMallocManaged(&managed, 4));
  OK(cudaPointerGetAttributes(&a, managed));
  CHECK(a.type == cudaMemoryTypeManaged);
  OK(cudaFree(managed));
}

TEST_CASE("memory in the order of a stream") {
  const Deferred deferred;
  const TestStream stream;
  int* x = nullptr;
  OK(cudaMallocAsync(&x, 4, stream));
  OK(run(stream, 1, 1, set_to, x, 8));
  int value = 0;
  OK(cudaMemcpyAsync(&value, x, 4, cudaMemcpyDeviceToHost, stream));
  CHECK(value == 8);  // a copy to pageable memory is complete when the call returns
  const std::size_t before = emulator::live_memory(0).allocations;
  OK(cudaFreeAsync(x, stream));
  CHECK(emulator::live_memory(0).allocations == before);
  OK(cudaStreamSynchronize(stream));
  CHECK(emulator::live_memory(0).allocations == before - 1);
}

TEST_CASE("poisoned parts come back as NaN") {
  float* x = nullptr;
  OK(cudaMalloc(&x, 256));
  OK(cudaMemset(x, 0, 256));
  SUBCASE("at once") {
    OK(cudaDeviceSynchronize());
    emulator::poison(x + 16, 64);
    emulator::unpoison(x + 16, 64);
  }
  SUBCASE("in the order of a stream") {
    emulator::poison(nullptr, x + 16, 64);
    emulator::unpoison(nullptr, x + 16, 64);
  }
  std::vector<float> host(64);
  OK(cudaMemcpy(host.data(), x, 256, cudaMemcpyDeviceToHost));
  CHECK(host[15] == 0);
  CHECK(std::isnan(host[16]));
  CHECK(std::isnan(host[31]));
  CHECK(host[32] == 0);
  OK(cudaFree(x));
}

TEST_CASE("copies: directions and bounds are checked") {
  const Ints x(std::vector<int>{1, 2, 3, 4});
  int host[4] = {};
  FAILS(cudaErrorInvalidValue, cudaMemcpy(host, x.get(), 20, cudaMemcpyDeviceToHost));
  FAILS(cudaErrorInvalidValue, cudaMemcpy(host, x.get(), 16, cudaMemcpyHostToDevice));
  FAILS(cudaErrorInvalidValue, cudaMemcpy(x.get(), host, 16, cudaMemcpyDeviceToDevice));
  FAILS(cudaErrorInvalidMemcpyDirection,
        cudaMemcpy(host, x.get(), 16, static_cast<cudaMemcpyKind>(9)));
  FAILS(cudaErrorInvalidValue, cudaMemset(x.get() + 2, 0, 12));
  FAILS(cudaErrorInvalidValue, cudaMemset(host, 0, 4));
  OK(cudaMemcpy(host, x.get() + 1, 8, cudaMemcpyDefault));
  CHECK(host[1] == 3);
  OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
}

TEST_CASE("copies of rows") {
  std::vector<int> host(20);
  for (int i = 0; i < 20; ++i) host[static_cast<std::size_t>(i)] = i;
  const Ints x(std::vector<int>(12, -1));  // 3 rows of 4
  OK(cudaMemcpy2D(x.get(), 16, host.data() + 1, 20, 8, 3, cudaMemcpyHostToDevice));
  CHECK(x.values() == std::vector<int>{1, 2, -1, -1, 6, 7, -1, -1, 11, 12, -1, -1});
  OK(cudaMemset2D(x.get() + 3, 16, 0, 4, 3));
  CHECK(x.values() == std::vector<int>{1, 2, -1, 0, 6, 7, -1, 0, 11, 12, -1, 0});
  FAILS(cudaErrorInvalidValue,
        cudaMemcpy2D(x.get(), 4, host.data(), 20, 8, 3, cudaMemcpyHostToDevice));
  FAILS(cudaErrorInvalidValue,
        cudaMemcpy2D(x.get(), 16, host.data(), 20, 8, 4, cudaMemcpyHostToDevice));
}

TEST_CASE("calls that make the host wait are counted") {
  const TestStream stream;
  const TestEvent event;
  const Ints x(4);
  int pageable[4] = {}, *pinned = nullptr, *more = nullptr;
  OK(cudaMallocHost(&pinned, x.bytes()));
  const auto counted = [](auto body) {
    const emulator::HostWaits before = emulator::host_waits();
    body();
    const emulator::HostWaits after = emulator::host_waits();
    return emulator::HostWaits{after.synchronizations - before.synchronizations,
                               after.copies - before.copies, after.allocations - before.allocations,
                               after.frees - before.frees};
  };
  using Waits = emulator::HostWaits;
  CHECK(counted([&] {
          OK(run(stream, 1, 1, set_to, x.get(), 5));
          OK(cudaMemcpyAsync(pinned, x.get(), x.bytes(), cudaMemcpyDeviceToHost, stream));
          OK(cudaMemcpyAsync(x.get(), pinned, x.bytes(), cudaMemcpyHostToDevice, stream));
          OK(cudaMemsetAsync(x.get(), 0, x.bytes(), stream));
          OK(cudaEventRecord(event, stream));
          OK(cudaStreamWaitEvent(stream, event, 0));
          static_cast<void>(cudaEventQuery(event));
          static_cast<void>(cudaStreamQuery(stream));
        }) == Waits());
  CHECK(counted([&] {
          OK(cudaStreamSynchronize(stream));
          OK(cudaEventSynchronize(event));
          OK(cudaDeviceSynchronize());
        }) == Waits{.synchronizations = 3});
  CHECK(counted([&] {
          OK(cudaMemcpy(pinned, x.get(), x.bytes(), cudaMemcpyDeviceToHost));
          OK(cudaMemcpyAsync(pageable, x.get(), x.bytes(), cudaMemcpyDeviceToHost, stream));
          OK(cudaMemcpyAsync(x.get(), pageable, x.bytes(), cudaMemcpyHostToDevice, stream));
        }) == Waits{.copies = 3});
  CHECK(counted([&] {
          OK(cudaMalloc(&more, 4));
          OK(cudaFree(more));
          OK(cudaHostRegister(pageable, sizeof pageable, 0));
          OK(cudaHostUnregister(pageable));
          OK(cudaFreeHost(pinned));
        }) == Waits{.allocations = 2, .frees = 3});
}

}  // namespace emulator_test
