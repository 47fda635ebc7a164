// The emulator's own interface, for tests. Settings are initialized from the environment
// (README.md).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace emulator {

/// The order in which threads, warps, blocks and ready nodes of graphs run.
enum class Order { ascending, descending, shuffled };

struct Settings {
  Order order = Order::ascending;
  std::uint64_t seed = 0;
  int devices = 4;
  std::size_t memory = std::size_t{2} << 30;  // per device, in bytes
  bool deferred = false;                      // streams run only when a host thread waits for them
  bool protect = false;                       // accesses of host code to device memory fault
  bool poison = true;                         // fresh memory is filled with NaN bits
  bool races = true;                          // the race detector, if there is one, looks
};

Settings settings();
void set_order(Order order, std::uint64_t seed = 0);
/// The number of devices, from 1 to 16.
void set_devices(int count);
/// Sets the memory of `device` in bytes; existing allocations stay.
void set_memory(int device, std::size_t bytes);
void set_deferred(bool deferred);

/// Whether devices can access each other's memory at all (cudaDeviceCanAccessPeer); true by
/// default.
void set_peer_access(bool possible);

/// Whether Ferrite finds a cuDNN: one that computes attention and convolutions, if the build had
/// cuDNN's headers. False by default, so that tests run Ferrite's own kernels.
void set_cudnn(bool found);
bool has_cudnn();
/// Whether Ferrite finds a cuBLASLt, which makes products, if the build had its headers. False by
/// default.
void set_cublaslt(bool found);
bool has_cublaslt();
/// Whether they compute; otherwise their results are zeros, where only the calls matter. True by
/// default.
void set_libraries_compute(bool compute);
bool libraries_compute();

/// The next call of the runtime function `name` ("cudaMalloc") by any thread, after skipping `skip`
/// calls, fails with `error` and has no effect.
void fail_next(const char* name, cudaError_t error, int skip = 0);

/// Whether the process has made a context on `device`: by cudaSetDevice, or by a call that works
/// there. On a GPU, it takes hundreds of megabytes.
bool has_context(int device);

/// From here on every call on `device` fails, as after a kernel that trapped, and work queued there
/// never runs.
void lose(int device);
/// Clears the errors that a trapped kernel left on all devices, like a new process.
void reset();

struct Counters {
  std::uint64_t launches = 0, blocks = 0, threads = 0;
  std::uint64_t barriers = 0;     // arrivals of threads
  std::uint64_t collectives = 0;  // arrivals of lanes
  std::uint64_t switches = 0;     // from one fiber to another
};
Counters counters();

/// Number of calls so far by which the host waits for a device, or may wait, whether they succeeded
/// or not.
struct HostWaits {
  std::uint64_t synchronizations = 0;  // waits for a device, a stream or an event
  std::uint64_t copies = 0;            // cudaMemcpy and similar calls; also copies on a stream with
                                       // pageable host memory
  std::uint64_t allocations = 0;       // device, page-locked and managed memory, and registration
  std::uint64_t frees = 0;
  friend bool operator==(const HostWaits&, const HostWaits&) = default;
};
HostWaits host_waits();

/// Live device allocations, and their bytes.
struct LiveMemory {
  std::size_t allocations = 0, bytes = 0;
};
LiveMemory live_memory(int device);

/// Tells the detectors that the bytes must not be accessed (or are fresh: NaN bits), for caching
/// allocators that hand out parts of an allocation. No effect outside device memory.
void poison(const void* address, std::size_t bytes);
void unpoison(const void* address, std::size_t bytes);

/// The same in stream order, like the uses of the memory. While the stream captures, poison does
/// nothing (a graph uses its memory at every launch), and unpoison takes effect at once.
void poison(cudaStream_t stream, const void* address, std::size_t bytes);
void unpoison(cudaStream_t stream, const void* address, std::size_t bytes);

/// Whether this build has the race detector.
bool has_race_detector();

/// The number of errors so far that do not end the program at once (races, damaged guards); if it
/// is not 0 the program ends with exit code 66.
int findings();

}  // namespace emulator
