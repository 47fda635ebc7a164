// Batches on their way to a device: copied on a separate stream, each while the device computes on
// the previous one.
//
// The memory of a batch belongs to the stream that will use it, and is reserved before the work on
// the previous batch is queued. The copy then waits only for the part of that stream that used the
// memory, and memory for two batches suffices however far the host runs ahead of the device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// A tensor of a batch in the form that DeviceFeed takes: dense rows on the host, in page-locked
/// memory if `device` is a CUDA device. Tensors that are on `device`, and undefined ones, stay as
/// they are. Thread-safe.
Tensor staged(const Tensor& tensor, const Device& device);

/// A batch is its tensors. Not thread-safe; "current stream" means that of the calling thread for
/// the device.
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
  void reserve(std::span<Tensor* const> like);
  /// Queues the copy of a staged batch, one at a time. After OutOfMemoryError nothing is queued.
  void send(std::span<Tensor* const> batch);
  bool has_sent() const { return sent_.has_value(); }
  /// Replaces `batch` by that of the last send(), on the device. The current stream waits for the
  /// copy, the host does not.
  void receive(std::span<Tensor* const> batch);

 private:
  using Mark = std::shared_ptr<ferrite::detail::Mark>;
  /// Memory and its dependencies: the copy waits for its earlier use, the consumer for the copy.
  struct Landing {
    std::vector<Tensor> batch;
    Mark over;
  };

  Landing allot(std::span<Tensor* const> like) const;
  void copy(Tensor& to, const Tensor& from) const;

  const Stream stream_;
  std::optional<Landing> reserved_, sent_;
};

}  // namespace ferrite::data
