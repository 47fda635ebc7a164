#include "ferrite/core/profiler/clock.h"

#include <chrono>
#include <cmath>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ferrite::profiler::detail {

namespace {

bool find_steady_counter() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

const bool has_steady_counter = find_steady_counter();

std::uint64_t steady_nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Moment Moment::now() {
  if (fake_clock.load(std::memory_order_relaxed)) {
    const std::uint64_t t = detail::ticks();
    return {t, t};
  }
  // Several samples are taken; the one interrupted least is kept.
  Moment best;
  std::uint64_t least = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before = detail::ticks();
    const std::uint64_t nanoseconds = steady_nanoseconds();
    const std::uint64_t after = detail::ticks();
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2, nanoseconds};
  }
  return best;
}

Calibration::Calibration(const Moment& first, const Moment& last) : origin_(first.ticks) {
  if (last.ticks > first.ticks && last.nanoseconds > first.nanoseconds)
    per_tick_ = static_cast<double>(last.nanoseconds - first.nanoseconds) /
                static_cast<double>(last.ticks - first.ticks);
}

std::int64_t Calibration::nanoseconds(std::uint64_t ticks) const {
  return ticks >= origin_ ? duration(ticks - origin_) : -duration(origin_ - ticks);
}

std::int64_t Calibration::duration(std::uint64_t ticks) const {
  return std::llround(static_cast<double>(ticks) * per_tick_);
}

}  // namespace ferrite::profiler::detail
