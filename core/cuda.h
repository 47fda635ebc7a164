// CUDA devices: what there are, what they are, and which one "cuda" stands for.
//
// Everything here may be called in a build without CUDA and on a machine without a driver, where
// there are simply no devices. CUDA_VISIBLE_DEVICES decides which devices there are.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/core/device.h"

namespace ferrite::cuda {

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  std::size_t total_memory = 0;
  int multiprocessors = 0;
  int warp_size = 0;
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  std::size_t shared_memory_per_block = 0;      ///< without asking
  std::size_t max_shared_memory_per_block = 0;  ///< for kernels that ask
  std::size_t shared_memory_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
  std::size_t l2_cache = 0;
  int clock_khz = 0, memory_clock_khz = 0;  ///< 0 where the driver does not say
  int memory_bus_bits = 0;
  bool integrated = false;  ///< shares its memory with the host
  bool concurrent_kernels = false;
};

/// Read once a device; DeviceError where there is no such device.
const DeviceProperties& properties(int device);

/// Free and total bytes of the device's memory, as all processes see it.
struct MemoryInfo {
  std::size_t free = 0, total = 0;
};
MemoryInfo memory_info(int device);

/// Whether `device` can read and write the memory of `peer` directly.
bool can_access_peer(int device, int peer);

/// The device that Device("cuda") means in this thread: 0 until set. DeviceError for one that is
/// not there.
int current_device();
void set_device(int device);

/// Versions as NVIDIA writes them, "13.0" or "9.8.0"; "none" of a driver that is not there, "not
/// built in" of a library.
struct Versions {
  std::string runtime, driver, cudnn, nccl;
};
Versions versions();
/// Why there is no device; "" where there is one.
std::string why_unavailable();

/// All of the above for people, a block of lines: versions, then every device; where there is none,
/// why.
std::string describe();

// ---- Waiting

/// What happens where the host is about to wait for a CUDA device, which a training step should
/// not do (torch.cuda.set_sync_debug_mode): nothing, a line on stderr, or a CudaError.
enum class SyncDebugMode : std::uint8_t { off, warn, error };
void set_sync_debug_mode(SyncDebugMode mode);
SyncDebugMode sync_debug_mode();
/// Times that the host has waited for a CUDA device so far.
std::uint64_t synchronizations();

namespace detail {
/// CudaError where the mode forbids waiting; `op` is who wants to.
void check_may_wait(std::string_view op);
/// The same, and counts the wait that follows.
void about_to_wait(std::string_view op);
}  // namespace detail

// ---- Profiling

/// Whether ops open NVTX ranges, which Nsight Systems shows: off unless FERRITE_NVTX=1. A build
/// without CUDA takes the setting and does nothing.
void set_profiling(bool on);

namespace detail {
extern std::atomic<bool> profiling;
void push_range(const char* name);
void pop_range();
}  // namespace detail

inline bool is_profiling() { return detail::profiling.load(std::memory_order_relaxed); }

/// A range of the profile, from here to the end of the scope; one read where profiling is off.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) : open_(is_profiling()) {
    if (open_) [[unlikely]]
      detail::push_range(name);
  }
  ~NvtxRange() {
    if (open_) [[unlikely]]
      detail::pop_range();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const bool open_;
};

}  // namespace ferrite::cuda
