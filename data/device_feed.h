// Batches on their way to a device: copied on a stream of their own, one while the device computes
// on the one before it.
//
// The memory of a batch belongs to the stream that will use it, and is set aside before the work on
// the batch before it is queued: the copy then waits for no more of that stream than its memory
// needs, and two batches' memory is enough however far the host runs ahead of the device.
#pragma once

#include <memory>
#include <optional>

#include "ferrite/core/stream.h"
#include "ferrite/data/dataset.h"

namespace ferrite::data {

/// `batch` as DeviceFeed takes it: dense rows on the host, in page-locked memory where `device` is
/// a CUDA device. Tensors that are on `device` stay as they are. May be called by any thread.
Batch staged(const Batch& batch, const Device& device);

/// To be used by one thread; "current stream" is that thread's for the device.
class DeviceFeed {
 public:
  /// Copies run on `stream`, which must not be the host's inline one.
  explicit DeviceFeed(const Stream& stream) : stream_(stream) {}
  /// A copy that is under way keeps its memory.
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  /// Sets memory aside for a batch like this one: the next send() then waits only for what the
  /// current stream holds now.
  void reserve(const Batch& like);
  /// Queues the copy of a staged batch; one at a time. OutOfMemoryError leaves nothing queued.
  void send(const Batch& batch);
  bool has_sent() const { return sent_.has_value(); }
  /// The batch of the last send(), on the device. The current stream waits for the copy, the host
  /// does not.
  Batch receive();

 private:
  using Mark = std::shared_ptr<ferrite::detail::Mark>;
  /// Memory, and what must be over: its earlier use before the copy, then the copy.
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
