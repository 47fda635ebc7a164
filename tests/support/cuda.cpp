#include "ferrite/tests/support/cuda.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"

#if FERRITE_HAVE_CUDA
#include <cuda_runtime.h>

#include "ferrite/core/cuda/runtime.h"
#endif
#if defined(FERRITE_EMULATOR)
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/nccl.h"
#endif

namespace ferrite::test {

#if FERRITE_HAVE_CUDA
namespace {

cudaError_t error_of(Failure failure) {
  switch (failure) {
    case Failure::out_of_memory:
      return cudaErrorMemoryAllocation;
    case Failure::illegal_address:
      return cudaErrorIllegalAddress;
    case Failure::contained:
      return static_cast<cudaError_t>(226);  // cudaErrorContained
    case Failure::not_ready:
      return cudaErrorSystemNotReady;
    case Failure::not_supported:
      break;
  }
  return cudaErrorNotSupported;
}

}  // namespace
#endif

bool has_cuda(int count) {
  if (cuda::device_count() >= count) return true;
  MESSAGE("skipped: needs ", count, " CUDA devices, there are ", cuda::device_count(),
          cuda::is_available() ? "" : " (" + cuda::why_unavailable() + ")");
  return false;
}

bool can_use_nccl(int count) {
  if (!has_cuda(count)) return false;
  if (cuda::versions().nccl.starts_with("2.")) return true;
  MESSAGE("skipped: needs NCCL");
  return false;
}

// Defined if AddressSanitizer is linked.
extern "C" [[gnu::weak]] int __asan_address_is_poisoned(const volatile void* address);

bool sees_forbidden_memory() {
  if (is_emulated() && __asan_address_is_poisoned) return true;
  MESSAGE("skipped: needs AddressSanitizer");
  return false;
}
bool is_forbidden(const void* data) {
  return __asan_address_is_poisoned && __asan_address_is_poisoned(data) != 0;
}

struct CudaGate::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false, open = false;
};

CudaGate::CudaGate(const Stream& stream) : state_(std::make_shared<State>()) {
  stream.enqueue([state = state_] {
    std::unique_lock lock(state->mutex);
    state->reached = true;
    state->changed.notify_all();
    state->changed.wait_for(lock, std::chrono::seconds(20), [&] { return state->open; });
  });
}

void CudaGate::wait_until_reached() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, std::chrono::seconds(20), [&] { return state_->reached; });
}

void CudaGate::open() {
  {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
  }
  state_->changed.notify_all();
}

#if defined(FERRITE_EMULATOR)

bool is_emulated() { return true; }

DeferredStreams::DeferredStreams() : before_(emulator::settings().deferred) {
  emulator::set_deferred(true);
}
DeferredStreams::~DeferredStreams() { emulator::set_deferred(before_); }

SmallDevice::SmallDevice(int device, std::size_t bytes) : device_(device) {
  emulator::set_memory(device, bytes);
}
SmallDevice::~SmallDevice() { emulator::set_memory(device_, emulator::settings().memory); }

LostDevice::LostDevice(int device) { emulator::lose(device); }
LostDevice::~LostDevice() { emulator::reset(); }

NoPeerAccess::NoPeerAccess() { emulator::set_peer_access(false); }
NoPeerAccess::~NoPeerAccess() { emulator::set_peer_access(true); }

ShuffledThreads::ShuffledThreads(std::uint64_t seed)
    : order_before_(static_cast<int>(emulator::settings().order)),
      seed_before_(emulator::settings().seed) {
  emulator::set_order(emulator::Order::shuffled, seed);
}
ShuffledThreads::~ShuffledThreads() {
  emulator::set_order(static_cast<emulator::Order>(order_before_), seed_before_);
}

bool has_context(int device) { return emulator::has_context(device); }

void fail_next_call(const char* name, Failure failure) {
  emulator::fail_next(name, error_of(failure));
}

HostWaits host_waits() {
  const emulator::HostWaits w = emulator::host_waits();
  return {w.synchronizations, w.copies, w.allocations, w.frees};
}

bool has_nccl_processes() {
  MESSAGE("skipped: the emulator's NCCL is for ranks of one process");
  return false;
}
void plant_nccl_error(int device) { emulator::plant_nccl_error(device, ncclRemoteError); }
int live_nccl_communicators() { return emulator::live_nccl_communicators(); }
std::uint64_t nccl_groups() { return emulator::nccl_groups(); }

#else

bool is_emulated() {
  MESSAGE("skipped: needs the emulator");
  return false;
}

DeferredStreams::DeferredStreams() { before_ = false; }
DeferredStreams::~DeferredStreams() = default;
SmallDevice::SmallDevice(int device, std::size_t) : device_(device) {}
SmallDevice::~SmallDevice() = default;
LostDevice::LostDevice(int) {}
LostDevice::~LostDevice() = default;
NoPeerAccess::NoPeerAccess() = default;
NoPeerAccess::~NoPeerAccess() = default;
ShuffledThreads::ShuffledThreads(std::uint64_t seed) { seed_before_ = seed; }
ShuffledThreads::~ShuffledThreads() { order_before_ = 0; }
void fail_next_call(const char*, Failure) {}
HostWaits host_waits() { return {}; }
bool has_context(int) { return false; }
bool has_nccl_processes() { return true; }
void plant_nccl_error(int) {}
int live_nccl_communicators() { return 0; }
std::uint64_t nccl_groups() { return 0; }

#endif

#if FERRITE_HAVE_CUDA

void check_failed_call(Failure failure) {
  const auto launch_rocket = [&] { return error_of(failure); };
  FERRITE_CUDA_CHECK(launch_rocket());
}

int runtime_device() {
  int device = -1;
  FERRITE_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}
void set_runtime_device(int device) { FERRITE_CUDA_CHECK(cudaSetDevice(device)); }

void* native_handle(const Stream& stream) { return cuda::native_stream(stream); }

void enqueue_report(const Stream& stream, const cuda::DeviceReport& report) {
  stream.enqueue([slot = cuda::report_slot(stream), report] { *slot = report; });
}

void fill_bytes(const Stream& stream, void* data, int value, std::size_t bytes) {
  const cuda::DeviceGuard guard(stream.device());
  FERRITE_CUDA_CHECK(cudaMemsetAsync(data, value, bytes, cuda::native_stream(stream)));
}

Graph::Graph(const Stream& stream, const std::function<void()>& body) {
  const cuda::DeviceGuard guard(stream.device());
  const cudaStream_t native = cuda::native_stream(stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  FERRITE_CUDA_CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal));
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(native, &graph);
    cudaGetLastError();
    if (graph) cudaGraphDestroy(graph);
    throw;
  }
  FERRITE_CUDA_CHECK(cudaStreamEndCapture(native, &graph));
  FERRITE_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  FERRITE_CUDA_CHECK(cudaGraphDestroy(graph));
  executable_ = executable;
}
Graph::~Graph() {
  if (executable_) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}
void Graph::replay(const Stream& stream) const {
  const cuda::DeviceGuard guard(stream.device());
  FERRITE_CUDA_CHECK(
      cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), cuda::native_stream(stream)));
}

std::vector<unsigned char> read_bytes(const void* data, std::size_t bytes) {
  std::vector<unsigned char> host(bytes);
  FERRITE_CUDA_CHECK(cudaDeviceSynchronize());
  FERRITE_CUDA_CHECK(cudaMemcpy(host.data(), data, bytes, cudaMemcpyDeviceToHost));
  return host;
}

#else

namespace {
[[noreturn]] void fail_absent() { fail<DeviceError>("test", "this build has no CUDA"); }
}  // namespace

void check_failed_call(Failure) { fail_absent(); }
int runtime_device() { fail_absent(); }
void set_runtime_device(int) { fail_absent(); }
void* native_handle(const Stream&) { fail_absent(); }
void enqueue_report(const Stream&, const cuda::DeviceReport&) { fail_absent(); }
void fill_bytes(const Stream&, void*, int, std::size_t) { fail_absent(); }
Graph::Graph(const Stream&, const std::function<void()>&) { fail_absent(); }
Graph::~Graph() = default;
void Graph::replay(const Stream&) const { fail_absent(); }
std::vector<unsigned char> read_bytes(const void*, std::size_t) { fail_absent(); }

#endif

}  // namespace ferrite::test
