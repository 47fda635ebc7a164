#include "ferrite/metrics/timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ferrite/core/error.h"

namespace ferrite::metrics {

// ---- Timer

double Timer::seconds() const {
  const Clock::duration total = running_ ? before_ + (Clock::now() - start_) : before_;
  return std::chrono::duration<double>(total).count();
}

void Timer::pause() {
  if (!running_) return;
  before_ += Clock::now() - start_;
  running_ = false;
}

void Timer::resume() {
  if (running_) return;
  start_ = Clock::now();
  running_ = true;
}

// ---- DeviceTimer

void DeviceTimer::start() {
  FERRITE_CHECK(!running_, ValueError, "DeviceTimer", "start() again before stop()");
  start_ = Event();
  start_.record(current_stream(device_));
  running_ = true;
}

void DeviceTimer::stop() {
  FERRITE_CHECK(running_, ValueError, "DeviceTimer", "stop() without start()");
  Event end;
  end.record(current_stream(device_));
  under_way_.emplace_back(start_, std::move(end));
  running_ = false;
  ++count_;
  collect();
}

// Sums the finished intervals, so that long runs do not hold one event pair per step.
void DeviceTimer::collect() {
  for (; !under_way_.empty(); under_way_.pop_front()) {
    const auto& [first, last] = under_way_.front();
    if (!first.query() || !last.query()) return;
    seconds_ += last.elapsed_ms(first) / 1000;
  }
}

double DeviceTimer::seconds() {
  for (const auto& [first, last] : under_way_) last.synchronize();
  collect();
  return seconds_;
}

void DeviceTimer::reset() { *this = DeviceTimer(device_); }

// ---- Throughput

Throughput::Throughput(std::size_t window) : window_(window) {
  FERRITE_CHECK(window > 0, ValueError, "Throughput", "expected a window of 1 or more, got 0");
}

void Throughput::update(std::int64_t n) {
  total_ += n;
  points_.push_back({timer_.seconds(), total_});
  if (points_.size() > window_ + 1) points_.pop_front();
}

double Throughput::rate() const {
  const double seconds = timer_.seconds();
  return seconds > 0 ? static_cast<double>(total_) / seconds : 0;
}

double Throughput::recent() const {
  const Point &first = points_.front(), &last = points_.back();
  const double seconds = last.seconds - first.seconds;
  return seconds > 0 ? static_cast<double>(last.total - first.total) / seconds : 0;
}

void Throughput::reset() { *this = Throughput(window_); }

// ---- For people

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e15) return "?";
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  const std::int64_t days = s / 86400, hours = s / 3600 % 24;
  const std::int64_t minutes = s / 60 % 60, rest = s % 60;
  if (days > 0)
    return fmt::format("{} day{} {}:{:02}:{:02}", days, days == 1 ? "" : "s", hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

std::string format_eta(std::int64_t done, std::int64_t total, double seconds) {
  if (done <= 0) return "?";
  const auto left = static_cast<double>(std::max<std::int64_t>(total - done, 0));
  return format_duration(seconds * left / static_cast<double>(done));
}

}  // namespace ferrite::metrics
