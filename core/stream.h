// Streams and events: one vocabulary for ordering work on every device.
//
// The host device "cpu" runs work in the calling thread, at once. Each virtual device "cpu:i", and
// each stream made by Stream::create, has a worker thread: work is queued and runs in order, as on
// a GPU, and what it throws is rethrown by the next synchronize().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "core/device.h"

namespace ferrite {

class Event;

namespace detail {
/// A queue of work. Streams are pooled and never destroyed. When the process ends, what is queued
/// still runs, and what is submitted after that runs in the caller.
class StreamImpl {
 public:
  StreamImpl(Device device, std::uint32_t id, bool inline_execution)
      : device(device), id(id), runs_inline(inline_execution) {}
  virtual ~StreamImpl() = default;
  virtual void submit(std::function<void()> work) = 0;
  virtual void synchronize() = 0;
  /// Whether everything submitted has run.
  virtual bool idle() const = 0;

  const Device device;
  const std::uint32_t id;  ///< unique in the process; 0 is the host's inline stream
  const bool runs_inline;
};
}  // namespace detail

/// A cheap handle on a stream.
class Stream {
 public:
  /// The host's inline stream.
  Stream();
  /// A stream of its own for `device`, from a pool of eight a device, handed out in turn.
  static Stream create(const Device& device);

  const Device& device() const { return impl_->device; }
  std::uint32_t id() const { return impl_->id; }

  /// Runs `work` on this stream: at once where the stream is inline, else queued.
  template <class F>
  void enqueue(F&& work) const {
    if (impl_->runs_inline) [[likely]]
      work();
    else
      impl_->submit(std::function<void()>(std::forward<F>(work)));
  }
  /// Blocks until all work is done; rethrows the first exception the work threw.
  void synchronize() const { impl_->synchronize(); }
  bool query() const { return impl_->idle(); }

  /// What comes later on this stream starts after `event`, or after what `other` holds now.
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
  /// Marks the work queued on `stream` up to here; may be called again, on another stream too, and
  /// leaves those who wait for the earlier mark waiting for that.
  void record(const Stream& stream);
  /// Whether the marked work is done; true where nothing was recorded.
  bool query() const;
  void synchronize() const;
  /// Milliseconds from `start` to this event; both must be done (ValueError).
  double elapsed_ms(const Event& start) const;

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

/// The stream that a device's work goes to unless a StreamGuard says otherwise.
Stream default_stream(const Device& device);
/// This thread's stream for `device`.
Stream current_stream(const Device& device);
/// Waits for every stream of `device`; then rethrows the first exception that their work threw.
void synchronize(const Device& device);

namespace detail {
/// As synchronize(), but leaves exceptions of the work for its owner to collect.
void drain(const Device& device);
/// Whether the caller is work on a worker stream: waiting for queues would then wait for itself.
bool on_worker_thread();
}  // namespace detail

/// Makes `stream` this thread's current stream for its device until the guard goes.
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
