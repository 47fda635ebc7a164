// Monitor: what the ranks of a group of processes know of each other's state, by a heartbeat over
// the store's server. It finds ranks that died, stopped or lag behind, tells all others within a
// heartbeat, and names them in errors.
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

  /// Where this rank is: the operation it has begun (its number in the group and what it is,
  /// "all_reduce of float32[1024]"), or that it has ended it.
  virtual void begin(const std::string& group, std::uint64_t sequence, std::string_view op) = 0;
  virtual void end(const std::string& group, std::uint64_t sequence) = 0;

  /// Tells all ranks that `group` failed, and why.
  virtual void report_failure(const std::string& group, std::string_view reason) = 0;
  /// `f(reason)` is called, in a thread of the monitor's and at most once, when a rank of the job
  /// was lost or has reported a failure of `group`.
  virtual void watch(const std::string& group,
                     std::function<void(const std::string& reason)> f) = 0;
  virtual void unwatch(const std::string& group) = 0;

  /// Who is to blame that operation `sequence` of `group` does not end, as well as the ranks' last
  /// reports tell: "rank 2 has stopped answering 3.1 s ago, before all_reduce number 57", "rank 1
  /// has not begun it: its last operation is broadcast number 56, ended 4.0 s ago", or "" where
  /// nobody knows. Takes at most a second, whatever has become of the server.
  virtual std::string blame(const std::string& group, std::uint64_t sequence) = 0;
};

}  // namespace ferrite::parallel::bootstrap
