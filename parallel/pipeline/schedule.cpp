#include "ferrite/parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/core/error.h"

namespace ferrite::parallel {

namespace {

void check_counts(int stages, int micro_batches) {
  FERRITE_CHECK(
      stages > 0 && micro_batches > 0, ValueError, "pipeline",
      "expected one stage and one micro-batch or more, got {} stages and {} micro-batches", stages,
      micro_batches);
}

}  // namespace

std::vector<ScheduledRun> gpipe_schedule(int stages, int micro_batches, PipelinePhase phase) {
  check_counts(stages, micro_batches);
  const int ticks = stages + micro_batches - 1;
  std::vector<ScheduledRun> runs;
  runs.reserve(static_cast<std::size_t>(stages) * static_cast<std::size_t>(micro_batches));
  for (int tick = 0; tick < ticks; ++tick) {
    const int clock = phase == PipelinePhase::forward ? tick : ticks - 1 - tick;
    for (int stage = std::min(clock, stages - 1); stage >= 0 && clock - stage < micro_batches;
         --stage)
      runs.push_back({tick, stage, clock - stage});
  }
  return runs;
}

double bubble_fraction(int stages, int micro_batches) {
  check_counts(stages, micro_batches);
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

std::string schedule_chart(std::span<const ScheduledRun> schedule) {
  int ticks = 0, stages = 0, last = 0;
  for (const ScheduledRun& run : schedule) {
    ticks = std::max(ticks, run.tick + 1);
    stages = std::max(stages, run.stage + 1);
    last = std::max(last, run.micro_batch);
  }
  const std::size_t width = fmt::format("{}", last).size();
  std::string chart;
  for (int stage = 0; stage < stages; ++stage) {
    chart += fmt::format("stage {} |", stage);
    for (int tick = 0; tick < ticks; ++tick) {
      const auto run = std::ranges::find_if(
          schedule, [&](const ScheduledRun& r) { return r.tick == tick && r.stage == stage; });
      chart += fmt::format(
          " {:>{}}", run == schedule.end() ? "." : fmt::format("{}", run->micro_batch), width);
    }
    chart += '\n';
  }
  return chart;
}

}  // namespace ferrite::parallel
