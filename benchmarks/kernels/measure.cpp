#include "ferrite/benchmarks/kernels/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ferrite::bench {

namespace {

constexpr double kTurn = 5e-3;  // target duration of a turn in seconds
constexpr int kTurns = 5;       // at least
constexpr int kMaxCopies = 64, kMaxCalls = 2000;

class Timer {
 public:
  Timer(const Device& device, const std::vector<Run>& runs)
      : stream_(current_stream(device)), runs_(runs) {}

  /// Seconds per call, over `calls` in a row.
  double turn(int calls) {
    const bool events = stream_.device().is_cuda();
    Event start, end;
    if (events) start.record(stream_);
    const auto clock = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) runs_[next_++ % runs_.size()].call(stream_);
    if (events) end.record(stream_);
    stream_.synchronize();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - clock;
    return (events ? end.elapsed_ms(start) * 1e-3 : elapsed.count()) / calls;
  }

 private:
  Stream stream_;
  const std::vector<Run>& runs_;
  std::size_t next_ = 0;
};

}  // namespace

Measurement measure(const Spec& spec, const Device& device, const MeasureOptions& options) {
  std::vector<Run> runs{prepare(spec, device)};
  const double copies = std::ceil(options.cold_bytes / std::max(runs[0].bytes, 1.0));
  while (static_cast<double>(runs.size()) < copies && runs.size() < kMaxCopies)
    runs.push_back(prepare(spec, device));
  Measurement result{.bytes = runs[0].bytes, .flops = runs[0].flops};

  Timer timer(device, runs);
  const double once = std::min(timer.turn(1), options.budget > 0 ? timer.turn(1) : 1.0);
  std::vector<double> times{once};
  if (options.budget > 0) {
    const int calls =
        static_cast<int>(std::clamp(kTurn / std::max(once, 1e-9), 1.0, kMaxCalls * 1.0));
    timer.turn(calls);
    times.clear();
    for (double total = 0; total < options.budget || times.size() < kTurns;) {
      times.push_back(timer.turn(calls));
      total += times.back() * calls;
    }
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  result.seconds = *middle;
  return result;
}

}  // namespace ferrite::bench
