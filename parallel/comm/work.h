// Work: the handle on a pending collective.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ferrite::parallel {

namespace detail {

/// A backend's implementation of an operation. Thread-safe.
class WorkState {
 public:
  virtual ~WorkState() = default;
  /// Whether it has ended, successfully or not.
  virtual bool done() = 0;
  /// See Work::wait() and Work::synchronize(): DistributedError if it failed.
  virtual void wait() = 0;
  virtual void synchronize() { wait(); }
  /// The time span of the operation itself; nothing if it has not ended, or is unknown.
  virtual std::optional<
      std::pair<std::chrono::steady_clock::time_point, std::chrono::steady_clock::time_point>>
  ran() {
    return std::nullopt;
  }
};

}  // namespace detail

/// A cheap handle; copies share the operation. Destroying it neither waits nor cancels: the
/// operation keeps its tensors alive. An operation starts after the work on the caller's current
/// stream of the tensors' device at the call. Do not touch the tensors before wait().
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<detail::WorkState> state) : state_(std::move(state)) {}

  /// Whether there is an operation.
  bool defined() const { return state_ != nullptr; }
  /// Whether it has ended; never waits.
  bool is_completed() const { return !state_ || state_->done(); }
  /// After it the result may be used by work of the caller's current stream of the tensors' device.
  /// Blocks the host for groups that communicate through the host (gloo, local); for nccl only the
  /// device waits, which can be captured into a graph. DistributedError if the operation failed,
  /// naming it and, if known, the rank to blame.
  void wait() const {
    if (state_) state_->wait();
  }
  /// Blocks the host until the result is available, whatever the backend.
  void synchronize() const {
    if (state_) state_->synchronize();
  }
  /// Start and end of the operation, including the wait for other ranks.
  auto ran() const { return state_ ? state_->ran() : std::nullopt; }

 private:
  std::shared_ptr<detail::WorkState> state_;
};

}  // namespace ferrite::parallel
