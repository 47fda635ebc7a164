// Decides when failed workers are restarted.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "ferrite/parallel/launcher/options.h"

namespace ferrite::launcher {

/// Counts restarts; a start whose workers lived for `restart_reset` or longer resets the count.
/// Before the k-th consecutive restart the wait is backoff * 2^(k-1), at most backoff_max, times a
/// random factor from 0.5 to 1, so that jobs that fail together do not restart together.
class RestartPolicy {
 public:
  RestartPolicy(const Options& options, std::uint64_t seed);

  /// After workers that lived this long have failed: the wait before their restart, or nothing if
  /// they are not restarted.
  std::optional<std::chrono::duration<double>> after(std::chrono::duration<double> lived);
  /// Whether there is a restart left after workers that lived this long.
  bool left(std::chrono::duration<double> lived) const;
  /// Continues another policy's count.
  void follow(int used, int allowed);
  /// Since the count was last reset.
  int used() const { return used_; }
  int allowed() const { return allowed_; }

 private:
  double random();

  int allowed_, used_ = 0;
  double backoff_, longest_, reset_;
  std::uint64_t state_;
};

}  // namespace ferrite::launcher
