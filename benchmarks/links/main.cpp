// What the collectives of a gloo group take, by whatever connects its ranks: a table in Markdown.
// Started as ranks, and told by the environment what to use:
//   ferrite-run --nproc-per-node=2 bench_links --rounds 15
//   FERRITE_LINK=tcp FERRITE_TCP_INTEGRITY=off ferrite-run --nproc-per-node=2 bench_links
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ops/creation.h"
#include "parallel/comm/process_group.h"

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

double seconds_of(const std::function<void()>& run, int times) {
  parallel::barrier();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < times; ++i) run();
  return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

/// Rank 0 prints the median over the rounds of one call's time, in microseconds.
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
    std::vector<double> seconds;
    seconds_of(operation.run, times);  // connects, and touches the memory
    for (int round = 0; round < rounds; ++round)
      seconds.push_back(seconds_of(operation.run, times));
    if (group.rank() == 0)
      fmt::print("| {} | {} | {:.1f} |\n", operation.name, bytes, 1e6 * median(seconds));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> sizes{1 << 10, 1 << 20, 64 << 20};
  int rounds = 15;
  CLI::App app("collectives of a gloo group, as the environment connects its ranks");
  app.add_option("--bytes", sizes, "sizes, of each rank's tensor")->capture_default_str();
  app.add_option("--rounds", rounds, "how often each is measured")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    parallel::init_process_group("gloo");
    if (parallel::get_rank() == 0)
      fmt::print("| operation | bytes | us |\n| --- | ---: | ---: |\n");
    for (const std::int64_t bytes : sizes) measure(*parallel::default_group(), bytes, rounds);
    parallel::destroy_process_group();
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_links: {}\n", e.what());
    return 1;
  }
}
