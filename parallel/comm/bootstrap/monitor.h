// Monitor: the state of a job's ranks, known to each other by heartbeats through the store's
// server. It detects ranks that died, stopped or lag behind, tells all others within a heartbeat,
// and names them in errors.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ferrite::parallel::bootstrap {

class Monitor {
 public:
  virtual ~Monitor() = default;

  /// Reports this rank's position: that it has begun an operation (its number in the group and
  /// description, "all_reduce of float32[1024]"), or ended it.
  virtual void begin(const std::string& group, std::uint64_t sequence, std::string_view op) = 0;
  virtual void end(const std::string& group, std::uint64_t sequence) = 0;

  /// Tells all ranks that `group` failed, and why.
  virtual void report_failure(const std::string& group, std::string_view reason) = 0;
  /// Calls `f(reason)`, in a thread of the monitor and at most once, when a rank of the job was
  /// lost or has reported a failure of `group`.
  virtual void watch(const std::string& group,
                     std::function<void(const std::string& reason)> f) = 0;
  virtual void unwatch(const std::string& group) = 0;

  /// Names the rank to blame if operation `sequence` of `group` does not end, based on the ranks'
  /// last reports: "rank 2 stopped answering 3.1 s ago, before all_reduce number 57", "rank 1
  /// has not begun it: its last operation is broadcast number 56, ended 4.0 s ago", or "" if
  /// unknown. Takes at most a second, even if the server is lost.
  virtual std::string blame(const std::string& group, std::uint64_t sequence) = 0;
};

}  // namespace ferrite::parallel::bootstrap
