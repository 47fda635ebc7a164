// Batches on their way to a device: copied on a separate stream, each while the device computes on
// the previous one.
//
// The memory of a batch belongs to the stream that will use it, and is reserved before the work on
// the previous batch is queued. The copy then waits only for the part of that stream that used the
// memory, and memory for two batches suffices however far the host runs ahead of the device.
#pragma once

#include <memory>
#include <optional>

#include "ferrite/core/stream.h"
#include "ferrite/data/dataset.h"

namespace ferrite::data {

/// `batch` in the form that DeviceFeed takes: dense rows on the host, in page-locked memory if
/// `device` is a CUDA device. Tensors that are on `device` stay as they are. Thread-safe.
Batch staged(const Batch& batch, const Device& device);

/// Not thread-safe; "current stream" means that of the calling thread for the device.
class DeviceFeed {
 public:
  /// Copies run on `stream`, which must not be the host's inline one.
  explicit DeviceFeed(const Stream& stream) : stream_(stream) {}
  /// A running copy keeps its memory alive.
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  /// Reserves memory for a batch like this one: the next send() then waits only for the work that
  /// the current stream holds now.
  void reserve(const Batch& like);
  /// Queues the copy of a staged batch, one at a time. After OutOfMemoryError nothing is queued.
  void send(const Batch& batch);
  bool has_sent() const { return sent_.has_value(); }
  /// The batch of the last send(), on the device. The current stream waits for the copy, the host
  /// does not.
  Batch receive();

 private:
  using Mark = std::shared_ptr<ferrite::detail::Mark>;
  /// Memory and its dependencies: the copy waits for its earlier use, the consumer for the copy.
  struct Landing {
    Batch batch;
    Mark over;
  };

  Landing allot(const Batch& like) const;
  void copy(Tensor& to, const Tensor& from) const;

  const Stream stream_;
  std::optional<Landing> reserved_, sent_;
};

}  // namespace ferrite::data
