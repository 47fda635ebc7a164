#include "ferrite/parallel/ddp/timing.h"

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
  std::vector<std::pair<double, double>> ran;  // since the start of the step
  for (const Step& s : step_) {
    const auto times = s.work.ran();
    if (!times) return;
    ran.emplace_back(ms(times->first - begun_), ms(times->second - begun_));
  }
  ++timed_;
  backward_ += ms(backward_ended_ - begun_);
  for (std::size_t b = 0; b < step_.size(); ++b) {
    sums_[b].ready += ms(step_[b].ready - begun_);
    sums_[b].begun += ran[b].first;
    sums_[b].ended += ran[b].second;
  }
  const reports::Overlap step = reports::overlap(std::move(ran), ms(backward_ended_ - begun_));
  communication_ += step.total;
  exposed_ += step.exposed;
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
