// Streams and events: one interface for ordering work on every device.
//
// The host device "cpu" runs work at once in the calling thread. Each virtual device "cpu:i", and
// each stream made by Stream::create for the host, has a worker thread: work is queued and runs in
// order, as on a GPU, and its exceptions are rethrown by the next synchronize(). A stream of
// "cuda:i" is a CUDA stream (core/cuda/stream.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "ferrite/core/device.h"

namespace ferrite {

class Event;

/// High: scheduled first where the device supports priorities. Worker threads do not.
enum class StreamPriority : std::uint8_t { normal, high };

namespace detail {
/// A point in a stream's work.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Whether the work up to here is done.
  virtual bool passed() = 0;
  /// Blocks the calling thread until it is.
  virtual void wait() = 0;
  /// Time from `start` to here; nothing if the two cannot be compared or one has not passed.
  virtual std::optional<double> milliseconds_since(Mark& start) = 0;
};

enum class Timing : std::uint8_t { none, wanted };

/// A queue of work. Streams are pooled and never destroyed. When the process ends, work queued on a
/// worker still runs, and work submitted after that runs in the caller.
class StreamImpl {
 public:
  StreamImpl(Device device, std::uint32_t id, bool inline_execution)
      : device(device), id(id), runs_inline(inline_execution) {}
  virtual ~StreamImpl() = default;
  virtual void submit(std::function<void()> work) = 0;
  /// Waits until all work submitted is done.
  virtual void synchronize() = 0;
  /// Whether everything submitted has run.
  virtual bool idle() const = 0;
  /// Marks the work submitted up to here.
  virtual std::shared_ptr<Mark> record(Timing timing) = 0;
  /// Work submitted from here on runs after `mark`.
  virtual void wait(const std::shared_ptr<Mark>& mark) = 0;

  const Device device;
  const std::uint32_t id;  ///< unique in the process; 0 is the host's inline stream
  const bool runs_inline;
};
}  // namespace detail

/// A lightweight handle on a stream.
class Stream {
 public:
  /// The host's inline stream.
  Stream();
  /// A separate stream for `device`, from a pool of eight per device and priority, handed out
  /// round-robin.
  static Stream create(const Device& device, StreamPriority priority = StreamPriority::normal);

  const Device& device() const { return impl_->device; }
  /// The number of the stream on its device.
  std::uint32_t id() const { return impl_->id; }

  /// Runs `work` on this stream: at once if the stream is inline, else queued. On a CUDA stream it
  /// runs in a driver thread, must not use CUDA, and cannot become part of a graph (CudaError
  /// during capture).
  template <class F>
  void enqueue(F&& work) const {
    if (impl_->runs_inline) [[likely]]
      work();
    else
      impl_->submit(std::function<void()>(std::forward<F>(work)));
  }
  /// Blocks until all work is done; rethrows the first exception of the work. On a CUDA stream that
  /// includes errors that kernels reported (IndexError, ValueError) or failed with (CudaError).
  void synchronize() const { impl_->synchronize(); }
  /// Whether all its work is done.
  bool query() const { return impl_->idle(); }

  /// Later work on this stream starts after `event`, or after the work now queued on `other`. The
  /// host's inline stream, and a CUDA stream that waits for a worker thread, block the caller
  /// instead, because they cannot defer their work.
  void wait(const Event& event) const;
  void wait(const Stream& other) const;

  friend bool operator==(const Stream& a, const Stream& b) { return a.impl_ == b.impl_; }
  explicit Stream(detail::StreamImpl* impl) : impl_(impl) {}
  detail::StreamImpl* impl() const { return impl_; }

 private:
  detail::StreamImpl* impl_;
};

/// A point in a stream's work. Copies share it; all members may be called from any thread.
class Event {
 public:
  Event();
  /// Marks the work queued on `stream` up to here. May be called again, also with another stream;
  /// existing waits still refer to the earlier mark.
  void record(const Stream& stream);
  /// Whether the marked work is done; true if nothing was recorded.
  bool query() const;
  /// Waits until the work before the event is done.
  void synchronize() const;
  /// Milliseconds from `start` to this event; both must be done, and both on workers or on one CUDA
  /// device (ValueError).
  double elapsed_ms(const Event& start) const;

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

/// The stream for a device's work unless a StreamGuard sets another.
Stream default_stream(const Device& device);
/// This thread's stream for `device`.
Stream current_stream(const Device& device);
/// Waits for every stream of `device`; then rethrows the first exception of their work.
void synchronize(const Device& device);

namespace detail {
/// For stream implementations: ids are unique in the process.
std::uint32_t next_stream_id();
/// As synchronize(), but leaves exceptions of the work for its owner to collect.
void drain(const Device& device);
/// Whether the caller runs as work on a stream: waiting for queues would then wait for itself.
bool on_worker_thread();
/// Whether the caller runs as `stream`'s own work.
bool running_in(const StreamImpl* stream);
/// Marks this thread as running work of `stream` for the scope of the object.
class RunningIn {
 public:
  explicit RunningIn(const StreamImpl* stream);
  ~RunningIn();
  RunningIn(const RunningIn&) = delete;
  RunningIn& operator=(const RunningIn&) = delete;

 private:
  const StreamImpl* previous_;
};
}  // namespace detail

/// Makes `stream` this thread's current stream for its device for the scope of the guard.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Device device_;
  detail::StreamImpl* previous_;  // null: the default stream
};

}  // namespace ferrite
