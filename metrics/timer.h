// How long things take, and how long they will.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "ferrite/core/device.h"
#include "ferrite/core/stream.h"

namespace ferrite::metrics {

/// Wall time. Runs from its construction on, but for the time between pause() and resume().
class Timer {
 public:
  double seconds() const;
  /// Does nothing where it is paused, or runs, already.
  void pause();
  void resume();
  bool running() const { return running_; }
  /// From 0 on, running.
  void reset() { *this = Timer(); }

 private:
  using Clock = std::chrono::steady_clock;

  bool running_ = true;
  Clock::duration before_{};  // until the last pause
  Clock::time_point start_ = Clock::now();
};

/// Time that a device takes for what stands between start() and stop(), by events on its current
/// stream: the host waits for none of it until seconds() is asked. Of `cpu` it is wall time.
/// Not for what a CUDA graph records: put the replay between start() and stop().
class DeviceTimer {
 public:
  explicit DeviceTimer(const Device& device) : device_(device) {}

  /// ValueError where it was started, or was not.
  void start();
  void stop();
  /// Of all stretches that were stopped. Waits for the last of them.
  double seconds();
  /// How many those are.
  std::int64_t count() const { return count_; }
  /// Forgets them all; waits for nothing.
  void reset();

 private:
  using Stretch = std::pair<Event, Event>;

  void collect();

  Device device_;
  bool running_ = false;
  Event start_;
  std::deque<Stretch> under_way_;
  double seconds_ = 0;
  std::int64_t count_ = 0;
};

/// Images (tokens, steps) a second. A device may still be at work on what update() was told of:
/// right after the host has waited for it the figures are exact.
class Throughput {
 public:
  /// recent() looks back over so many updates. ValueError for 0.
  explicit Throughput(std::size_t window = 20);

  void update(std::int64_t n);
  /// Since the start, pauses left out; 0 where no time has passed.
  double rate() const;
  /// Over the last updates.
  double recent() const;
  std::int64_t total() const { return total_; }
  double seconds() const { return timer_.seconds(); }

  /// For evaluation and checkpoints in between, which are not to count.
  void pause() { timer_.pause(); }
  void resume() { timer_.resume(); }
  void reset();

 private:
  struct Point {
    double seconds;
    std::int64_t total;
  };

  std::size_t window_;
  Timer timer_;
  std::int64_t total_ = 0;
  std::deque<Point> points_{{0, 0}};
};

/// "0:07", "1:02:03", "2 days 1:02:03"; "?" where `seconds` is negative or not finite.
std::string format_duration(double seconds);

/// The time left, by format_duration(), where `done` of `total` steps took `seconds`; "?" where
/// nothing is done.
std::string format_eta(std::int64_t done, std::int64_t total, double seconds);

}  // namespace ferrite::metrics
