// Tensors of any device where code of the host can work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel::comm {

/// What a tensor's device had queued when an operation on it was called.
class QueuedWork {
 public:
  QueuedWork() = default;
  /// What the current stream of the device holds. CudaError, naming `op`, where that is being
  /// captured into a graph, of which work of the host cannot be part.
  QueuedWork(const Device& device, const char* op);

  /// Whether it is done.
  bool done() const { return !mark_ || mark_->passed(); }
  /// Waits for it, as long as `interrupt` lets it.
  void wait(const links::Interrupt& interrupt) const;

 private:
  std::shared_ptr<ferrite::detail::Mark> mark_;
};

/// Page-locked memory that stands for the memory of a CUDA device's tensor.
class StagedTensor {
 public:
  StagedTensor() = default;
  explicit StagedTensor(const Tensor& tensor);

  /// Null where there is no tensor, or an empty one.
  void* data() const { return staged_.defined() ? staged_.data_ptr() : direct_; }
  /// Copies from the device, or to it, and waits.
  void fetch(const links::Interrupt& interrupt) const;
  void put_back(const links::Interrupt& interrupt) const;

 private:
  enum class Direction : std::uint8_t { to_host, to_device };
  void copy(Direction direction, const links::Interrupt& interrupt) const;

  Tensor tensor_, staged_;
  void* direct_ = nullptr;  // where the tensor's own memory is the host's
};

/// Waits for what another thread does: spins for some microseconds, then sleeps for ever longer, up
/// to a millisecond. It never yields: on a busy machine that costs a time slice of somebody who
/// computes, where one who sleeps is run as soon as it is woken.
class Backoff {
 public:
  void pause();
  void reset() { turns_ = 0; }
  /// Whether pause() would sleep: time to wait for a notification, where there is one.
  bool patient() const { return turns_ >= kSpins; }

 private:
  static constexpr int kSpins = 256;
  int turns_ = 0;
};

}  // namespace ferrite::parallel::comm
