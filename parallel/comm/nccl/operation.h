// One operation on a group's stream, and the handle on it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ferrite/core/device.h"
#include "ferrite/core/stream.h"
#include "ferrite/parallel/comm/nccl/failure.h"
#include "ferrite/parallel/comm/work.h"

namespace ferrite::parallel::nccl {

using Clock = std::chrono::steady_clock;
using ferrite::detail::Mark;
using ferrite::detail::Timing;

/// A mark of the stream, and its host time: the reference for device times.
struct Base {
  std::shared_ptr<Mark> mark;
  Clock::time_point time;
};

struct Operation {
  std::uint64_t sequence = 0;  ///< 1 for the first of its group
  const char* op = "";         ///< "all_reduce"
  std::string what;            ///< "all_reduce of float32[1024]"
  bool captured = false;       ///< part of a graph: its progress cannot be queried
  std::shared_ptr<Mark> begin,
      end;  // on the group's stream; `begin` only if not captured
  std::shared_ptr<const Base> base;
  std::atomic<bool> ended{false};         // successfully, as seen by the watchdog
  std::optional<Clock::time_point> seen;  // set by the watchdog when it sees the operation begin
};

enum class Waiting { device, host };

class OperationWork final : public detail::WorkState {
 public:
  /// `waiting`: where wait() waits.
  OperationWork(const Device& device, std::shared_ptr<Operation> operation,
                std::shared_ptr<const Failure> failure, Waiting waiting)
      : device_(device),
        operation_(std::move(operation)),
        failure_(std::move(failure)),
        waiting_(waiting) {}

  bool done() override;
  void wait() override;
  void synchronize() override;
  std::optional<std::pair<Clock::time_point, Clock::time_point>> ran() override;

 private:
  bool failed() const { return failure_->is_set() && !operation_->ended; }

  const Device device_;
  const std::shared_ptr<Operation> operation_;
  const std::shared_ptr<const Failure> failure_;
  const Waiting waiting_;
};

}  // namespace ferrite::parallel::nccl
