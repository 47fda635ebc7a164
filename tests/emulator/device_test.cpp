// Devices, peers, errors.
#include <string>
#include <thread>

#include "ferrite/tests/emulator/support.h"

namespace emulator_test {

TEST_CASE("devices: count, current, properties") {
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  CHECK(count == emulator::settings().devices);
  for (int device = 0; device < count; ++device) {
    const OnDevice on(device);
    int current = -1;
    OK(cudaGetDevice(&current));
    CHECK(current == device);
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, device));
    CHECK(p.warpSize == 32);
    CHECK(p.maxThreadsPerBlock == 1024);
    CHECK(p.totalGlobalMem == emulator::settings().memory);
    int value = 0;
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, device));
    CHECK(value == p.major);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    CHECK(value == static_cast<int>(p.sharedMemPerBlockOptin));
    char bus[32];
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
    CHECK(std::string(bus).size() == 12);
  }
  FAILS(cudaErrorInvalidDevice, cudaSetDevice(count));
  FAILS(cudaErrorInvalidDevice, cudaSetDevice(-1));
  cudaDeviceProp p;
  FAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&p, count));
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  CHECK(version == CUDART_VERSION);
  OK(cudaDriverGetVersion(&version));
  CHECK(version >= CUDART_VERSION);
}

TEST_CASE("devices: the current one and the last error belong to a thread") {
  const OnDevice on(1);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  std::thread([] {
    int device = -1;
    OK(cudaGetDevice(&device));
    CHECK(device == 0);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }).join();
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("errors have names and texts") {
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorName(cudaSuccess)) == "cudaSuccess");
  CHECK(std::string(cudaGetErrorString(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
}

TEST_CASE("peers: enabled once, each way, and copies work without") {
  int can = 0;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  OK(cudaDeviceCanAccessPeer(&can, 1, 1));
  CHECK(can == 0);
  FAILS(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, 99));

  const Ints here(std::vector<int>{7});
  const OnDevice on(1);
  const Ints there(1);
  OK(cudaMemcpyPeer(there.get(), 1, here.get(), 0, sizeof(int)));
  CHECK(there.value() == 7);
  FAILS(cudaErrorInvalidValue, cudaMemcpyPeer(there.get(), 0, here.get(), 1, sizeof(int)));
  FAILS(cudaErrorInvalidDevice, cudaMemcpyPeer(there.get(), 1, here.get(), 99, sizeof(int)));

  OK(cudaDeviceEnablePeerAccess(0, 0));
  FAILS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
  OK(run(nullptr, 1, 1, copy_to, there.get(), here.get()));  // a kernel of device 1 reads memory of
                                                             // device 0
  OK(cudaDeviceDisablePeerAccess(0));
  FAILS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));

  emulator::set_peer_access(false);
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 0);
  FAILS(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
  emulator::set_peer_access(true);
}

TEST_CASE("a trapped kernel leaves its error on the device until it is reset") {
  const OnDevice on(2);
  int* lost = nullptr;
  OK(cudaMalloc(&lost, sizeof(int)));
  OK(run(nullptr, 2, 64, trap_at, 40u));  // the launch itself succeeds
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
    CHECK(cudaMalloc(&lost, 4) == cudaErrorLaunchFailure);
    CHECK(run(nullptr, 1, 1, trap_at, 5u) == cudaErrorLaunchFailure);
  }
  {
    const OnDevice other(0);  // which is not affected
    const Ints x(std::vector<int>{3});
    CHECK(x.value() == 3);
  }
  SUBCASE("by cudaDeviceReset, which frees its memory") {
    CHECK(emulator::live_memory(2).allocations > 0);
    OK(cudaDeviceReset());
    CHECK(emulator::live_memory(2).allocations == 0);
  }
  SUBCASE("by the tests' hook") {
    emulator::reset();
    static_cast<void>(cudaFree(lost));
  }
  CHECK(cudaGetLastError() == cudaSuccess);
  const Ints x(std::vector<int>{3});
  OK(run(nullptr, 1, 64, trap_at, 100u));
  OK(cudaDeviceSynchronize());
}

TEST_CASE("a device has a context once a call works there") {
  using GetState = int (*)(int, unsigned*, int*);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  OK(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function, 12000,
                                      cudaEnableDefault, &found));
  REQUIRE(found == cudaDriverEntryPointSuccess);
  const auto active_on = [&](int device) {
    unsigned flags = 0;
    int active = -1;
    CHECK(reinterpret_cast<GetState>(function)(device, &flags, &active) == 0);
    CHECK((active != 0) == emulator::has_context(device));
    return active != 0;
  };
  OK(cudaSetDevice(3));
  OK(cudaDeviceReset());
  CHECK_FALSE(active_on(3));
  void* x = nullptr;
  OK(cudaMalloc(&x, 4));
  CHECK(active_on(3));
  OK(cudaDeviceReset());
  OK(cudaSetDevice(3));
  CHECK(active_on(3));
  OK(cudaDeviceReset());
  OK(cudaSetDevice(0));
  OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSymbolNotFound);
}

TEST_CASE("any call can be made to fail") {
  emulator::fail_next("cudaMalloc", cudaErrorMemoryAllocation, 1);
  int* x = nullptr;
  OK(cudaMalloc(&x, 4));
  int* y = nullptr;
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&y, 4));
  CHECK(y == nullptr);
  OK(cudaMalloc(&y, 4));
  OK(cudaFree(x));
  OK(cudaFree(y));
}

TEST_CASE("the number of devices can be set") {
  const int before = emulator::settings().devices;
  emulator::set_devices(2);
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  FAILS(cudaErrorInvalidDevice, cudaSetDevice(2));
  emulator::set_devices(before);
}

}  // namespace emulator_test
