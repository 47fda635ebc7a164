// The times of the collectives of a gloo group, for the links that the environment selects: a table
// in Markdown. To be started as ranks:
//   ferrite-run --nproc-per-node=2 bench_links --rounds 15
//   FERRITE_LINK=tcp FERRITE_TCP_INTEGRITY=off ferrite-run --nproc-per-node=2 bench_links
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ferrite/benchmarks/program.h"
#include "ferrite/core/tensor.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/process_group.h"

namespace {

using namespace ferrite;
using Clock = std::chrono::steady_clock;

struct Operation {
  const char* name;
  std::function<void()> run;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// The cost of one call.
struct Cost {
  double seconds, processor_seconds;
};

Cost cost_of(const std::function<void()>& run, int times) {
  parallel::barrier();
  const double used = processor_seconds();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < times; ++i) run();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return {seconds / times, (processor_seconds() - used) / times};
}

/// Rank 0 prints the medians over the rounds, in microseconds. The processor time shows the cost of
/// a call even if other programs share the processor.
void measure(parallel::ProcessGroup& group, std::int64_t bytes, int rounds) {
  const std::int64_t n = bytes / 4;
  const Tensor values = ones({n}), all = empty({n * group.size()});
  const Operation operations[] = {
      {"all_reduce", [&] { group.all_reduce(values, parallel::ReduceOp::max).wait(); }},
      {"broadcast", [&] { group.broadcast(values, 0).wait(); }},
      {"all_gather", [&] { group.all_gather(all, values).wait(); }},
  };
  const int times = static_cast<int>(std::clamp<std::int64_t>((16 << 20) / bytes, 1, 200));
  for (const Operation& operation : operations) {
    std::vector<double> seconds, processor;
    cost_of(operation.run, times);  // also connects and touches the memory
    for (int round = 0; round < rounds; ++round) {
      const Cost cost = cost_of(operation.run, times);
      seconds.push_back(cost.seconds);
      processor.push_back(cost.processor_seconds);
    }
    if (group.rank() == 0)
      fmt::print("| {} | {} | {:.1f} | {:.1f} |\n", operation.name, bytes, 1e6 * median(seconds),
                 1e6 * median(processor));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> sizes{1 << 10, 1 << 20, 64 << 20};
  int rounds = 15;
  CLI::App app("Times the collectives of a gloo group over the links that the environment selects");
  app.option_defaults()->group("Measurement");
  app.add_option("--bytes", sizes, "sizes of each rank's tensor")->capture_default_str();
  app.add_option("--rounds", rounds, "measurements per operation and size")->capture_default_str();
  return bench::run(app, argc, argv, [&] {
    parallel::init_process_group("gloo");
    if (parallel::get_rank() == 0)
      fmt::print("| operation | bytes | us | processor us |\n| --- | ---: | ---: | ---: |\n");
    for (const std::int64_t bytes : sizes) measure(*parallel::default_group(), bytes, rounds);
    parallel::destroy_process_group();
  });
}
