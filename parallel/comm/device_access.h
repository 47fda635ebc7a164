// Access for host code to tensors of any device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel::comm {

/// The work that a tensor's device had queued when an operation on the tensor was called.
class QueuedWork {
 public:
  QueuedWork() = default;
  /// The work on the device's current stream. CudaError, naming `op`, if that is being captured
  /// into a graph, which cannot contain host work.
  QueuedWork(const Device& device, const char* op);

  /// Whether it is done.
  bool done() const { return !mark_ || mark_->passed(); }
  /// Waits for it, unless interrupted.
  void wait(const links::Interrupt& interrupt) const;

 private:
  std::shared_ptr<ferrite::detail::Mark> mark_;
};

/// Waits until a stream has passed the mark, unless interrupted.
void wait_for(ferrite::detail::Mark& mark, const links::Interrupt& interrupt);

/// Page-locked memory in place of the memory of a CUDA tensor.
class StagedTensor {
 public:
  StagedTensor() = default;
  explicit StagedTensor(const Tensor& tensor);

  /// Null if there is no tensor, or an empty one.
  void* data() const { return staged_.defined() ? staged_.data_ptr() : direct_; }
  /// Copies from the device, or to it, and waits.
  void fetch(const links::Interrupt& interrupt) const;
  void put_back(const links::Interrupt& interrupt) const;

 private:
  enum class Direction : std::uint8_t { to_host, to_device };
  void copy(Direction direction, const links::Interrupt& interrupt) const;

  Tensor tensor_, staged_;
  void* direct_ = nullptr;  // set if the tensor is in host memory
};

/// Waits for another thread: spins for some microseconds, then sleeps for increasing times, up to a
/// millisecond. It never yields: on a busy machine that costs a time slice of another computing
/// process, while a sleeping thread runs as soon as it is woken.
class Backoff {
 public:
  void pause();
  void reset() { turns_ = 0; }
  /// Whether pause() would sleep: then wait for a notification instead, if there is one.
  bool patient() const { return turns_ >= kSpins; }

 private:
  static constexpr int kSpins = 256;
  int turns_ = 0;
};

}  // namespace ferrite::parallel::comm
