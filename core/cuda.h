// CUDA devices: enumeration, properties, and the device that "cuda" refers to.
//
// Everything here may be called in a build without CUDA and on a machine without a driver, where no
// devices are found. CUDA_VISIBLE_DEVICES selects the visible devices.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/core/device.h"

namespace ferrite::cuda {

/// What a CUDA device is and can do, as the driver reports it.
struct DeviceProperties {
  std::string name;               ///< the name of the device, such as "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;       ///< the compute capability, such as 9.0
  std::size_t total_memory = 0;   ///< bytes of the device's memory
  int multiprocessors = 0;        ///< the number of multiprocessors
  int warp_size = 0;              ///< the number of threads of a warp: 32
  int max_threads_per_block = 0;  ///< the most threads of a block
  /// The most threads that a multiprocessor holds at a time.
  int max_threads_per_multiprocessor = 0;
  std::size_t shared_memory_per_block = 0;           ///< bytes, without opt-in
  std::size_t max_shared_memory_per_block = 0;       ///< bytes, with opt-in
  std::size_t shared_memory_per_multiprocessor = 0;  ///< bytes of shared memory of a multiprocessor
  int registers_per_multiprocessor = 0;  ///< the number of 32-bit registers of a multiprocessor
  std::size_t l2_cache = 0;              ///< bytes of the L2 cache
  /// The peak clocks of the multiprocessors and of the memory, in kHz; 0 if the driver does not
  /// report them.
  int clock_khz = 0, memory_clock_khz = 0;
  int memory_bus_bits = 0;          ///< the width of the bus to the memory, in bits
  bool integrated = false;          ///< whether it shares its memory with the host
  bool concurrent_kernels = false;  ///< whether kernels of several streams can run at the same time
};

/// Read once per device; DeviceError if the device does not exist.
const DeviceProperties& properties(int device);

/// Free and total bytes of the device's memory, as all processes see it.
struct MemoryInfo {
  std::size_t free = 0;   ///< bytes of the device's memory that are free
  std::size_t total = 0;  ///< bytes of the device's memory
};
/// Free and total bytes of the device's memory, as all processes see it. DeviceError if the device
/// does not exist.
MemoryInfo memory_info(int device);

/// Whether `device` can read and write the memory of `peer` directly.
bool can_access_peer(int device, int peer);

/// The device that Device("cuda") refers to in this thread: 0 until set. DeviceError for a device
/// that does not exist.
int current_device();
/// Sets the device that Device("cuda") refers to in this thread. DeviceError if the device does not
/// exist.
void set_device(int device);

/// Versions as NVIDIA writes them, "13.0" or "9.8.0"; "none" if there is no driver, "not built in"
/// for a library that is missing from the build.
struct Versions {
  std::string runtime;  ///< the version of the CUDA runtime
  std::string driver;   ///< the newest version of CUDA that the driver supports
  std::string cudnn;    ///< the version of cuDNN
  std::string nccl;     ///< the version of NCCL
};
/// The versions of CUDA and of its libraries.
Versions versions();
/// Why no device is available; "" if one is.
std::string why_unavailable();

/// All of the above as human-readable lines: versions, then every device, or the reason why there
/// is none.
std::string describe();

// ---- Waiting

/// What to do when the host is about to wait for a CUDA device, which a training step should avoid
/// (torch.cuda.set_sync_debug_mode): nothing, print a line on stderr, or throw CudaError.
enum class SyncDebugMode : std::uint8_t { off, warn, error };
/// Sets what happens when the host waits for a CUDA device: nothing (off, the default), a line on
/// stderr, or a CudaError.
void set_sync_debug_mode(SyncDebugMode mode);
/// What set_sync_debug_mode() set.
SyncDebugMode sync_debug_mode();
/// Number of times the host has waited for a CUDA device so far.
std::uint64_t synchronizations();

namespace detail {
/// CudaError if the mode forbids waiting; `op` names the caller in the message.
void check_may_wait(std::string_view op);
/// As check_may_wait(), and counts the wait that follows.
void about_to_wait(std::string_view op);
}  // namespace detail

// ---- Profiling

/// Whether ops open NVTX ranges, which Nsight Systems shows: off unless FERRITE_NVTX=1. Has no
/// effect in a build without CUDA.
void set_profiling(bool on);

namespace detail {
extern std::atomic<bool> profiling;
void push_range(const char* name);
void pop_range();
}  // namespace detail

/// Whether ranges are sent to Nsight Systems.
inline bool is_profiling() { return detail::profiling.load(std::memory_order_relaxed); }

/// An NVTX range from here to the end of the scope; costs one read when profiling is off.
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
