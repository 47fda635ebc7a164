#include "ferrite/parallel/ddp/timing.h"

#include <algorithm>
#include <utility>

namespace ferrite::parallel::ddp {

namespace {

double ms(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

}  // namespace

void StepTimes::begin() {
  add_up();
  for (Step& s : step_) s = {};
  begun_ = Clock::now();
}

void StepTimes::add_up() {
  if (!std::exchange(ended_, false)) return;
  ++steps_;
  std::vector<std::pair<Clock::time_point, Clock::time_point>> ran;
  for (const Step& s : step_) {
    const auto times = s.work.ran();
    if (!times) return;
    ran.push_back(*times);
  }
  ++timed_;
  backward_ += ms(backward_ended_ - begun_);
  for (std::size_t b = 0; b < step_.size(); ++b) {
    sums_[b].ready += ms(step_[b].ready - begun_);
    sums_[b].begun += ms(ran[b].first - begun_);
    sums_[b].ended += ms(ran[b].second - begun_);
  }
  std::ranges::sort(ran);
  Clock::time_point counted = begun_;  // up to here
  for (const auto& [from, to] : ran) {
    const Clock::time_point start = std::max(from, counted);
    if (to <= start) continue;
    communication_ += ms(to - start);
    exposed_ += ms(std::max(to, backward_ended_) - std::max(start, backward_ended_));
    counted = to;
  }
}

void StepTimes::fill(DDPReport& report) {
  add_up();
  report.steps = steps_;
  report.timed = timed_;
  if (timed_ == 0) return;
  const auto n = static_cast<double>(timed_);
  report.backward_ms = backward_ / n;
  report.communication_ms = communication_ / n;
  report.exposed_ms = exposed_ / n;
  for (std::size_t b = 0; b < sums_.size(); ++b) {
    report.buckets[b].ready_ms = sums_[b].ready / n;
    report.buckets[b].begun_ms = sums_[b].begun / n;
    report.buckets[b].ended_ms = sums_[b].ended / n;
  }
}

}  // namespace ferrite::parallel::ddp
