// Why a group can no longer be used: shared by its operations, its watchdog and the monitor.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "ferrite/core/error.h"

namespace ferrite::parallel::nccl {

/// Thread-safe.
class Failure {
 public:
  enum class From { here, others };

  /// Returns whether this was the first failure, which is kept. `from`: whether others know it
  /// already.
  bool set(std::string_view reason, From from = From::here) {
    std::lock_guard lock(mutex_);
    if (is_set()) return false;
    reason_ = reason;
    from_ = from;
    set_.store(true, std::memory_order_release);
    return true;
  }

  bool is_set() const { return set_.load(std::memory_order_acquire); }
  /// Valid once it is set.
  const std::string& reason() const { return reason_; }
  From from() const { return from_; }

  /// DistributedError if it is set.
  void check(std::string_view op) const {
    FERRITE_CHECK(!is_set(), DistributedError, op, "{}", reason());
  }

 private:
  std::atomic<bool> set_{false};
  std::mutex mutex_;
  std::string reason_;
  From from_ = From::here;
};

}  // namespace ferrite::parallel::nccl
