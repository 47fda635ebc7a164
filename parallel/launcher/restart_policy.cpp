#include "ferrite/parallel/launcher/restart_policy.h"

#include <algorithm>
#include <cmath>

namespace ferrite::launcher {

RestartPolicy::RestartPolicy(const Options& options, std::uint64_t seed)
    : allowed_(options.max_restarts),
      backoff_(options.restart_backoff),
      longest_(options.restart_backoff_max),
      reset_(options.restart_reset),
      state_(seed) {}

std::optional<std::chrono::duration<double>> RestartPolicy::after(
    std::chrono::duration<double> lived) {
  if (!left(lived)) return std::nullopt;
  if (lived.count() >= reset_) used_ = 0;
  ++used_;
  const double wait = std::min(longest_, std::ldexp(backoff_, std::min(used_ - 1, 60)));
  return std::chrono::duration<double>(wait * (0.5 + 0.5 * random()));
}

bool RestartPolicy::left(std::chrono::duration<double> lived) const {
  return (lived.count() >= reset_ ? 0 : used_) < allowed_;
}

void RestartPolicy::follow(int used, int allowed) {
  used_ = used;
  allowed_ = allowed;
}

/// SplitMix64 (Steele, Lea and Flood 2014), in [0, 1).
double RestartPolicy::random() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

}  // namespace ferrite::launcher
