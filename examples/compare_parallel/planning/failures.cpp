#include "ferrite/examples/compare_parallel/planning/failures.h"

#include <algorithm>
#include <cmath>

#include "ferrite/core/error.h"

namespace ferrite::planning {

namespace {

constexpr const char* kFailuresOp = "failures";

void check_time(double seconds, const char* what) {
  FERRITE_CHECK(std::isfinite(seconds) && seconds >= 0, ValueError, kFailuresOp,
                "expected a {} of 0 s or more, got {}", what, seconds);
}

}  // namespace

void Failures::check() const {
  FERRITE_CHECK(device_mtbf_s > 0, ValueError, kFailuresOp,
                "expected a mean time between failures above 0 s, got {}", device_mtbf_s);
  check_time(restart_s, "restart");
  check_time(checkpoint_s, "checkpoint");
  check_time(checkpoint_interval_s, "checkpoint interval");
}

double Failures::mtbf_s(std::int64_t devices) const {
  FERRITE_CHECK(devices > 0, ValueError, kFailuresOp, "expected 1 device or more, got {}", devices);
  return device_mtbf_s / static_cast<double>(devices);
}

double young_interval_s(double checkpoint_s, double mtbf_s) {
  return std::sqrt(2 * checkpoint_s * mtbf_s);
}

double daly_interval_s(double checkpoint_s, double mtbf_s) {
  if (checkpoint_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = checkpoint_s / (2 * mtbf_s);
  return young_interval_s(checkpoint_s, mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         checkpoint_s;
}

double checkpoint_interval_s(const Failures& failures, std::int64_t devices) {
  failures.check();
  if (failures.checkpoint_interval_s > 0) return failures.checkpoint_interval_s;
  const double mtbf = failures.mtbf_s(devices);
  if (std::isinf(mtbf)) return mtbf;
  // Free checkpoints would be written all the time; once a second is as good.
  return std::max(1.0, daly_interval_s(failures.checkpoint_s, mtbf));
}

double goodput(const Failures& failures, std::int64_t devices) {
  const double interval = checkpoint_interval_s(failures, devices);
  const double mtbf = failures.mtbf_s(devices);
  if (std::isinf(interval)) return 1;
  if (std::isinf(mtbf)) return interval / (interval + failures.checkpoint_s);
  return interval / (mtbf * std::exp(failures.restart_s / mtbf) *
                     std::expm1((interval + failures.checkpoint_s) / mtbf));
}

}  // namespace ferrite::planning
