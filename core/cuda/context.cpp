#include "ferrite/core/cuda/context.h"

#include <atomic>
#include <cstring>

#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/error.h"

namespace ferrite::cuda::detail {

// ---- EventPool

cudaEvent_t EventPool::take(Timing timing) {
  {
    std::lock_guard lock(mutex_);
    auto& free = free_[static_cast<std::size_t>(timing)];
    if (!free.empty()) {
      cudaEvent_t event = free.back();
      free.pop_back();
      return event;
    }
  }
  const DeviceGuard guard(device_);
  const CaptureRelaxed relaxed;
  cudaEvent_t event = nullptr;
  FERRITE_CUDA_CHECK(cudaEventCreateWithFlags(
      &event, timing == Timing::wanted ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}

void EventPool::give_back(cudaEvent_t event, Timing timing) noexcept {
  std::lock_guard lock(mutex_);
  free_[static_cast<std::size_t>(timing)].push_back(event);
}

// ---- Context

Context::Context(int device) : device_(device), events_(device) {
  default_ = add(cudaStreamDefault, StreamPriority::normal);
}

CudaStream* Context::add(unsigned flags, StreamPriority priority) {
  const DeviceGuard guard(device_);
  const CaptureRelaxed relaxed;
  const std::size_t slot = streams_.size() % kSlots;
  if (slot == 0) {
    void* slots = nullptr;
    FERRITE_CUDA_CHECK(cudaHostAlloc(&slots, kSlots * sizeof(DeviceReport),
                                     cudaHostAllocPortable | cudaHostAllocMapped));
    std::memset(slots, 0, kSlots * sizeof(DeviceReport));
    reports_ = static_cast<DeviceReport*>(slots);
  }
  int least = 0, greatest = 0;
  FERRITE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t native = nullptr;
  FERRITE_CUDA_CHECK(cudaStreamCreateWithPriority(
      &native, flags, priority == StreamPriority::high ? greatest : least));
  return streams_
      .emplace_back(
          std::make_unique<CudaStream>(Device(DeviceType::cuda, device_), native, reports_ + slot))
      .get();
}

CudaStream& Context::pooled_stream(StreamPriority priority) {
  std::lock_guard lock(mutex_);
  Pool& pool = pools_[static_cast<std::size_t>(priority)];
  CudaStream*& slot = pool.streams[pool.next++ % kPoolSize];
  if (!slot) slot = add(cudaStreamNonBlocking, priority);
  return *slot;
}

CudaStream& Context::take_stream(StreamPriority priority) {
  std::lock_guard lock(mutex_);
  auto& given = given_[static_cast<std::size_t>(priority)];
  if (given.empty()) return *add(cudaStreamNonBlocking, priority);
  CudaStream* const stream = given.back();
  given.pop_back();
  return *stream;
}

void Context::give_back(CudaStream& stream, StreamPriority priority) noexcept {
  std::lock_guard lock(mutex_);
  given_[static_cast<std::size_t>(priority)].push_back(&stream);
}

std::pair<CudaStream*, std::unique_lock<std::mutex>> Context::capture_stream() {
  std::unique_lock turn(capture_turn_);
  std::lock_guard lock(mutex_);
  if (!capture_) capture_ = add(cudaStreamNonBlocking, StreamPriority::normal);
  return {capture_, std::move(turn)};
}

std::vector<CudaStream*> Context::streams() {
  std::lock_guard lock(mutex_);
  std::vector<CudaStream*> all;
  for (const auto& stream : streams_) all.push_back(stream.get());
  return all;
}

namespace {

struct Contexts {
  std::array<std::atomic<Context*>, Device::kMaxIndex + 1> by_device{};
  std::mutex mutex;
};

Contexts& contexts() {
  static Contexts& instance = *new Contexts;  // never destroyed: static tensors may still be freed
  return instance;
}

}  // namespace

Context& context(int device) {
  auto& slot = contexts().by_device[static_cast<std::size_t>(device)];
  if (Context* existing = slot.load(std::memory_order_acquire)) [[likely]]
    return *existing;
  std::lock_guard lock(contexts().mutex);
  if (Context* existing = slot.load(std::memory_order_relaxed)) return *existing;
  auto* made = new Context(device);
  slot.store(made, std::memory_order_release);
  return *made;
}

// ---- The current device

namespace {

std::array<std::atomic<bool>, Device::kMaxIndex + 1> used{};  // devices made current so far

/// A device that should be current but was not set in the runtime, and the device that was current
/// in the runtime at that time. If the runtime's device has changed since, the program has made its
/// own choice.
struct PendingDevice {
  int device = -1;
  int instead = -1;
};
thread_local PendingDevice pending;

/// Whether the process has a context on `device`, which may be of code that does not know Ferrite;
/// false if the driver does not say. The runtime has no such function.
bool has_context(int device) {
  using GetState = int (*)(int device, unsigned* flags, int* active);
  static const GetState state = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned kVersion = 7000;  // of CUDA, which introduced it
    if (cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function, kVersion,
                                         cudaEnableDefault, &found) != cudaSuccess)
      cudaGetLastError();
    return found == cudaDriverEntryPointSuccess ? reinterpret_cast<GetState>(function) : nullptr;
  }();
  unsigned flags = 0;
  int active = 0;
  return state && state(device, &flags, &active) == 0 && active != 0;
}

}  // namespace

int intended_device() {
  int now = 0;
  FERRITE_CUDA_CHECK(cudaGetDevice(&now));
  return pending.device >= 0 && pending.instead == now ? pending.device : now;
}

int set_device(int device) {
  int now = 0;
  FERRITE_CUDA_CHECK(cudaGetDevice(&now));
  const int intended = pending.device >= 0 && pending.instead == now ? pending.device : now;
  // The program's own calls may have used the device that is left here; they go on there then.
  if (now != device)
    if (auto& left = used[static_cast<std::size_t>(now)];
        !left.load(std::memory_order_relaxed) && has_context(now))
      left.store(true, std::memory_order_relaxed);
  // Even if it is already current: a thread starts on device 0 without having used it.
  auto& known = used[static_cast<std::size_t>(device)];
  if (now != device || !known.load(std::memory_order_relaxed)) {
    FERRITE_CUDA_CHECK(cudaSetDevice(device));
    known.store(true, std::memory_order_relaxed);
  }
  pending = {};
  return intended;
}

void restore_device(int device) noexcept {
  int now = 0;
  pending = {};
  if (used[static_cast<std::size_t>(device)].load(std::memory_order_relaxed))
    cudaSetDevice(device);
  else if (cudaGetDevice(&now) == cudaSuccess)
    pending = {.device = device, .instead = now};
}

std::vector<int> devices_for_any_call() {
  const auto is_used = [](int device) {
    return used[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
  };
  const int intended = intended_device();
  std::vector<int> devices;
  if (is_used(intended)) devices.push_back(intended);
  for (int i = 0; i <= Device::kMaxIndex; ++i)
    if (i != intended && is_used(i)) devices.push_back(i);
  if (devices.empty()) devices.push_back(intended);
  return devices;
}

}  // namespace ferrite::cuda::detail
