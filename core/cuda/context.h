// What the process keeps of each CUDA device that it has used: streams, events and report slots.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ferrite/core/cuda/stream.h"

namespace ferrite::cuda::detail {

/// Lets this thread make calls that a capture on any thread would forbid by default (allocating,
/// querying events), which is right for those that touch nothing that is captured.
class CaptureRelaxed {
 public:
  CaptureRelaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~CaptureRelaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  CaptureRelaxed(const CaptureRelaxed&) = delete;
  CaptureRelaxed& operator=(const CaptureRelaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// CUDA events of one device, used again and again.
class EventPool {
 public:
  explicit EventPool(int device) : device_(device) {}
  cudaEvent_t take(Timing timing);
  void give_back(cudaEvent_t event, Timing timing) noexcept;

 private:
  const int device_;
  std::mutex mutex_;
  std::array<std::vector<cudaEvent_t>, 2> free_;  // by timing
};

/// Made on the first use of a device, never destroyed.
class Context {
 public:
  explicit Context(int device);

  int device() const { return device_; }
  CudaStream& default_stream() { return *default_; }
  CudaStream& pooled_stream(StreamPriority priority);
  /// For captures alone: what others put on a stream while it is captured would become part of the
  /// graph. Its user holds the lock.
  std::pair<CudaStream*, std::unique_lock<std::mutex>> capture_stream();
  /// Those made so far.
  std::vector<CudaStream*> streams();
  EventPool& events() { return events_; }

 private:
  static constexpr std::size_t kPoolSize = 8;
  static constexpr std::size_t kSlots = 2 * kPoolSize + 2;
  struct Pool {
    std::array<CudaStream*, kPoolSize> streams{};
    std::size_t next = 0;
  };

  CudaStream* add(unsigned flags, StreamPriority priority);

  const int device_;
  EventPool events_;
  DeviceReport* reports_ = nullptr;  // kSlots of them, in memory of the host
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::array<Pool, 2> pools_;  // by priority
  CudaStream* default_ = nullptr;
  CudaStream* capture_ = nullptr;
  std::mutex capture_turn_;
};

Context& context(int device);

/// The device that is current as far as the program knows. A guard that ends does not go back to a
/// device which the process has not used, for that would take memory there; this remembers it.
int intended_device();
/// Makes `device` current; returns the one that was intended until now.
int go_to(int device);
void return_to(int device) noexcept;
/// For calls that need any device, the best first: those that the process uses already, else the
/// intended one. Several, as one may be lost.
std::vector<int> devices_for_any_call();

}  // namespace ferrite::cuda::detail
