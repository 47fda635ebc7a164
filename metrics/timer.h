// Elapsed time, throughput and estimated time left.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "ferrite/core/device.h"
#include "ferrite/core/stream.h"

namespace ferrite::metrics {

/// Wall time. Starts on construction; the time between pause() and resume() does not count.
class Timer {
 public:
  double seconds() const;
  /// Stops counting; does nothing if paused.
  void pause();
  /// Goes on after a pause; does nothing if running.
  void resume();
  /// Whether it is measuring.
  bool running() const { return running_; }
  /// Restarts from 0, running.
  void reset() { *this = Timer(); }

 private:
  using Clock = std::chrono::steady_clock;

  bool running_ = true;
  Clock::duration before_{};  // accumulated until the last pause
  Clock::time_point start_ = Clock::now();
};

/// Device time of the work between start() and stop(), measured by events on its current stream:
/// the host does not wait before seconds(). For `cpu` it is wall time. Not for work recorded into a
/// CUDA graph: put the replay between start() and stop().
class DeviceTimer {
 public:
  explicit DeviceTimer(const Device& device) : device_(device) {}

  /// ValueError if already started, or not started.
  void start();
  /// Ends the measurement.
  void stop();
  /// Total of all stopped intervals. Waits for the last of them.
  double seconds();
  /// Number of those intervals.
  std::int64_t count() const { return count_; }
  /// Discards them all; does not wait.
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

/// Images (tokens, steps) per second. A device may still be working on what update() counted; the
/// figures are exact right after the host has waited for it.
class Throughput {
 public:
  /// recent() covers this many updates. ValueError for 0.
  explicit Throughput(std::size_t window = 20);

  void update(std::int64_t n);
  /// Since the start, excluding pauses; 0 if no time has passed.
  double rate() const;
  /// Over the last updates.
  double recent() const;
  std::int64_t total() const { return total_; }
  double seconds() const { return timer_.seconds(); }

  /// For evaluation and checkpoints in between, which should not count.
  void pause() { timer_.pause(); }
  /// Goes on after a pause.
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

/// "0:07", "1:02:03", "2 days 1:02:03"; "?" if `seconds` is negative or not finite.
std::string format_duration(double seconds);

/// The estimated time left, formatted by format_duration(), after `done` of `total` steps took
/// `seconds`; "?" if nothing is done.
std::string format_eta(std::int64_t done, std::int64_t total, double seconds);

}  // namespace ferrite::metrics
