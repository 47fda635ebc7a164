#include "ferrite/examples/compare_parallel/planning/event_queue.h"

#include <algorithm>
#include <cmath>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/op_name.h"

namespace ferrite::planning {

void EventQueue::at(double time, Action action) {
  FERRITE_CHECK(std::isfinite(time) && time >= now_, ValueError, kOp,
                "expected an event at {} s or later, got {} s", now_, time);
  events_.push({time, next_++, std::move(action)});
}

void EventQueue::run() {
  while (!events_.empty()) {
    // The event leaves the queue before it is run, as it may add others.
    Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.time;
    ++processed_;
    if (event.action) event.action();
  }
}

void ComputeStream::submit(double seconds, EventQueue::Action done) {
  FERRITE_CHECK(std::isfinite(seconds) && seconds >= 0, ValueError, kOp,
                "expected work of 0 seconds or more, got {}", seconds);
  progress();
  jobs_.push({seconds, std::move(done)});
  if (jobs_.size() == 1) plan();
}

void ComputeStream::set_rate(double rate) {
  FERRITE_CHECK(std::isfinite(rate) && rate >= 0, ValueError, kOp,
                "expected a rate of 0 or more, got {}", rate);
  progress();
  rate_ = rate;
  plan();
}

double ComputeStream::busy_s() const { return busy_ + (jobs_.empty() ? 0 : queue_.now() - since_); }

void ComputeStream::progress() {
  const double elapsed = queue_.now() - since_;
  since_ = queue_.now();
  if (jobs_.empty()) return;
  busy_ += elapsed;
  jobs_.front().left = std::max(0.0, jobs_.front().left - elapsed * rate_);
}

void ComputeStream::plan() {
  ++version_;
  if (jobs_.empty() || (rate_ == 0 && jobs_.front().left > 0)) return;
  const double left = jobs_.front().left;
  queue_.after(left == 0 ? 0 : left / rate_, [this, version = version_] {
    if (version == version_) finish();
  });
}

void ComputeStream::finish() {
  busy_ += queue_.now() - since_;
  since_ = queue_.now();
  const EventQueue::Action done = std::move(jobs_.front().done);
  jobs_.pop();
  plan();
  if (done) done();
}

Link::Link(EventQueue& queue, double bandwidth, double latency, Sharing sharing)
    : queue_(queue), bandwidth_(bandwidth), latency_(latency), sharing_(sharing) {
  FERRITE_CHECK(bandwidth > 0, ValueError, kOp, "expected a bandwidth above 0 bytes/s, got {}",
                bandwidth);
  FERRITE_CHECK(std::isfinite(latency) && latency >= 0, ValueError, kOp,
                "expected a latency of 0 s or more, got {}", latency);
}

void Link::transfer(double bytes, EventQueue::Action arrived) {
  FERRITE_CHECK(std::isfinite(bytes) && bytes >= 0, ValueError, kOp,
                "expected a transfer of 0 bytes or more, got {}", bytes);
  progress();
  bytes_ += bytes;
  transfers_.push_back({bytes, std::move(arrived)});
  if (sharing_ == Sharing::fair || transfers_.size() == 1) plan();
}

/// Bytes a second of each transfer that moves.
double Link::share() const {
  return sharing_ == Sharing::fair ? bandwidth_ / static_cast<double>(transfers_.size())
                                   : bandwidth_;
}

void Link::progress() {
  const double elapsed = queue_.now() - since_;
  since_ = queue_.now();
  if (transfers_.empty() || elapsed == 0) return;
  busy_ += elapsed;
  const double moved = elapsed * share();
  for (auto& transfer : transfers_) {
    transfer.left = std::max(0.0, transfer.left - moved);
    if (sharing_ == Sharing::in_order) break;
  }
}

void Link::plan() {
  ++version_;
  if (transfers_.empty()) return;
  const auto next =
      sharing_ == Sharing::in_order
          ? transfers_.begin()
          : std::min_element(transfers_.begin(), transfers_.end(),
                             [](const Transfer& a, const Transfer& b) { return a.left < b.left; });
  const double delay = std::isinf(bandwidth_) ? 0 : next->left / share();
  queue_.after(delay, [this, next, version = version_] {
    if (version != version_) return;
    progress();
    queue_.after(latency_, std::move(next->arrived));
    transfers_.erase(next);
    plan();
  });
}

}  // namespace ferrite::planning
