// Work: the handle on a collective that is under way.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ferrite::parallel {

namespace detail {

/// What a backend makes of an operation. All members may be called from any thread.
class WorkState {
 public:
  virtual ~WorkState() = default;
  /// Whether it has ended, well or not.
  virtual bool done() = 0;
  /// See Work::wait() and Work::synchronize(): DistributedError where it failed.
  virtual void wait() = 0;
  virtual void synchronize() { wait(); }
  /// When the operation itself ran; nothing while it has not ended, or where nobody knows.
  virtual std::optional<
      std::pair<std::chrono::steady_clock::time_point, std::chrono::steady_clock::time_point>>
  ran() {
    return std::nullopt;
  }
};

}  // namespace detail

/// A cheap handle; copies share. Letting it go neither waits nor cancels: the operation keeps the
/// tensors it works on alive. An operation starts after what its caller's current stream of the
/// tensors' device held when it was called, and until wait() nobody may touch the tensors.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<detail::WorkState> state) : state_(std::move(state)) {}

  bool defined() const { return state_ != nullptr; }
  /// Whether it has ended; never waits.
  bool is_completed() const { return !state_ || state_->done(); }
  /// After it the result may be used by work of the caller's current stream of the tensors' device.
  /// Waits in the host for groups that work in the host (gloo, local); on the device alone for
  /// nccl, which can be captured into a graph. DistributedError where the operation failed, naming
  /// it and, where that is known, the rank that is to blame.
  void wait() const {
    if (state_) state_->wait();
  }
  /// Waits in the host until the result is there, whatever the backend.
  void synchronize() const {
    if (state_) state_->synchronize();
  }
  /// From when to when the operation ran, waiting for other ranks included.
  auto ran() const { return state_ ? state_->ran() : std::nullopt; }

 private:
  std::shared_ptr<detail::WorkState> state_;
};

}  // namespace ferrite::parallel
