// StepTimes: when buckets became ready and were communicated.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "ferrite/parallel/comm/work.h"
#include "ferrite/parallel/reports/reports.h"

namespace ferrite::parallel::ddp {

/// Clock readings of running steps; they are summed up when the report is requested, or when the
/// next step begins.
class StepTimes {
 public:
  explicit StepTimes(std::size_t buckets = 0) : step_(buckets), sums_(buckets) {}

  void begin();
  void ready(std::size_t bucket) { step_[bucket].ready = Clock::now(); }
  void launched(std::size_t bucket, const Work& work) { step_[bucket].work = work; }
  void backward_ended() { backward_ended_ = Clock::now(); }
  /// The step is over. Its operations may still be running on a device.
  void end() { ended_ = true; }

  /// Fills in the averages.
  void fill(DDPReport& report);

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    Clock::time_point ready;
    Work work;
  };
  struct Sum {
    double ready = 0, begun = 0, ended = 0;
  };
  void add_up();

  std::vector<Step> step_;
  std::vector<Sum> sums_;
  Clock::time_point begun_, backward_ended_;
  bool ended_ = false;
  std::int64_t steps_ = 0, timed_ = 0;
  double backward_ = 0, communication_ = 0, exposed_ = 0;
};

}  // namespace ferrite::parallel::ddp
