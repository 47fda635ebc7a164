// The emulator's own interface, for tests. Settings start from the environment (README.md).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace emulator {

/// In which order threads, warps, blocks and ready nodes of graphs run.
enum class Order { ascending, descending, shuffled };

struct Settings {
  Order order = Order::ascending;
  std::uint64_t seed = 0;
  int devices = 4;
  std::size_t memory = std::size_t{2} << 30;  // of each device, in bytes
  bool deferred = false;                      // streams run only when somebody waits for them
  bool protect = false;                       // host code that touches device memory faults
  bool poison = true;                         // fresh memory is filled with NaN bits
};

Settings settings();
void set_order(Order order, std::uint64_t seed = 0);
/// The number of devices, from 1 to 16.
void set_devices(int count);
/// Bytes that `device` has from now on; what is allocated stays so.
void set_memory(int device, std::size_t bytes);
void set_deferred(bool deferred);

/// Whether devices reach each other's memory at all (cudaDeviceCanAccessPeer); true at first.
void set_peer_access(bool possible);

/// The next call of the runtime function `name` ("cudaMalloc") by any thread, after `skip` others,
/// fails with `error` and does nothing.
void fail_next(const char* name, cudaError_t error, int skip = 0);

/// Every call on `device` fails from here on, as after a kernel that trapped, and what is queued
/// there never runs.
void lose(int device);
/// Clears the errors that a trapped kernel left on all devices, as a new process would.
void reset();

struct Counters {
  std::uint64_t launches = 0, blocks = 0, threads = 0;
  std::uint64_t barriers = 0;     // arrivals of threads
  std::uint64_t collectives = 0;  // arrivals of lanes
  std::uint64_t switches = 0;     // from one fiber to another
};
Counters counters();

/// Calls so far by which the host waits for a device, or may wait, whether they succeeded or not.
struct HostWaits {
  std::uint64_t synchronizations = 0;  // of a device, a stream or an event
  std::uint64_t copies = 0;            // cudaMemcpy and its like; also those on a stream whose host
                                       // memory is pageable
  std::uint64_t allocations = 0;       // of device, page-locked and managed memory, and registering
  std::uint64_t frees = 0;
  friend bool operator==(const HostWaits&, const HostWaits&) = default;
};
HostWaits host_waits();

/// Device allocations that are live, and their bytes.
struct LiveMemory {
  std::size_t allocations = 0, bytes = 0;
};
LiveMemory live_memory(int device);

/// Tells the detectors that the bytes are not to be touched (or are fresh: NaN bits), for caching
/// allocators that hand out parts of an allocation. No effect outside of device memory.
void poison(const void* address, std::size_t bytes);
void unpoison(const void* address, std::size_t bytes);

/// The same when the stream gets there, as the use of the memory is ordered by the stream. While it
/// captures, the first does nothing (a graph uses its memory at every launch), and the second is
/// done at once.
void poison(cudaStream_t stream, const void* address, std::size_t bytes);
void unpoison(cudaStream_t stream, const void* address, std::size_t bytes);

/// Whether this build looks for races.
bool has_race_detector();

/// What has been found so far that does not end the program at once (races, damaged guards); where
/// it is not 0 the program ends with exit code 66.
int findings();

}  // namespace emulator
