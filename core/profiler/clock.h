// The profiler's clock: ticks that take a few nanoseconds to read, converted to nanoseconds later.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

namespace ferrite::profiler::detail {

using FakeClock = std::uint64_t (*)();
/// Set by tests, whose ticks are nanoseconds.
inline constinit std::atomic<FakeClock> fake_clock{nullptr};
/// Whether the processor's time stamp counter runs at a constant rate, equal on all cores.
extern const bool has_steady_counter;
std::uint64_t steady_nanoseconds();

inline std::uint64_t ticks() {
  if (const FakeClock fake = fake_clock.load(std::memory_order_relaxed)) [[unlikely]]
    return fake();
#if defined(__x86_64__)
  if (has_steady_counter) [[likely]]
    return __rdtsc();
#endif
  return steady_nanoseconds();
}

/// One moment on the profiler's clock and on std::chrono::steady_clock.
struct Moment {
  std::uint64_t ticks = 0, nanoseconds = 0;
  static Moment now();
};

/// The line through two moments.
class Calibration {
 public:
  Calibration(const Moment& first, const Moment& last);
  /// Nanoseconds since the first moment.
  std::int64_t nanoseconds(std::uint64_t ticks) const;
  std::int64_t duration(std::uint64_t ticks) const;

 private:
  const std::uint64_t origin_;
  double per_tick_ = 1;
};

}  // namespace ferrite::profiler::detail
