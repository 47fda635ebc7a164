// When workers that failed are started again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "ferrite/parallel/launcher/options.h"

namespace ferrite::launcher {

/// Restarts are counted; a start whose workers lived for `restart_reset` or longer gives all back.
/// Before the k-th restart in a row the wait is backoff * 2^(k-1), at most backoff_max, times a
/// random factor from 0.5 to 1, so that jobs that fail together do not come back together.
class RestartPolicy {
 public:
  RestartPolicy(const Options& options, std::uint64_t seed);

  /// After workers that lived so long have failed: how long to wait before they are started again,
  /// or nothing where they are not.
  std::optional<std::chrono::duration<double>> after(std::chrono::duration<double> lived);
  /// Whether there is a restart left after workers that lived so long.
  bool left(std::chrono::duration<double> lived) const;
  /// Goes on from another policy's count.
  void follow(int used, int allowed);
  /// Since they were last given back.
  int used() const { return used_; }
  int allowed() const { return allowed_; }

 private:
  double random();

  int allowed_, used_ = 0;
  double backoff_, longest_, reset_;
  std::uint64_t state_;
};

}  // namespace ferrite::launcher
