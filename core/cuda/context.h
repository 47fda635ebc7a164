// Per-device state of the process: streams, events and report slots of each CUDA device it has
// used.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ferrite/core/cuda/stream.h"

namespace ferrite::cuda::detail {

/// Lets this thread make calls that a capture on any thread forbids by default (allocating,
/// querying events). Safe for calls that touch nothing being captured.
class CaptureRelaxed {
 public:
  CaptureRelaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~CaptureRelaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  CaptureRelaxed(const CaptureRelaxed&) = delete;
  CaptureRelaxed& operator=(const CaptureRelaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Reusable CUDA events of one device.
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

/// Created on first use of a device, never destroyed.
class Context {
 public:
  explicit Context(int device);

  int device() const { return device_; }
  CudaStream& default_stream() { return *default_; }
  CudaStream& pooled_stream(StreamPriority priority);
  /// A stream outside the pools, which is the caller's until it gives it back.
  CudaStream& take_stream(StreamPriority priority);
  void give_back(CudaStream& stream, StreamPriority priority) noexcept;
  /// Used for captures only: work that other code puts on a stream while it is captured would
  /// become part of the graph. The caller holds the lock while it uses the stream.
  std::pair<CudaStream*, std::unique_lock<std::mutex>> capture_stream();
  /// The streams created so far.
  std::vector<CudaStream*> streams();
  EventPool& events() { return events_; }

 private:
  static constexpr std::size_t kPoolSize = 8;
  static constexpr std::size_t kSlots = 32;
  struct Pool {
    std::array<CudaStream*, kPoolSize> streams{};
    std::size_t next = 0;
  };

  CudaStream* add(unsigned flags, StreamPriority priority);

  const int device_;
  EventPool events_;
  DeviceReport* reports_ = nullptr;  // kSlots entries, in host memory, of the latest streams
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::array<Pool, 2> pools_;                      // by priority
  std::array<std::vector<CudaStream*>, 2> given_;  // back, by priority
  CudaStream* default_ = nullptr;
  CudaStream* capture_ = nullptr;
  std::mutex capture_turn_;
};

Context& context(int device);

/// A stream outside the pools of Stream::create: no other user's work is queued on it.
class OwnStream {
 public:
  OwnStream(const Device& device, StreamPriority priority)
      : context_(context(device.index())),
        priority_(priority),
        stream_(context_.take_stream(priority)) {}
  ~OwnStream() { context_.give_back(stream_, priority_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  Stream get() const { return Stream(&stream_); }

 private:
  Context& context_;
  const StreamPriority priority_;
  CudaStream& stream_;
};

/// The device that the program regards as current. When a guard ends, the runtime is not switched
/// back to a device that the process has not used, because that would allocate memory there; this
/// function still returns that device.
int intended_device();
/// Makes `device` current and returns the previous intended_device().
int set_device(int device);
/// Makes `device` the intended device, and the runtime's current one if the process has used it.
void restore_device(int device) noexcept;
/// Devices for calls that work on any device, in order of preference: those the process already
/// uses, else the intended one. More than one is returned because a device may be lost.
std::vector<int> devices_for_any_call();

}  // namespace ferrite::cuda::detail
