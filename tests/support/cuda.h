// Helpers for tests of CUDA devices. They run on the emulator and on GPUs; without a device they
// report that and pass. Features that only the emulator has (deferred streams, failing calls, small
// devices) are skipped on a GPU, also with a report.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "ferrite/core/cuda/report.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::test {

/// The host, and the first CUDA device where there is one.
inline std::vector<Device> host_and_cuda() {
  std::vector<Device> devices = {Device()};
  if (cuda::is_available()) devices.emplace_back("cuda:0");
  return devices;
}

/// Whether there are `count` CUDA devices; prints the reason if not.
bool has_cuda(int count = 1);
/// Whether there are `count` devices, and NCCL; prints what is missing.
bool can_use_nccl(int count = 1);
/// Whether they are emulated; prints what is skipped if they are not.
bool is_emulated();

/// While it lives, emulated streams run only when a thread waits for them.
class DeferredStreams {
 public:
  DeferredStreams();
  ~DeferredStreams();

 private:
  bool before_ = false;
};

/// While it lives, emulated device `device` has `bytes` of memory.
class SmallDevice {
 public:
  SmallDevice(int device, std::size_t bytes);
  ~SmallDevice();

 private:
  int device_;
};

/// While it lives, all calls on emulated device `device` fail, as after a kernel that trapped.
class LostDevice {
 public:
  explicit LostDevice(int device);
  ~LostDevice();
};

/// While it lives, emulated devices cannot access each other's memory.
class NoPeerAccess {
 public:
  NoPeerAccess();
  ~NoPeerAccess();
};

/// While it lives, emulated devices run threads, blocks and independent nodes of graphs in an order
/// that depends on `seed`.
class ShuffledThreads {
 public:
  explicit ShuffledThreads(std::uint64_t seed);
  ~ShuffledThreads();

 private:
  int order_before_ = 0;
  std::uint64_t seed_before_ = 0;
};

enum class Failure { out_of_memory, illegal_address, contained, not_ready, not_supported };
/// The next call of the emulated runtime function `name` fails.
void fail_next_call(const char* name, Failure failure);
/// The action of FERRITE_CUDA_CHECK for a call that fails this way.
void check_failed_call(Failure failure);

/// The device on which the runtime's own calls in this thread work, and its change.
int runtime_device();
void set_runtime_device(int device);
/// Whether the process has made a context on an emulated device; false on a GPU.
bool has_context(int device);

/// Number of calls of the emulated runtime so far by which the host waits, or may wait
/// (emulator.h); all 0 on a GPU.
struct HostWaits {
  std::uint64_t synchronizations = 0, copies = 0, allocations = 0, frees = 0;
  friend bool operator==(const HostWaits&, const HostWaits&) = default;
  friend std::ostream& operator<<(std::ostream& out, const HostWaits& w) {
    return out << w.synchronizations << " synchronizations, " << w.copies << " copies, "
               << w.allocations << " allocations, " << w.frees << " frees";
  }
};
HostWaits host_waits();

/// Whether NCCL's ranks can be processes, which the emulator's cannot; prints what is skipped if
/// they cannot.
bool has_nccl_processes();
/// Makes the emulator's NCCL report an asynchronous error of the communicators of `device`.
void plant_nccl_error(int device);
/// Communicators of the emulator's NCCL that were not released; 0 on a GPU.
int live_nccl_communicators();
/// Groups of calls of the emulator's NCCL so far, each of which costs a thread; 0 on a GPU.
std::uint64_t nccl_groups();

/// Sets bytes of device memory, in stream order; for tests without kernels.
void fill_bytes(const Stream& stream, void* data, int value, std::size_t bytes);

/// The work that `body` puts on `stream`, as a graph.
class Graph {
 public:
  Graph(const Stream& stream, const std::function<void()>& body);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void replay(const Stream& stream) const;

 private:
  void* executable_ = nullptr;
};

/// Blocks a CUDA stream until it is opened.
class CudaGate {
 public:
  explicit CudaGate(const Stream& stream);
  ~CudaGate() { open(); }
  void open();
  /// Returns when the stream waits at the gate.
  void wait_until_reached();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Whether this build can detect forbidden memory: the emulator with AddressSanitizer.
bool sees_forbidden_memory();
/// Whether the byte of device memory at `data` is forbidden.
bool is_forbidden(const void* data);

/// The native handle of a stream; DeviceError for one of the CPU.
void* native_handle(const Stream& stream);

/// Puts on `stream` a kernel that reports a bad value, or its equivalent without kernels.
void enqueue_report(const Stream& stream, const cuda::DeviceReport& report);

/// A dense tensor of `device` with these values, created without kernels.
template <class T>
Tensor on_device(const std::vector<T>& values, const Shape& shape, const Device& device) {
  const Tensor host = from_vector(values, shape);
  if (device.is_cpu()) return host;
  const Tensor t = empty(shape, {.dtype = host.dtype(), .device = device});
  const Stream stream = current_stream(device);
  detail::cuda::copy_bytes(stream, t.data_ptr(), device, host.data_ptr(), Device(), host.nbytes());
  stream.synchronize();
  return t;
}

/// Bytes of device memory, copied to the host by the runtime itself.
std::vector<unsigned char> read_bytes(const void* data, std::size_t bytes);

}  // namespace ferrite::test

/// Ends the test case unless there are `count` CUDA devices.
#define REQUIRE_CUDA(count) \
  if (!::ferrite::test::has_cuda(count)) return
#define REQUIRE_EMULATOR() \
  if (!::ferrite::test::has_cuda() || !::ferrite::test::is_emulated()) return
